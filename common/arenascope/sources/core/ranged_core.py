"""A core that lies elsewhere: what is asked for is fetched, block by block, into a temporary file without a name."""

from __future__ import annotations

import _thread
import os
import tempfile
from typing import Callable, Iterator, Optional

from ...base.errors import ArenascopeError, TargetError
from ..target import Span

BLOCK = 256 << 10
MOST = 64
"""Blocks fetched at once."""
SAME = 16
"""After so many pieces from all over the file the next ones are twice as large: each costs a journey, and whoever has
wanted that many is likely to want most of it."""


class RangedBytes:
    """As CoreBytes. Once something could not be had, nothing more can: what is made of it may lack anything."""

    file, unpacked, shortage = -1, False, None

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        """`fetch`: the bytes at an offset, as many as asked for, or ArenascopeError."""
        self.size, self._fetch = size, fetch
        self.fetched = 0
        """Bytes."""
        self.failure: Optional[ArenascopeError] = None
        self._has = bytearray(-(-size // BLOCK))
        self._pieces, self._step, self._next = 0, 1, 0
        # a thread reads ahead
        self._fetching = _thread.allocate_lock()
        try:
            # closed with this
            self._here = tempfile.TemporaryFile(prefix="arenascope-", buffering=0)  # noqa: SIM115
            self._here.truncate(size)
        except OSError as error:
            raise TargetError(f"no temporary file for it: {error.strerror or error}") from error

    def read(self, offset: int, size: int) -> bytes:
        self._bring(offset, size)
        return os.pread(self._here.fileno(), size, offset)

    def fill(self, block: memoryview, offset: int) -> int:
        self._bring(offset, len(block))
        return os.preadv(self._here.fileno(), [block], offset)

    def view(self, offset: int, size: int) -> None:
        """Not without all of it."""

    def data_within(self, at: int, end: int) -> Iterator[Span]:
        yield Span(at, end)

    def forget(self) -> None:
        pass

    def close(self) -> None:
        self._here.close()

    def _bring(self, offset: int, size: int) -> None:
        first, end = offset // BLOCK, -(-(offset + size) // BLOCK)
        if self._has.find(0, first, end) < 0:
            return
        with self._fetching:
            while (missing := self._has.find(0, first, end)) >= 0:
                self._fetch_around(missing, end)

    def _fetch_around(self, missing: int, end: int) -> None:
        """The block that is missing, and what is likely to be asked for with it: `end` is that of what is."""
        if self.failure is not None:
            raise self.failure
        in_turn = missing == self._next
        self._step = min(MOST, 2 * self._step if in_turn else 1 << self._pieces // SAME)
        low = missing - missing % self._step
        low = max(low, self._has.rfind(1, low, missing) + 1)
        high = min(max(low + self._step, min(end, low + MOST)), len(self._has))
        known = self._has.find(1, missing, high)
        high = known if known >= 0 else high
        start = low * BLOCK
        try:
            data = memoryview(self._fetch(start, min(high * BLOCK, self.size) - start))
            self.fetched += len(data)
            while data:
                written = os.pwrite(self._here.fileno(), data, start)
                data, start = data[written:], start + written
        except ArenascopeError as error:
            self.failure = error
            raise
        except OSError as error:
            self.failure = TargetError(f"no room for what was fetched: {error.strerror or error}")
            raise self.failure from error
        self._has[low:high] = b"\1" * (high - low)
        self._pieces, self._next = self._pieces + (not in_turn), high
