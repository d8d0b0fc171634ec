"""Damages that heaps are found with, each by name. None of them changes the image's truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Sequence, Union

from heap_chunks import ArenaBuilder
from heap_threads import ThreadBuilder
from heap_truth import ArenaTruth, Chunk
from heap_writer import bin_header

if TYPE_CHECKING:
    from heapbuilder import HeapImage

Arena = Union[ArenaBuilder, ArenaTruth]


class Damage:
    """What image.corrupt offers. Arenas are given as builders or as their truth, bins by index."""

    def __init__(self, image: HeapImage) -> None:
        self.image = image
        self.row = image.row
        self.space = image.space

    # chunks

    def size(self, chunk: Chunk, size: int) -> None:
        """Another size, the flags kept."""
        self._set_size_word(chunk, size | self._flags(chunk))

    def oversize(self, chunk: Chunk) -> None:
        """A size that no memory could hold."""
        self.size(chunk, 1 << (8 * self.row.word - 2))

    def zero_size(self, chunk: Chunk) -> None:
        self.size(chunk, 0)

    def misalign_size(self, chunk: Chunk) -> None:
        """A size that no chunk can have: no multiple of MALLOC_ALIGNMENT, or where that is 8, below MINSIZE."""
        self.size(chunk, chunk.size + 8 if self.row.alignment == 16 else 8)

    def flags(self, chunk: Chunk, flags: int) -> None:
        """Another set of PREV_INUSE (1), IS_MMAPPED (2) and NON_MAIN_ARENA (4)."""
        self._set_size_word(chunk, chunk.size | flags)

    def flip_prev_inuse(self, chunk: Chunk) -> None:
        """The bit that says whether `chunk` is in use: it lies in the successor's size word."""
        self.space.put(chunk.end + self.row.word, self.space.get(chunk.end + self.row.word) ^ 1)

    def prev_size(self, chunk: Chunk) -> None:
        """A free chunk's foot disagrees with its head."""
        self.space.put(chunk.end, chunk.size + 2 * self.row.alignment)

    # lists

    def link(self, chunks: Sequence[Chunk], how: str, kind: str = "bin") -> None:
        """Where the last chunk of a list leads: "cycle", back to the first; "dangle", to where nothing is mapped;
        "misalign", to an address that no chunk can have. `kind`: "bin", "fast" or "cache"."""
        # in a cache they lead to what malloc returned, in bins to headers
        first = self.row.user(chunks[0].address) if kind == "cache" else chunks[0].address
        to = {"cycle": first, "dangle": self.image.nowhere, "misalign": first + 4}[how]
        place = self.row.user(chunks[-1].address)
        masked = self.row.safe_linking and kind != "bin"
        self.space.put(place, to ^ (place >> 12) if masked else to)

    def break_bk(self, arena: Arena, index: int) -> None:
        """The last chunk's bk points to itself."""
        last = arena.bins[index][-1]
        self.space.put(last.address + 3 * self.row.word, last.address)

    def dangle_bin(self, arena: Arena, index: int) -> None:
        """The bin's header points to where nothing is mapped: none of its chunks can be reached by fd."""
        header = arena.address + bin_header(self.row.word, self.row.state["bins"], index)
        self.space.put(header + 2 * self.row.word, self.image.nowhere)

    def tcache_count(self, thread: ThreadBuilder, index: int, count: int) -> None:
        """Another count (from 2.42 on: num_slots) than the list has."""
        form = self.row.tcache
        size = form["count_size"]
        self.space.put(self.row.user(thread.tcache.address) + form["counts"] + index * size, count, size)

    # arenas and heaps

    def state(self, arena: Arena, field: str, value: int) -> None:
        """Any word of malloc_state, such as "top" or "system_mem"; mutex and flags are 4 bytes."""
        width = 4 if field in ("mutex", "flags", "have_fastchunks") else self.row.word
        self.space.put(arena.address + self.row.state[field], value, width)

    def lock(self, arena: Arena) -> None:
        self.state(arena, "mutex", 1)

    def break_ring(self, arena: Optional[Arena] = None) -> None:
        """`next` of an arena (main) points to where nothing is mapped."""
        self.state(arena or self.image.main, "next", self.image.nowhere)

    def loop_ring(self) -> None:
        """The oldest arena leads back to the newest, so that main is never reached again."""
        arenas = self.image.truth.arenas
        self.state(arenas[-1], "next", arenas[1].address)

    def heap(self, arena: Arena, field: str, value: int, heap: int = -1) -> None:
        """Any word of a heap_info; heaps count from the oldest."""
        base = self.image.truth.arena(arena.address).heaps[heap].address
        self.space.put(base + self.row.heap_info[field], value)

    def loop_heaps(self, arena: Arena) -> None:
        """The oldest heap's prev leads back to the newest."""
        newest = self.image.truth.arena(arena.address).heaps[-1].address
        self.heap(arena, "prev", newest, heap=0)

    def break_heaps(self, arena: Arena) -> None:
        """The newest heap's prev points to where nothing is mapped."""
        self.heap(arena, "prev", self.image.nowhere)

    def wrong_ar_ptr(self, arena: Arena, heap: int = -1) -> None:
        """A heap says that it belongs to the main arena."""
        self.heap(arena, "ar_ptr", self.image.main.address, heap)

    def wrong_top(self, arena: Arena) -> None:
        self.state(arena, "top", self.image.nowhere)

    # the image

    def cut(self, start: int, end: int) -> None:
        """The image does not hold these bytes, as in a truncated core. Shows in targets made afterwards."""
        self.image.cuts.append((start, end))

    def _flags(self, chunk: Chunk) -> int:
        return self.space.get(chunk.address + self.row.word) & 7

    def _set_size_word(self, chunk: Chunk, value: int) -> None:
        self.space.put(chunk.address + self.row.word, value)
