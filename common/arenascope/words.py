"""The words of a command line: options by the start of their names, and how far a word is something to be looked at."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Iterable, Optional, Sequence

from .errors import UsageError

ELF = b"\x7fELF"
NOT, UNLIKELY, MAYBE, SURELY = range(4)
"""How far a word is a process or core: an address, any word, an existing file or number, one that runs or is ELF."""


def full_names(words: Sequence[str], names: Sequence[str], usage: str, also: Sequence[str] = ()) -> list[str]:
    """Options by their whole names, wherever their start is clear: --lim is --limit, and so is -limit, as GDB's users
    write it. `also` are options of the door's own, which stand behind those of the command."""
    found: list[str] = []
    for word in words:
        found.append(word if "--" in found else _full_name(word, (names, also), usage))
    return found


def _full_name(word: str, known: Iterable[Sequence[str]], usage: str) -> str:
    name, sign, value = word.partition("=")
    start = name.lstrip("-")
    if name[:1] != "-" or not start[:1].isalpha():
        # no option: a word, a number below 0, an expression
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
    """One of the four."""
    if word.isascii() and word.isdigit() and not os.path.exists(word):
        return SURELY if os.path.exists(f"/proc/{word}") else MAYBE
    if not os.path.isfile(word):
        # a device or FIFO is not opened: that may wait for somebody, or do something
        return NOT if word[:2].lower() == "0x" else UNLIKELY
    if is_elf(word):
        return SURELY
    return NOT if import_module(f"{__package__}.snapshot").looks_like_one(word) else MAYBE


def likeliest(words: Sequence[str], at_least: int) -> Optional[int]:
    """Which of the words most looks like a process or core, the first of equals."""
    found = max(range(len(words)), key=lambda index: likeness(words[index]), default=None)
    return None if found is None or likeness(words[found]) < at_least else found


def is_elf(path: str) -> bool:
    """Whether it is a core, or a program."""
    try:
        with open(path, "rb") as file:
            return file.read(len(ELF)) == ELF
    except OSError:
        return False
