"""For how long a process will be held, told before it is: from what is read of it, and how fast this machine reads."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Optional, Sequence

from ...base.errors import ArenascopeError
from ..hold_time import COPIED, LISTED, SWEPT, HoldTime
from ..target import Region
from .process import ProcessImage

AT_ONCE, TRIED = 1 << 20, 48
"""So much is read at a time to find out how fast that goes, so many times: some milliseconds."""
LOOKED_FOR = 256 << 20
"""So much of a mapping is looked through for pages that are in memory."""
SWEEP = 1 << 30
"""Bytes of heaps that are read in a second where that is done chunk by chunk."""
EACH_CHUNK = 0.3e-6
"""Seconds for a free chunk."""
BEST = 3
"""Threads read no more than so many times as fast as one does."""
SMALL = 256 << 20
"""No machine is so slow that it matters how fast this is copied."""


def foretold(image: ProcessImage, is_whole: bool, sweeps: bool, chunks: Optional[int]) -> Optional[HoldTime]:
    """Of what a command says of itself (Command.whole, Command.sweeps), or of so many free chunks; None: not long."""
    size = image.status.rss or 0
    if chunks is not None:
        return HoldTime(LISTED, chunks, chunks * EACH_CHUNK, least=0.0)
    if sweeps and is_whole:
        return HoldTime(SWEPT, size, size / SWEEP, least=0.0)
    return _time_to_copy(image, size) if sweeps or is_whole else None


def _time_to_copy(image: ProcessImage, size: int) -> Optional[HoldTime]:
    """Measured on the process itself, which runs on."""
    times = _times(image) if size >= SMALL else []
    if not times:
        return None
    blocks = size / AT_ONCE
    return HoldTime(COPIED, size, blocks * sum(times) / len(times), blocks * min(times) / BEST)


def _times(image: ProcessImage) -> list[float]:
    """Seconds for each of some reads of AT_ONCE bytes, of what is in memory: nothing comes to be there by this."""
    block, times = memoryview(bytearray(AT_ONCE)), []
    with suppress(ArenascopeError, OSError):
        for part in _present(image):
            for address in range(part.start, part.end - AT_ONCE + 1, AT_ONCE):
                began = time.perf_counter()
                if image.fill(address, block) == AT_ONCE:
                    times.append(time.perf_counter() - began)
                if len(times) == TRIED:
                    return times
    return times


def _present(image: ProcessImage) -> Sequence[Region]:
    """Stretches of the largest mapping that are in memory, the longest first."""
    writable = [each for each in image.regions() if each.readable and each.writable]
    if not writable:
        return ()
    largest = max(writable, key=lambda each: each.size)
    first = largest._replace(end=min(largest.end, largest.start + LOOKED_FOR))
    return sorted(image.own_pages([first]), key=lambda each: each.size, reverse=True)
