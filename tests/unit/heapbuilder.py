"""HeapImage: builds the memory of a process with a glibc heap, chunk by chunk, for any release and architecture.

    image = HeapImage("2.36-64")
    image.main.used(0x100)
    gap = image.main.free(0x2000)
    image.thread(1).cached(0x40)
    target = image.target()                         # a Target; `image.target(symbols=False)` for a stripped one
    assert image.truth.main.bins[1] == [gap]

Nothing here knows arenascope's own layouts: see glibc_tables.
"""

from __future__ import annotations

import random
from typing import Optional, Union

from fake_target import FakeTarget, Space, debug_structs
from glibc_rows import BY_NAME, ROWS, Row, up
from heap_arenas import MainArena, ThreadArena
from heap_chunks import ArenaBuilder
from heap_damage import Damage
from heap_places import Places
from heap_threads import ThreadBuilder
from heap_truth import MmappedTruth, Truth
from heap_writer import Writer
from marks import in_full

from arenascope.sources.target import ThreadInfo

EACH_ROW = [*ROWS[::3], *in_full(*ROWS[1::3], *ROWS[2::3])]
"""The parameter `row` of tests that build a heap of each row: `make test` has a third of them."""


class HeapImage(Places):
    """Lay first, then ask for `truth` or `target()`: either writes everything, and nothing can be laid after it.

    seed moves the mappings and feeds mix(); heap=False is a process before its first malloc; brk=False one whose sbrk
    never worked; brk_offset makes the break start inside a page, as a static executable's does; static puts libc's data
    into the executable; hp_pagesize is what tunable glibc.malloc.hugetlb=2 sets (2.35 and later).
    Keywords after those set fields of mp_: HeapImage(row, tcache_count=3, thp_pagesize=2 << 20).
    """

    def __init__(
        self,
        row: Union[Row, str],
        seed: int = 0,
        *,
        heap: bool = True,
        brk: bool = True,
        brk_offset: int = 0,
        static: bool = False,
        **mp: int,
    ) -> None:
        self.row = BY_NAME[row] if isinstance(row, str) else row
        self.rng = random.Random(seed)
        self.space = Space(self.row.word, self.row.byte_order)
        self.mp = self.default_mp()
        assert set(mp) <= set(self.row.par), f"mp_ of {self.row} does not have all of {', '.join(mp)}"
        self.mp.update(mp)
        hugepage = mp.get("hp_pagesize", 0)
        self.grain = hugepage or self.row.page_size
        """What heaps and regions are multiples of."""
        # heap_max follows the huge page size in 2.35 to 2.41 only
        self.heap_max = 4 * hugepage if hugepage and self.row.number < (2, 42) else self.row.heap_max
        self.place(seed, brk_offset, static)
        self.tcache_key = self.rng.getrandbits(8 * self.row.word)
        self.mmapped_blocks: list[MmappedTruth] = []
        self.mremaps = 0
        self.thread_arenas: list[ThreadArena] = []
        """In the order in which they were made: the ring has them newest first."""
        self.threads: dict[int, ThreadBuilder] = {}
        self._truth: Optional[Truth] = None
        self.main = MainArena(self, self.addresses["main_arena"])
        if heap:
            self.main.start(brk and not hugepage)
        self.threads[0] = ThreadBuilder(self, 0, self.main if heap else None)

    # laying

    def arena(self) -> ThreadArena:
        """A new arena, to which no thread is attached yet."""
        self.still_building()
        arena = ThreadArena(self)
        self.thread_arenas.append(arena)
        return arena

    def thread(self, number: int, arena: Union[ArenaBuilder, str, None] = "new") -> ThreadBuilder:
        """Thread 0 is the main thread; another is made when first named, with an arena of its own, or with `arena`:
        where that is None it has not called malloc yet."""
        if number not in self.threads:
            self.still_building()
            if arena == "new":
                arena = self.arena()
            if arena is not None:
                arena.attached += 1
            self.threads[number] = ThreadBuilder(self, number, arena)
        return self.threads[number]

    def mmapped(
        self, request: int, align: int = 0, *, apart: bool = False, resized: int = 0, by: int = 0
    ) -> MmappedTruth:
        """malloc(request), or memalign(align, request), that got a mapping of its own.

        It lies right below the one before, in one mapping with it as far as the kernel can tell, or `apart` from it.
        realloc() made the mapping `resized` bytes, and moved it `by` so many from where memalign had it.
        """
        row = self.row
        size = row.request2size(request)
        if align > row.alignment:
            size = row.request2size(size + align + row.minsize)
        slack = row.word if row.alignment == row.header else row.word + row.alignment - 1
        if row.new_mmap_form:
            slack = row.alignment
        first = up(size + slack, row.page_size)
        total = up(resized, row.page_size) or first
        base = self.map_anonymous(total, gap=row.page_size if apart else 0)
        plain = up(row.user(base), row.alignment) - row.header
        chunk = up(row.user(base - by), max(align, row.alignment)) - row.header + by
        if align > row.alignment and 0 < chunk - base < row.minsize:
            chunk += align
        # nobody clears the header that memalign moved away from
        heads = {plain: first, chunk: total} if align > row.alignment else {chunk: total}
        for place, whole in heads.items():
            offset = place - base
            self.space.put(place, offset)
            self.space.put(place + row.word, whole - offset - (row.header if row.new_mmap_form else 0) | 2)
        self.mmapped_blocks.append(MmappedTruth(chunk, base, total))
        return self.mmapped_blocks[-1]

    def mremapped(self) -> None:
        """A realloc that went through mremap: each adds a header to 2.43's mmapped_mem for good."""
        self.mremaps += 1

    def still_building(self) -> None:
        assert self._truth is None, "this image is finished: lay chunks before asking for its truth or a target"

    # looking

    def finish(self) -> None:
        if self._truth is None:
            self._truth = Writer(self).write()

    @property
    def truth(self) -> Truth:
        """What was laid; damage done afterwards does not change it."""
        self.finish()
        return self._truth

    @property
    def corrupt(self) -> Damage:
        """Named damages."""
        self.finish()
        return Damage(self)

    def poke(self, address: int, value: int, size: int = 0) -> None:
        """Writes a word, or a number of `size` bytes, into the finished image."""
        self.finish()
        self.space.put(address, value, size)

    def peek(self, address: int) -> int:
        self.finish()
        return self.space.get(address)

    def target(
        self,
        symbols: Union[bool, str] = True,
        structs: bool = False,
        regions: bool = True,
        rodata: bool = True,
    ) -> FakeTarget:
        """A debugger's view: symbols=True as with debug symbols, "exported" as of a stripped libc, False for none.

        It reads the image as it stands: a later poke shows. Regions are those of this moment.
        """
        self.finish()
        infos = [
            ThreadInfo(
                tid=thread.tid,
                name=f"worker-{thread.number}" if thread.number else "app",
                stack_pointer=thread.stack_pointer,
                thread_pointer=thread.thread_pointer,
            )
            for thread in self.threads.values()
        ]
        return FakeTarget(
            row=self.row,
            space=self.space,
            mappings=self.regions(rodata),
            symbols=self.symbols(symbols),
            structs=debug_structs(self.row) if structs else {},
            thread_infos=sorted(infos, key=lambda info: info.tid),
            thread_locals=self.thread_locals() if symbols is True else {},
            regions_known=regions,
        )
