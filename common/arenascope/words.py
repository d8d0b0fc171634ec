"""The words of a command line: options by the start of their names, and how much a word looks like a subject."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Iterable, Optional, Sequence

from .errors import UsageError

ELF = b"\x7fELF"
NOT, UNLIKELY, MAYBE, SURELY = range(4)
"""How much a word looks like a process or core: an address least, then a word, a file or number, a live or ELF one."""


def full_names(words: Sequence[str], names: Sequence[str], usage: str, also: Sequence[str] = ()) -> list[str]:
    """Options by their whole names, wherever their start is clear: --lim is --limit, and so is -limit, as GDB's users
    write it. `also` are options of the door's own, which come after those of the command."""
    whole: list[str] = []
    for word in words:
        whole.append(word if "--" in whole else _full_name(word, (names, also), usage))
    return whole


def _full_name(word: str, known: Iterable[Sequence[str]], usage: str) -> str:
    name, sign, value = word.partition("=")
    start = name.lstrip("-")
    if name[:1] != "-" or not start[:1].isalpha():
        # not an option: a word, a negative number, an expression
        return word
    for names in known:
        if name in names:
            return word
        matches = [each for each in names if each.startswith(f"--{start}")]
        if f"--{start}" in matches:
            matches = [f"--{start}"]
        if len(matches) > 1:
            raise UsageError(f"{name} could be {' or '.join(sorted(matches))}", usage)
        if matches:
            return f"{matches[0]}{sign}{value}"
    raise UsageError(f"there is no option {name}", usage)


def likeness(word: str) -> int:
    """One of these four."""
    if word.isascii() and word.isdigit() and not os.path.exists(word):
        return SURELY if os.path.exists(f"/proc/{word}") else MAYBE
    if not os.path.isfile(word):
        # a device or FIFO is not opened: that may block, or have an effect
        return NOT if word[:2].lower() == "0x" else UNLIKELY
    if is_elf(word):
        return SURELY
    return NOT if import_module(f"{__package__}.snapshot").looks_like_one(word) else MAYBE


def likeliest(words: Sequence[str], at_least: int) -> Optional[int]:
    """Which of the words most looks like a process or core, the first of equals."""
    best = max(range(len(words)), key=lambda index: likeness(words[index]), default=None)
    return None if best is None or likeness(words[best]) < at_least else best


def is_elf(path: str) -> bool:
    """Whether it is a core, or a program."""
    try:
        with open(path, "rb") as file:
            return file.read(len(ELF)) == ELF
    except OSError:
        return False
