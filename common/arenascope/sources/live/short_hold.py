"""Shortens a hold: as much as possible is read before it, and nothing after it.

There are three phases. While the process runs, the places of its free chunks are found (glibc/free_chunk_places.py).
While it is held, these are read again, in bulk, and whatever else is read is kept. After its release, everything is
answered from what was kept. Anything else is never read then: ReadLate, and the look starts again with a process that
is held to the end.

If time runs out before all chunks were read again, the answer covers the lists that were: links that lead out of them
raise HoldOverUnread (`cut` in process.py tells the reader). Before that there is no answer: HoldOver.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Callable, Iterator, Mapping, Optional, Sequence, TypeVar

from ...base.background import BackgroundWork
from ...base.errors import HoldOverUnread, MemoryReadError, ReadLate
from ..live import procfiles
from ..target import Followed, MappingUse, MemoryUse, PageUse, ReadNodes, ReadPair, Region, Span, Words
from .bulk_reads import ManyReader, NodeReader, in_order, increased, taken, taken_in_turns
from .pagemap import PagemapResidency, PagesOfStretch
from .process import ProcessImage

if TYPE_CHECKING:
    from .process_hold import Freeze


class KeptResidency:
    """Residency that keeps each stretch that was asked about, and answers for any part of it."""

    def __init__(self, pages: PagemapResidency, ask: Callable[[int, int], PagesOfStretch]) -> None:
        self._pages, self._ask = pages, ask
        self._starts: list[int] = []
        self._stretches: list[PagesOfStretch] = []
        """In order; none lies within another, as no part of a kept stretch is asked for again."""

    @property
    def exact(self) -> bool:
        return self._pages.exact

    def _around(self, start: int, end: int) -> Optional[PagesOfStretch]:
        """Returns the stretch around a range; None if the process is gone."""
        start, end = self._pages.whole_pages(start, end)
        place = bisect_right(self._starts, start)
        if place and end <= self._stretches[place - 1].end:
            return self._stretches[place - 1]
        try:
            stretch = self._ask(start, end)
        except (OSError, ValueError):
            return None
        self._starts.insert(place, start)
        self._stretches.insert(place, stretch)
        return stretch

    def count(self, start: int, end: int) -> Optional[PageUse]:
        around = self._around(start, end)
        return around.count(*self._pages.whole_pages(start, end)) if around is not None else None

    def resident_ranges(self, start: int, end: int) -> Optional[Sequence[Span]]:
        around = self._around(start, end)
        return around.resident(*self._pages.whole_pages(start, end)) if around is not None else None


T = TypeVar("T")
BLOCK = 1024
"""The number of chunks compared at once."""


class StillProcess(ProcessImage):
    """A process that is read in these three phases; `nodes` are its free chunks."""

    def __init__(self, pid: int) -> None:
        super().__init__(pid)
        self._held = self._let_go = False
        self._kept: dict[tuple[int, int], Optional[bytes]] = {}
        """By address and size; None: unreadable."""
        self._answers: dict[str, object] = {}
        self._freeze: Optional[Freeze] = None
        self._smaps: Optional[BackgroundWork[bytes]] = None
        self.late: Optional[ReadLate] = None
        """Set once something was asked for that was not kept: all answers are void then."""
        self.nodes = StillNodes(self)

    def hold(self, freeze: Freeze) -> None:
        """Starts the hold. Raises an error if the process has ended, or become another program, since it was opened."""
        self._freeze = freeze
        first = next((each for each in self._regions if each.readable), None)
        if first is not None:
            with suppress(MemoryReadError):
                super().read(first.start, 1)
        self._held = True

    def let_go(self) -> None:
        """Ends the hold: nothing more is read."""
        if self._smaps is not None:
            self._smaps.wait()
        self._let_go = True

    def is_time(self) -> bool:
        """Tells whether it is time to stop reading."""
        return self._freeze is not None and self._freeze.is_over()

    def heed_time(self) -> None:
        """Raises HoldOver, between two necessary reads, if time is up."""
        if self._freeze is not None and self._held and self._freeze.is_over():
            raise self._freeze.over()

    def cut_short(self) -> None:
        """Records that some chunks were not read in time."""
        if self._freeze is not None:
            self.cut = self._freeze.cut

    def unread(self) -> HoldOverUnread:
        assert self._freeze is not None
        return HoldOverUnread(self._freeze.over().ended)

    def _too_late(self) -> ReadLate:
        self.late = ReadLate(f"process {self.pid} was let go before it was read whole")
        return self.late

    def read(self, address: int, size: int) -> bytes:
        if not self._held:
            return super().read(address, size)
        key = address, size
        if key not in self._kept:
            data = self.nodes.part(address, size)
            if data is None:
                if self._let_go:
                    raise self._too_late()
                self.heed_time()
                try:
                    data = super().read(address, size)
                except MemoryReadError:
                    data = None
            self._kept[key] = data
        data = self._kept[key]
        if data is None:
            raise MemoryReadError(address, size)
        return data

    @property
    def is_over(self) -> bool:
        return self._let_go

    def kept(self, address: int, size: int) -> Optional[bytes]:
        return self._kept.get((address, size))

    def read_now(self, address: int, size: int) -> bytes:
        """Reads without keeping: the caller keeps it elsewhere."""
        return super().read(address, size)

    def fill(self, address: int, block: memoryview) -> int:
        if self._let_go:
            raise self._too_late()
        self.heed_time()
        return super().fill(address, block)

    def _once(self, what: str, ask: Callable[[], T]) -> T:
        if not self._held:
            return ask()
        if what not in self._answers:
            if self._let_go:
                raise self._too_late()
            self.heed_time()
            self._answers[what] = ask()
        answer: T = self._answers[what]  # type: ignore[assignment]
        return answer

    def regions(self) -> Sequence[Region]:
        return self._once("regions", super().regions)

    def thread_names(self) -> Mapping[int, str]:
        return self._once("thread_names", super().thread_names)

    def environment(self) -> Optional[Mapping[str, str]]:
        return self._once("environment", super().environment)

    def residency(self) -> KeptResidency:
        return self._once("residency", self._residency)

    def _residency(self) -> KeptResidency:
        pages = self.page_tables()

        def ask(start: int, end: int) -> PagesOfStretch:
            if self._let_go:
                raise self._too_late()
            self.heed_time()
            return pages.stretch(start, end)

        return KeptResidency(pages, ask)

    def mapping_use(self) -> Optional[Sequence[MappingUse]]:
        return self._once("mapping_use", self._mapping_use)

    def _mapping_use(self) -> Optional[Sequence[MappingUse]]:
        """Reads smaps, for which the kernel visits all pages, at the same time as the chunks. Not if pages are in swap:
        reading brings them back, and the two would be of two moments."""
        if self.guarded(lambda: procfiles.read_status(self.memory_tid)).swap != 0:
            return super().mapping_use()
        self._smaps = BackgroundWork(self.smaps)
        return procfiles.Uses(self._smaps.result)

    def memory_use(self) -> Optional[MemoryUse]:
        return self._once("memory_use", super().memory_use)

    def locked(self) -> Optional[Sequence[Span]]:
        return self._once("locked", super().locked)


class StillNodes:
    """The free chunks of such a process (Target.nodes)."""

    def __init__(self, process: StillProcess) -> None:
        self._process = process
        self._word = process.pointer_size
        self._size = 3 * self._word
        self._form = Struct(f"{process.mark}3{'Q' if self._word == 8 else 'I'}")
        self._unpack = self._form.unpack_from
        self._reader = NodeReader(process.memory_tid, self._word)
        self._reader.load()
        self._data = bytearray()
        self._chunks = array("Q")
        """The chunks to read again, in the order of `_data`: those in rings by address, then others."""
        self._places: dict[int, int] = {}
        """The offsets in `_data` of chunks that are in no ring, in their order."""
        self._rings: dict[int, Followed] = {}
        self._heads: Sequence[int] = ()
        self._ring_of = array("I")
        """For each chunk in a ring: the index of its head in `_heads`."""
        self._lost: set[int] = set()
        """Chunks that could not be read again."""
        self._compared = False
        """Whether all changes are known: time may be up before."""
        self._again: Optional[ManyReader] = None
        self._fresh = False
        """Whether `_data` was read during the hold."""
        self.passed: set[int] = set()
        self._more: set[int] = set()
        """Chunks that were read one by one during the hold."""
        self._together: dict[int, Words] = {}
        """The words of chunks that read_many read."""

    def node(self, chunk: int) -> Words:
        words = self._together.get(chunk)
        if words is not None:
            return words
        if self._fresh:
            place = self._place(chunk)
            if place is not None:
                return self._unpack(self._data, place)
            if self._process.cut is not None and self._process.kept(chunk + self._word, self._size) is None:
                raise self._process.unread()
        return self._unpack(self._process.read(chunk + self._word, self._size))

    def part(self, address: int, size: int) -> Optional[bytes]:
        """Returns part of a chunk's words, from its size on."""
        if size > self._size:
            return None
        place = self._place(address - self._word) if self._fresh else None
        if place is not None:
            return bytes(self._data[place : place + size])
        words = self._together.get(address - self._word)
        if words is not None:
            return self._form.pack(*words)[:size]
        single = self._process.kept(address, self._size)
        return None if single is None else single[:size]

    def __len__(self) -> int:
        return len(self._chunks) - len(self._lost) + len(self._more)

    def __contains__(self, chunk: int) -> bool:
        return self._place(chunk) is not None or chunk in self._more

    def _place(self, chunk: int) -> Optional[int]:
        """Returns the offset of a chunk's words in `_data`."""
        if chunk in self._lost:
            return None
        place = self._places.get(chunk)
        if place is None:
            chunks, in_rings = self._chunks, len(self._ring_of)
            at = bisect_left(chunks, chunk, 0, in_rings)
            place = at * self._size if at < in_rings and chunks[at] == chunk else None
        return place

    @property
    def read_nodes(self) -> ReadNodes:
        return self._reader.read

    @property
    def read_pair(self) -> ReadPair:
        return self._reader.pair_reader()

    def add(self, chunk: int) -> Optional[Words]:
        try:
            data = self._process.read(chunk + self._word, self._size)
        except MemoryReadError:
            return None
        if self._fresh:
            self._more.add(chunk)
        else:
            self._places[chunk] = len(self._data)
            self._chunks.append(chunk)
            self._data += data
        return self._unpack(data)

    def add_many(self, chunks: Sequence[int]) -> Sequence[Optional[Words]]:
        if self._fresh:
            self._more.update(chunks)
            return self.read_many(chunks)
        nodes = self._read_many(chunks)
        for chunk, words in zip(chunks, nodes):
            if words is not None:
                self._add([chunk], self._form.pack(*words))
        return nodes

    def add_rings(self, rings: Mapping[int, Followed], flags: int) -> None:
        chunks, sizes, ring_of = array("Q"), array("Q"), array("I")
        for number, (addresses, own_sizes) in enumerate(rings.values()):
            chunks += addresses
            sizes += own_sizes
            ring_of += array("I", [number]) * len(addresses)
        forward, backward, end = chunks[1:], chunks[-1:], 0
        forward += chunks[:1]
        backward += chunks[:-1]
        for head, ring in rings.items():
            start, end = end, end + len(ring.addresses)
            backward[start] = forward[end - 1] = head
        order = in_order(chunks)
        self._rings, self._heads = dict(rings), list(rings)
        self._chunks, self._ring_of = taken(chunks, order), taken(ring_of, order)
        columns = increased(sizes, flags), forward, backward
        self._data = taken_in_turns(columns, order, "Q" if self._word == 8 else "I")

    def ring(self, head: int) -> Optional[Followed]:
        return self._rings.get(head) if self._compared else None

    def _add(self, chunks: Sequence[int], data: bytes) -> None:
        self._places.update(zip(chunks, range(len(self._data), len(self._data) + len(data), self._size)))
        self._chunks.extend(chunks)
        self._data += data

    def _changed(self, index: int) -> int:
        """Returns the changed chunk, and drops the ring that had it."""
        if index < len(self._ring_of):
            self._rings.pop(self._heads[self._ring_of[index]], None)
        return self._chunks[index]

    def read_many(self, chunks: Sequence[int]) -> Sequence[Optional[Words]]:
        if self._process.is_over:
            return ()  # it was done while it was held
        self._process.heed_time()
        nodes = self._read_many(chunks)
        self._together.update((chunk, words) for chunk, words in zip(chunks, nodes) if words is not None)
        return nodes

    def _read_many(self, chunks: Sequence[int]) -> list[Optional[Words]]:
        read = self._reader.read(array("Q", [chunk + self._word for chunk in chunks]))
        # 0: could not be read this way
        return [words if words[0] else self._alone(chunk) for chunk, words in zip(chunks, zip(*read))]

    def _alone(self, chunk: int) -> Optional[Words]:
        try:
            return self._unpack(self._process.read(chunk + self._word, self._size))
        except MemoryReadError:
            return None

    def prepare(self) -> None:
        """Prepares reading them again, before the hold."""
        process, places = self._process, increased(self._chunks, self._word)
        self._again = ManyReader(process.memory_tid, process.read_now, places, self._size, is_over=process.is_time)

    def read_again(self) -> Iterator[int]:
        """Yields those that have changed; those that can no longer be read are dropped."""
        again, size = self._again, self._size
        before, self._fresh = self._data, True
        if again is None:
            return
        again.run()
        self._data = again.buffer
        lost = {*again.lost, *again.unread}
        for index in lost:
            self._lost.add(self._changed(index))
        if again.unread:
            self._process.heed_time()
        if before == again.buffer:
            self._compared = True
            return
        old, new = memoryview(before), memoryview(again.buffer)
        step = BLOCK * size
        for start in range(0, len(old), step):
            self._process.heed_time()
            if before[start : start + step] == new[start : start + step]:
                continue
            for place in range(start, min(start + step, len(old)), size):
                if old[place : place + size] != new[place : place + size] and place // size not in lost:
                    yield self._changed(place // size)
        self._compared = True

    def cut_short(self) -> None:
        self._fresh = True
        self._process.cut_short()
