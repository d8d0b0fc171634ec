"""Parses words of a command line: pids, patterns, what a mistyped word means, and whether a file is a core."""

from __future__ import annotations

import fnmatch
import os
import re
from difflib import get_close_matches
from typing import Callable, Iterable, Optional

from .errors import UsageError

MOST = 3
"""At most so many are suggested."""


def like(word: str, known: Iterable[str]) -> list[str]:
    """Returns the most similar names, the best match first; case and leading dashes do not count."""
    by_plain = {_plain(each): each for each in known}
    return [by_plain[each] for each in get_close_matches(_plain(word), by_plain, MOST)]


def with_suggestion(word: str, known: Iterable[str], hint: Optional[str] = None) -> Optional[str]:
    """Returns the hint after a suggestion of what was probably meant; either may be missing."""
    found = like(word, known)
    meant = [f"did you mean {' or '.join(found)}?"] if found else []
    return " ".join([*meant, *([hint] if hint else [])]) or None


def _plain(word: str) -> str:
    return word.lstrip("-").lower()


ELF = b"\x7fELF"
ORDER_AT, BIG = 5, b"\2"
"""EI_DATA, and ELFDATA2MSB."""
TYPE_AT, PROGRAM_TYPES = 16, (2, 3)
"""e_type, and ET_EXEC and ET_DYN."""

SCRIPTS = (".py", ".pl", ".rb", ".js", ".mjs", ".cjs", ".sh", ".php", ".jar")


PROCESSES = "/proc/"


def pid_in(word: str) -> Optional[str]:
    """Returns the pid of digits (unless a file has that name) or of the folder /proc/PID; None for anything else."""
    number = word[len(PROCESSES) :] if word.startswith(PROCESSES) else word
    is_number = number.isascii() and number.isdigit()
    return number if is_number and (number != word or not os.path.exists(word)) else None


def is_url(word: str) -> bool:
    """Tells whether it names a file of a store, and not a local file by its path."""
    return "://" in word


def is_elf(path: str) -> bool:
    """Tells whether it is a regular file that is a core or a program."""
    # a FIFO is not opened: that may block
    return os.path.isfile(path) and _beginning(path, len(ELF)) == ELF


def is_program(path: str) -> bool:
    """Tells whether it is a regular file that is a program or a library, of which only symbols can be read."""
    if not os.path.isfile(path):
        # a device or FIFO is not opened: that may block, or have an effect
        return False
    header = _beginning(path, TYPE_AT + 2)
    type = int.from_bytes(header[TYPE_AT:], "big" if header[ORDER_AT : ORDER_AT + 1] == BIG else "little")
    return header[: len(ELF)] == ELF and type in PROGRAM_TYPES


def is_script(path: str) -> bool:
    """Tells whether it is a regular file that an interpreter runs, by its name or its first line."""
    return os.path.isfile(path) and (path.endswith(SCRIPTS) or _beginning(path, 2) == b"#!")


def _beginning(path: str, size: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except OSError:
        return b""


LONGEST = 1000
"""The most characters in a pattern."""
Matches = Callable[[str], bool]


def shell_pattern(pattern: str) -> Matches:
    """Compiles a pattern, which matches whole names, and its own text: `char[16]` finds the type of that name, too."""
    if len(pattern) > LONGEST:
        raise UsageError(f"a pattern of {len(pattern):,} characters is too long", f"{LONGEST:,} at most")
    # since Python 3.9 no `*` is tried again once the rest has matched: the time grows with the name, not with its power
    match = re.compile(fnmatch.translate(pattern.replace("[]", "[[]]"))).match
    return lambda name: name == pattern or match(name) is not None
