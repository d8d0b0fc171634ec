"""For how long a process will be held, told before it is: from what is read of it, and how fast this machine reads."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Optional, Sequence

from ...base.errors import ArenascopeError
from ...base.hold_limits import COPIED, LISTED, SWEPT, WRITTEN, HoldTime
from ..target import Region
from .process import ProcessImage

AT_ONCE, TRIED = 1 << 20, 48
"""So much is read at a time to find out how fast that goes, so many times: some milliseconds."""
DISK = 1 << 30
"""Bytes that a disk takes in a second, mostly into the kernel's cache."""
LOOKED_FOR = 256 << 20
"""So much of a mapping is looked through for pages that are in memory."""
SWEEP = 1 << 30
"""Bytes of heaps that are read in a second where that is done chunk by chunk."""
EACH_CHUNK = 0.3e-6
"""Seconds for a free chunk."""
FEW = 1_500_000
"""Nobody waits long for fewer, not even where others take three quarters of this machine; to find that out costs more
than half as long as reading them."""
BEST = 3
"""Threads read no more than so many times as fast as one does."""
BUSIEST = 4
"""Where others take three quarters of this machine, a read takes so many times as long as most do; one that waited for
longer tells of that moment alone."""
SMALL = 256 << 20
"""No machine is so slow that it matters how fast this is copied."""
IN_A_SECOND = 1 << 30
"""So much of such a process is copied even by a busy machine."""


def predict_hold(image: ProcessImage, is_whole: bool, sweeps: bool, chunks: Optional[int]) -> Optional[HoldTime]:
    """Of what a command says of itself (Command.whole, Command.sweeps), or of so many free chunks; None: not long."""
    size = image.status.rss or 0
    if chunks is not None:
        times = _times(image) if chunks >= FEW else []
        # others that run on this machine take their share of the time, as they did of these
        busy = _usual(times) / min(times) if times else 1.0
        return HoldTime(LISTED, chunks, chunks * EACH_CHUNK * busy, least=0.0)
    if not (sweeps or is_whole):
        return None
    if sweeps and image.room is None:
        return HoldTime(SWEPT, size, size / SWEEP, least=0.0)
    return time_to_copy(image, size, DISK if image.room is None else None)


def time_to_copy(image: ProcessImage, size: int, most: Optional[int] = None) -> Optional[HoldTime]:
    """Measured on the process itself, which runs on; `most`: a disk takes no more bytes in a second."""
    times = _times(image) if size >= SMALL else []
    if not times:
        return None
    blocks = size / AT_ONCE
    seconds = max(blocks * _usual(times), size / most if most is not None else 0.0)
    return HoldTime(COPIED if most is None else WRITTEN, size, seconds, least=blocks * min(times) / BEST)


def _usual(times: Sequence[float]) -> float:
    """What a read takes on the average."""
    median = sorted(times)[len(times) // 2]
    return min(sum(times) / len(times), BUSIEST * median)


def _times(image: ProcessImage) -> Sequence[float]:
    """Once for a look: what decides for a copy asks, and so does who tells of it."""
    if image.read_times is None:
        image.read_times = _sample(image)
    return image.read_times


def _sample(image: ProcessImage) -> Sequence[float]:
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
