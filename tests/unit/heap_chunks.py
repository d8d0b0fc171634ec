"""Lays the chunks of an arena one after another, from the first chunk of a region to its top."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Optional

from glibc_rows import up
from heap_truth import Chunk

if TYPE_CHECKING:
    from heapbuilder import HeapImage

# what malloc asks of sbrk first: the request, 128 KiB of top_pad and MINSIZE, in whole pages
FIRST_GROWTH = 0x21000


@dataclass
class Piece:
    address: int
    size: int
    kind: str
    """"used", "free", "fast", "cached", "fence" (no chunk, only a header) or "final" (the same with size 0)."""


@dataclass
class Segment:
    """A heap_info heap of a thread arena, or a region of the main arena."""

    source: str
    """"brk", "mmap" or "heap"."""
    address: int
    """heap_info; in the main arena where the region begins."""
    first: int
    """The first chunk."""
    floor: int
    """It ends here at the least."""
    limit: int
    """It ends here at the most."""
    end: Optional[int] = None
    """None while it can grow."""
    spare: int = 0
    """Bytes past the end that stay mprotected."""
    pieces: list[Piece] = field(default_factory=list)

    @property
    def size(self) -> int:
        return self.end - self.address

    @property
    def mprotect_size(self) -> Optional[int]:
        """None in the main arena."""
        return self.size + self.spare if self.source == "heap" else None

    @property
    def cursor(self) -> int:
        return self.pieces[-1].address + self.pieces[-1].size if self.pieces else self.first


class ArenaBuilder:
    """Sizes are chunk sizes; glibc's own neighbours rule is kept by laying a used chunk of MINSIZE where two binned
    chunks, or one and top, would touch."""

    main = False

    def __init__(self, image: HeapImage, address: int) -> None:
        self.image = image
        self.row = image.row
        self.address = address
        self.segments: list[Segment] = []
        self.bins: dict[int, list[Chunk]] = {}
        self.fastbins: dict[int, list[Chunk]] = {}
        self.attached = 0
        self.mutex = 0
        self.peak = 0
        """The least that max_system_mem shows."""

    def used(self, size: int) -> Chunk:
        return self._lay(size, "used")

    def free(self, size: int, into: str = "unsorted") -> Chunk:
        """A free chunk, in front of the unsorted list or (into="bin") where malloc sorts it."""
        self._guard()
        chunk = self._lay(size, "free")
        self._file(chunk, into)
        return chunk

    def fast(self, size: int) -> Chunk:
        assert 0 < size <= self.row.max_fast, f"{self.row} keeps no chunk of {size:#x} in a fastbin"
        chunk = self._lay(size, "fast")
        self.fastbins.setdefault(self.row.fastbin_index(size), []).insert(0, chunk)
        return chunk

    def top(self, size: int) -> Chunk:
        """Ends the region with a top of this size, or up to an alignment unit more where its end asks for that.

        A used chunk fills the gap. Nothing can be laid here afterwards.
        """
        self._guard()
        segment = self.segments[-1]
        end = segment.limit if segment.source == "mmap" else up(segment.cursor + size, self.image.grain)
        while True:
            gap = (end - size - segment.cursor) & -self.row.alignment
            if gap == 0 or gap >= self.row.minsize:
                break
            end += self.image.grain
        if gap:
            self.used(gap)
        self._end(segment, end)
        return Chunk(segment.cursor, end - segment.cursor)

    def lock(self) -> None:
        """As though a thread stood inside malloc."""
        self.mutex = 1

    def mix(self, count: int) -> None:
        """A random population, the same for the same seed."""
        rng, row = self.image.rng, self.row
        for _ in range(count):
            size = row.request2size(rng.choice((rng.randrange(8, 200), rng.randrange(200, 9000))))
            self._make_room(size)
            kind = rng.random()
            if kind < 0.2:
                self.free(size, rng.choice(("unsorted", "bin")))
            elif kind < 0.3 and size <= row.max_fast:
                self.fast(size)
            else:
                self.used(size)

    def close(self) -> Optional[Chunk]:
        """Ends the last region; its top."""
        if not self.segments:
            return None
        segment = self.segments[-1]
        if segment.end is None:
            self._guard()
            self._end(segment, max(segment.floor, up(segment.cursor + self.row.minsize, self.image.grain)))
        return Chunk(segment.cursor, segment.end - segment.cursor)

    def _end(self, segment: Segment, end: int) -> None:
        assert end <= segment.limit, f"no room: the region at {segment.address:#x} ends at {segment.limit:#x}"
        segment.end = end

    def _lay(self, size: int, kind: str) -> Chunk:
        self.image.still_building()
        segment = self.segments[-1]
        assert segment.end is None, "the top of this region is fixed already"
        assert size == self.row.request2size(size - self.row.word), f"{size:#x} is no chunk size in {self.row}"
        end = segment.cursor + size + self.row.minsize
        assert end <= segment.limit, f"no room: the region at {segment.address:#x} ends at {segment.limit:#x}"
        chunk = Chunk(segment.cursor, size)
        segment.pieces.append(Piece(*chunk, kind))
        return chunk

    def _make_room(self, size: int) -> None:
        """Before a chunk of `mix`."""

    def _guard(self) -> None:
        pieces = self.segments[-1].pieces
        if pieces and pieces[-1].kind == "free":
            self._lay(self.row.minsize, "used")

    def _file(self, chunk: Chunk, into: str) -> None:
        assert into in ("unsorted", "bin"), into
        index = 1 if into == "unsorted" else self.row.bin_index(chunk.size)
        bin_list = self.bins.setdefault(index, [])
        place = 0
        if index > 1 and chunk.size >= self.row.min_large:
            # descending, and a chunk of a size that is there already becomes the second of its size
            place = sum(each.size > chunk.size for each in bin_list)
            place += any(each.size == chunk.size for each in bin_list)
        bin_list.insert(place, chunk)

    def _retire(self, left: Optional[int], remainder: str, spare: int) -> tuple[Segment, int]:
        """Turns the top, less `spare` bytes, into a freed remainder.

        The segment, for the fences that follow, and the bytes that were too few for a chunk.
        """
        self.image.still_building()
        if left is not None:
            self.top(left)
        self.close()
        segment = self.segments[-1]
        size = (segment.end - segment.cursor - spare) & -self.row.alignment
        if size < self.row.minsize:
            return segment, size
        chunk = Chunk(segment.cursor, size)
        self._file(chunk, remainder)
        segment.pieces.append(Piece(*chunk, "free"))
        return segment, 0
