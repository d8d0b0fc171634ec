"""For how long a process will be held, as far as that can be told before it is."""

from __future__ import annotations

from typing import NamedTuple

COPIED, WRITTEN, SWEPT, LISTED = "copied", "written", "swept", "listed"
"""What is done meanwhile: all memory is copied, or written to a disk, every heap read from end to end, or the words of
each free chunk."""


class HoldTime(NamedTuple):
    """What will be done, to how much of it, and for how long that takes."""

    what: str
    amount: int
    """Bytes; of what is listed, chunks."""
    seconds: float
    least: float
    """However fast the machine is; 0: nobody knows."""
