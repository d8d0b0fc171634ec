"""Predicts how long a process will be held, from the amount to read and the speed of reads on this machine."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Optional, Sequence

from ...base.errors import ArenascopeError
from ...base.hold_limits import COPIED, LISTED, SWEPT, WRITTEN, HoldTime
from ..target import Region
from .process import ProcessImage

AT_ONCE, TRIED = 1 << 20, 48
"""The size and number of reads that measure the speed: some milliseconds."""
DISK = 1 << 30
"""Bytes per second that a disk takes, mostly into the kernel's cache."""
LOOKED_FOR = 256 << 20
"""The part of a mapping that is searched for resident pages."""
SWEEP = 1 << 30
"""Bytes of heaps per second that are swept chunk by chunk."""
EACH_CHUNK = 0.3e-6
"""Seconds for a free chunk."""
FEW = 1_500_000
"""Fewer chunks are read in a short time even on a busy machine. Measuring the speed would take more than half as
long."""
BEST = 3
"""Several threads read at most so many times as fast as one."""
BUSIEST = 4
"""The slowdown where other programs take three quarters of the machine. A slower read is an outlier."""
SMALL = 256 << 20
"""Smaller processes are copied in a short time on any machine."""
IN_A_SECOND = 1 << 30
"""Even a busy machine copies so much of such a process in a second."""


def predict_hold(image: ProcessImage, is_whole: bool, sweeps: bool, chunks: Optional[int]) -> Optional[HoldTime]:
    """Predicts from what a command declares (Command.whole, Command.sweeps), or from the number of free chunks; None:
    not long."""
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
    """Measures copying on the running process itself; `most`: the disk's bytes per second."""
    times = _times(image) if size >= SMALL else []
    if not times:
        return None
    blocks = size / AT_ONCE
    seconds = max(blocks * _usual(times), size / most if most is not None else 0.0)
    return HoldTime(COPIED if most is None else WRITTEN, size, seconds, least=blocks * min(times) / BEST)


def _usual(times: Sequence[float]) -> float:
    """Returns the average time of a read, with limited outliers."""
    median = sorted(times)[len(times) // 2]
    return min(sum(times) / len(times), BUSIEST * median)


def _times(image: ProcessImage) -> Sequence[float]:
    """Measures once for a look: both the decision for a copy and the message about it need it."""
    if image.read_times is None:
        image.read_times = _sample(image)
    return image.read_times


def _sample(image: ProcessImage) -> Sequence[float]:
    """Times reads of AT_ONCE bytes of resident memory, so that no pages are added."""
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
    """Returns stretches of the largest mapping that are in memory, the longest first."""
    writable = [each for each in image.regions() if each.readable and each.writable]
    if not writable:
        return ()
    largest = max(writable, key=lambda each: each.size)
    first = largest._replace(end=min(largest.end, largest.start + LOOKED_FOR))
    return sorted(image.own_pages([first]), key=lambda each: each.size, reverse=True)
