"""A core in our own memory, whose pages can be made before a process is held.

Copying into existing pages goes at the speed of memory; a file's pages are made one by one during the copy. So each
address gets its place beforehand, with room around it for mappings that appear until then. Addresses cost nothing: only
touched pages take memory.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from functools import cached_property
from typing import Callable, Iterator, NamedTuple, Optional, Protocol, Sequence, Union

from ...base.errors import ArenascopeError
from ...base.heap_model import Statement
from ..memory import Fill
from ..target import MappingUse, Runs, Span, joined
from .save_image import (
    CopiedRange,
    CoreLayout,
    CoreWriter,
    ElfForm,
    OpenFile,
    Piece,
    ReservedRange,
    Slots,
    Take,
    between,
    copy_all,
    head_bytes,
)
from .saved_note import KernelFacts

AROUND = 64 << 20
"""Room for new mappings on either side of existing ones: a heap of malloc's grows within as much."""
HEADERS, BEHIND = 64 << 20, 8 << 30
"""Room for more headers than there are, and for new mappings."""
LAST = 1 << 30
"""The part of that reserved for notes."""
STEP = 8 << 20
"""Bytes touched or copied at a time: Ctrl-C is noticed in between."""
HUGE = 2 << 20
FILLED = HUGE // 8 * 7
"""A huge page is filled faster than 512 small ones; if less of it is used, it would take more memory than is copied."""
MOST_RUNS = 10_000
"""Each run of huge pages is a mapping of its own for the kernel, which allows 65,530."""
MAP_NORESERVE = 0x4000


CopiedPart = tuple[int, int, int]
"""An address of the process, bytes, and an address of ours."""


class Copier(Protocol):
    """Copies memory faster than Python: the engine."""

    def make_room(self, parts: Sequence[CopiedPart]) -> None: ...

    def copy(self, tid: int, memory: int, parts: Sequence[CopiedPart]) -> Sequence[tuple[int, ...]]:
        """Returns the parts that could not be read."""


class Copied(NamedTuple):
    """The process to copy: its thread, its /proc/PID/mem, open, and which ranges are shared memory, read elsewhere."""

    tid: int
    memory: int
    is_shared: Callable[[int, int], bool]


class NoRoomInMemory(ArenascopeError):
    """More is to be copied than was expected: nothing has been copied."""


