"""Which word of a command line names the process or core to look at."""

from __future__ import annotations

import os
from typing import Optional, Sequence

from ..base.argv import is_elf

NOT, UNLIKELY, MAYBE, SURELY = range(4)
"""How much a word looks like a process or core: an address least, then a word, a file or number, a live or ELF one."""


def likeness(word: str) -> int:
    """One of these four."""
    if word.isascii() and word.isdigit() and not os.path.exists(word):
        return SURELY if os.path.exists(f"/proc/{word}") else MAYBE
    if not os.path.isfile(word):
        # a device or FIFO is not opened: that may block, or have an effect
        return NOT if word[:2].lower() == "0x" else UNLIKELY
    if is_elf(word):
        return SURELY
    from ..commands.steps.snapshot_file import looks_like_one  # few words are files of another kind

    return NOT if looks_like_one(word) else MAYBE


def likeliest(words: Sequence[str], at_least: int) -> Optional[int]:
    """Which of the words most looks like a process or core, the first of equals."""
    best = max(range(len(words)), key=lambda index: likeness(words[index]), default=None)
    return None if best is None or likeness(words[best]) < at_least else best
