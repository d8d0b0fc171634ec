"""The two sorts of arena: main, which grows by sbrk or mmap, and those of threads, in heaps of heap_max."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from glibc_rows import up
from heap_chunks import FIRST_GROWTH, ArenaBuilder, Piece, Segment

if TYPE_CHECKING:
    from heapbuilder import HeapImage


class MainArena(ArenaBuilder):
    """Grows by sbrk, or by mmap where sbrk fails."""

    main = True

    def __init__(self, image: HeapImage, address: int) -> None:
        super().__init__(image, address)
        # main_arena is born with attached_threads 1, for the main thread
        self.attached = 1
        self.brk = image.first_brk
        self.foreign: list[tuple[int, int]] = []
        """Ranges inside the brk heap that are somebody else's."""

    def start(self, by_brk: bool) -> None:
        """What the first malloc does."""
        if by_brk:
            self._add_brk(self.brk)
        else:
            self._add_mmap(1 << 20)

    def foreign_sbrk(self, size: int, left: Optional[int] = None, remainder: str = "unsorted") -> None:
        """Somebody else takes `size` bytes by sbrk, and malloc grows past them (after mmap_region `size` may be 0).

        `left` is the size of the top that is given up, `remainder` says where what is left of it goes: "unsorted" or
        "bin".
        """
        self._fence(left, remainder)
        brk = max((s.end for s in self.segments if s.source == "brk" and s.end), default=self.brk)
        self.foreign.append((brk, size))
        self._add_brk(brk + size)

    def mmap_region(self, left: Optional[int] = None) -> None:
        """sbrk fails, malloc maps a region instead and is non-contiguous from then on."""
        self._fence(left, "unsorted")
        self._add_mmap(1 << 20)

    @property
    def contiguous(self) -> bool:
        return all(segment.source == "brk" for segment in self.segments)

    def _fence(self, left: Optional[int], remainder: str) -> None:
        header = self.row.header
        segment, tiny = self._retire(left, remainder, spare=2 * header)
        for size in (tiny, header, header):
            if size:
                segment.pieces.append(Piece(segment.cursor, size, "fence"))

    def _add_brk(self, base: int) -> None:
        first = self.row.align_chunk(base)
        floor = up(base + FIRST_GROWTH, self.image.grain)
        self.segments.append(Segment("brk", base, first, floor, self.image.brk_limit))

    def _add_mmap(self, size: int) -> None:
        size = up(size, self.image.grain)
        base = self.image.map_anonymous(size)
        self.segments.append(Segment("mmap", base, self.row.align_chunk(base), base + size, base + size))


class ThreadArena(ArenaBuilder):
    """Lives in heaps of heap_max, aligned to it."""

    def __init__(self, image: HeapImage) -> None:
        base = image.reserve_heap()
        row = image.row
        super().__init__(image, base + row.heap_info["sizeof"])
        self._add_heap(base, row.align_chunk(base + row.heap_info["sizeof"] + row.state["sizeof"]))

    def new_heap(self, left: Optional[int] = None, remainder: str = "unsorted") -> None:
        """Moves on to a new heap; `left` and `remainder` as in foreign_sbrk."""
        segment, tiny = self._retire(left, remainder, spare=self.row.minsize)
        segment.pieces.append(Piece(segment.cursor, tiny + self.row.header, "fence"))
        segment.pieces.append(Piece(segment.cursor, 0, "final"))
        base = self.image.reserve_heap()
        self._add_heap(base, base + self.row.heap_info["sizeof"])

    def shrunk(self, size: int) -> None:
        """heap_trim gave back `size` bytes of the newest heap and left them mprotected."""
        self.segments[-1].spare = size

    def _add_heap(self, base: int, first: int) -> None:
        floor = base + up(FIRST_GROWTH, self.image.grain)
        self.segments.append(Segment("heap", base, first, floor, base + self.image.heap_max))

    def _make_room(self, size: int) -> None:
        # guards and the retired top need a little more
        if self.segments[-1].cursor + size + 4 * self.row.minsize + self.image.grain > self.segments[-1].limit:
            self.new_heap()