class CopyBytes:
    """Bytes of a core in memory. A private mapping: forked processes have it too."""

    file, unpacked = -1, False
    shortage: Optional[Statement] = None

    def __init__(self, size: int) -> None:
        """Raises OSError if so many addresses are not available."""
        try:
            self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
        except (ValueError, OverflowError) as error:
            raise OSError(str(error)) from error
        self.size = size
        self.whole = memoryview(self._map)
        self._written = Runs()

    @cached_property
    def address(self) -> int:
        import ctypes  # a Python may lack it; the engine needs it, too

        return ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def touch(self, copies: Sequence[CopiedRange], copier: Optional[Copier]) -> None:
        """Makes the pages that these will fill."""
        self._advise(mmap.MADV_NOHUGEPAGE, Span(0, self.size))
        for run in _filled(copies)[:MOST_RUNS]:
            self._advise(mmap.MADV_HUGEPAGE, run)
        if copier is not None:
            copier.make_room(self.places(copies))
        else:
            copy_all(copies, self._touch, STEP)

    def places(self, copies: Sequence[CopiedRange]) -> list[CopiedPart]:
        return [(address, size, self.address + offset) for address, size, offset in copies]

    def _advise(self, advice: int, span: Span) -> None:
        with suppress(OSError):  # a kernel without huge pages
            self._map.madvise(advice, span.start, span.bytes)

    def _touch(self, _: int, size: int, start: int) -> int:
        self.whole[start : start + size : mmap.PAGESIZE] = bytes(-(-size // mmap.PAGESIZE))
        return size

    def empty(self) -> None:
        """Sets everything to zeros, which take no memory."""
        self._map.madvise(mmap.MADV_DONTNEED)

    def wrote(self, spans: Sequence[Span]) -> None:
        """Records what was written: all else are holes."""
        self._written = Runs(joined(sorted(spans)))

    def read(self, offset: int, size: int) -> bytes:
        return self._map[offset : offset + size]

    def fill(self, block: memoryview, offset: int) -> int:
        part = self.whole[offset : offset + len(block)]
        block[: len(part)] = part
        return len(part)

    def view(self, offset: int, size: int) -> memoryview:
        return self.whole[offset : offset + size]

    def data_within(self, at: int, end: int) -> Iterator[Span]:
        return self._written.parts_in(at, end)

    def close(self) -> None:
        # where a slice is still held, the memory goes with that
        self.whole.release()
        with suppress(BufferError):
            self._map.close()


def _filled(copies: Sequence[CopiedRange]) -> Sequence[Span]:
    """Returns the parts where huge pages are worth it."""
    taken: dict[int, int] = {}
    for _, size, offset in copies:
        at, end = offset, offset + size
        while at < end:
            number = at // HUGE
            stop = min(end, (number + 1) * HUGE)
            taken[number] = taken.get(number, 0) + stop - at
            at = stop
    return joined((number * HUGE, (number + 1) * HUGE) for number, size in sorted(taken.items()) if size >= FILLED)


def slots_for(form: ElfForm, pieces: Sequence[Piece], page: int) -> Slots:
    """Reserves places for pieces. Neighbours share one slot, so that what grows into the gap between them stays in its
    place."""
    runs = joined((max(0, each.start - AROUND), each.start + each.held + AROUND) for each in pieces if each.held)
    unit = max(page, HUGE)
    first = at = -(-(head_bytes(form, 2 * len(pieces)) + HEADERS) // unit) * unit
    slots = []
    for low, high in runs:
        slots.append(ReservedRange(low, high, at))
        at += -(-(high - low) // unit) * unit
    return Slots(slots, first, at)


class MemoryWriter(CoreWriter):
    """Writes a core into memory, as CoreWriter writes a file."""

    block = STEP

    process: Optional[Copied] = None
    """Where a copier may copy from."""

    def __init__(self, most: int, slots: Optional[Slots] = None, copier: Optional[Copier] = None) -> None:
        """`most`: the most bytes to copy; `copier`: None: Python copies. OSError if so many addresses are not
        available."""
        super().__init__(-1)
        self.path, self.slots, self._most, self._copier = "memory", slots, most, copier
        self.bytes = CopyBytes(slots.end + BEHIND) if slots is not None else None
        self.before: Sequence[MappingUse] = ()
        """The mappings when it was made."""

    @property
    def room(self) -> int:
        return self._most

    def touch(self, layout: CoreLayout) -> None:
        """Makes as many pages as that would fill."""
        self._place.touch(layout.copies, self._copier)

    @property
    def _place(self) -> CopyBytes:
        assert self.bytes is not None
        return self.bytes

    def copy(self, layout: CoreLayout, fill: Fill) -> int:
        if self.bytes is None:
            try:
                self.bytes = CopyBytes(layout.end + LAST)
            except OSError as error:
                raise NoRoomInMemory(str(error)) from error
        if layout.bytes > self._most or layout.end + LAST > self.bytes.size:
            raise NoRoomInMemory("more was mapped meanwhile than there is room for")
        return super().copy(layout, fill)

    def _copy(self, end: int, copies: Sequence[CopiedRange], take: Take) -> Sequence[Span]:
        process, copier = self.process, self._copier
        if process is None or copier is None:
            return super()._copy(end, copies, take)
        others = [each for each in copies if process.is_shared(each.address, each.address + each.size)]
        lost = [*super()._copy(end, others, take)] if others else []
        parts = self._place.places([each for each in copies if each not in others] if others else copies)
        unread = copier.copy(process.tid, process.memory, parts)
        starts = [to - self._place.address for _, _, to in unread]
        return [*lost, *(Span(start, start + size) for start, (_, size, _) in zip(starts, unread))]

    def begin_again(self) -> None:
        """Starts again, with nothing copied and nothing known from before."""
        self.before = ()
        self._place.empty()

    def write_to(self, writer: CoreWriter, here: CoreLayout, there: CoreLayout) -> None:
        """Writes the copy, laid out as `here`, into a file: what could not be read stays a hole."""
        copied = [
            CopiedRange(part.start, part.bytes, to.offset + part.start - at.offset)
            for at, to in zip(here.copies, there.copies)
            for part in between(at.offset, at.offset + at.size, self.lost.spans_in(at.offset, at.offset + at.size))
        ]
        writer.put_all(there, copied, self._place.view)

    def close(self) -> None:
        if self.bytes is not None:
            self.bytes.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def reserve(self, size: int) -> None:
        pass

    def put(self, data: Union[bytes, bytearray, memoryview], offset: int) -> None:
        self._place.whole[offset : offset + len(data)] = data

    def taker(self, fill: Fill) -> Take:
        whole = self._place.whole
        return lambda address, size, offset: fill(address, whole[offset : offset + size])

    def finish(
        self,
        form: ElfForm,
        layout: CoreLayout,
        moment: Optional[KernelFacts],
        open_file: OpenFile,
        redacted: bool = False,
    ) -> int:
        written = super().finish(form, layout, moment, open_file, redacted=redacted)
        copied = [Span(each.offset, each.offset + each.size) for each in layout.copies]
        self._place.wrote([*copied, *(Span(each.offset, each.offset + each.size) for each in layout.files)])
        return written

    @property
    def _taken(self) -> int:
        return 0
