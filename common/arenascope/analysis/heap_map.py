"""Maps every heap: cuts it into cells of one size, and counts the bytes of each kind in each cell.

A strip's memory is bounded by its number of cells, however large the heap: chunks are added up, none is kept.
"""

from __future__ import annotations

from array import array
from typing import Iterable, Optional, Sequence

from ..base.heap_model import ChunkRun, Heap, Piece, Range
from ..glibc.malloc_chunk import PREV_INUSE, SIZE_BITS
from ..glibc.sweep import free_chunks
from ..sources.target import Span
from .trim_prediction import Chunk

PARTS = ("used", "cached", "free", "top", "bookkeeping", "foreign", "damaged")
"""The kinds of bytes in a heap: these sum to the cell's size. "cached" is in a thread cache or fastbin."""
OVER = ("resident", "releasable", "releasable_resident", "tops")
"""Layers that may also hold for any byte; "tops" is what only `trim --tops` gives back."""
LAYERS = (*PARTS, *OVER)
SPLITS = "splits"
"""The layer that counts stretches instead of bytes: those in use that begin in a cell and are smaller than the free
memory on both sides."""
GAPS = {"header": "bookkeeping", "fencepost": "bookkeeping", "foreign": "foreign", "top": "top", "damage": "damaged"}
"""The layer of each kind of gap that a sweep meets."""


def cell_bytes(size: int, page: int, limit: int) -> int:
    """Returns the smallest power of two, at least a page, that cuts `size` bytes into no more than `limit` cells."""
    return max(page, 1 << (max(1, -(-size // limit)) - 1).bit_length())


class Strip:
    """One heap: cells from its start on, of which the last may be shorter. A layer in `unknown` has no figures."""

    def __init__(self, heap: Heap, cell: int, unknown: Iterable[str] = ()) -> None:
        self.heap = heap
        self.cell = cell
        self.count = -(-heap.bytes // cell)
        self.unknown = set(unknown)
        self.met = 0
        """The number of listed chunks that were met."""
        self._shift = cell.bit_length() - 1
        self._last_free: Optional[Range] = None
        """The last free chunk, if only chunks in use followed."""
        self._layers: dict[str, array[int]] = {}

    def cells(self, layer: str) -> Optional[Sequence[int]]:
        """Bytes by cell; None if they are not known."""
        if layer in self.unknown:
            return None
        return self._layers.get(layer) or (0,) * self.count

    def held(self) -> Sequence[int]:
        """Used and cached together: known also where the two cannot be told apart."""
        none = (0,) * self.count
        used, cached = (self._layers.get(layer) or none for layer in ("used", "cached"))
        return [one + other for one, other in zip(used, cached)]

    def total(self, layer: str) -> Optional[int]:
        return None if layer in self.unknown else self._sum(layer)

    def _sum(self, layer: str) -> int:
        return sum(self._layers.get(layer, ()))

    @property
    def bytes(self) -> int:
        """The sum of all parts, which is the heap's own size."""
        return sum(self._sum(part) for part in PARTS)

    def length(self, index: int) -> int:
        """Returns the number of bytes in a cell."""
        return min(self.cell, self.heap.bytes - index * self.cell)

    def add(self, layer: str, address: int, size: int) -> None:
        """Adds bytes of this heap to the cells that they lie in."""
        if size <= 0:
            return
        self._spread(self._layer(layer), address - self.heap.address, size, 1)

    def _spread(self, cells: array[int], start: int, size: int, sign: int) -> None:
        shift = self._shift
        first, last = start >> shift, (start + size - 1) >> shift
        if first == last:
            cells[first] += sign * size
            return
        cells[first] += sign * (((first + 1) << shift) - start)
        for index in range(first + 1, last):
            cells[index] += sign * self.cell
        cells[last] += sign * (start + size - (last << shift))

    def _layer(self, name: str) -> array[int]:
        cells = self._layers.get(name)
        if cells is None:
            cells = self._layers[name] = array("q", bytes(8 * self.count))
        return cells

    def add_spans(self, layer: str, spans: Iterable[Span]) -> None:
        """Adds the parts of these spans that lie in this heap."""
        low, high = self.heap.address, self.heap.end
        for start, end in spans:
            self.add(layer, max(start, low), min(end, high) - max(start, low))

    def add_piece(self, piece: Piece) -> None:
        if isinstance(piece, ChunkRun):
            self.add_run(piece)
        else:
            self.add_gap(piece.kind, piece.address, piece.bytes)

    def add_gap(self, kind: str, address: int, size: int) -> None:
        self.add(GAPS[kind], address, size)
        if kind == "top":
            self._split(address, size)
        else:
            self._last_free = None

    def _split(self, address: int, size: int) -> None:
        """Counts splits. It must be called for all free chunks, in address order."""
        last, self._last_free = self._last_free, Range(address, size)
        if last is not None and 0 < address - last.end < last.bytes + size:
            self._layer(SPLITS)[(last.end - self.heap.address) >> self._shift] += 1

    def add_run(self, run: ChunkRun) -> None:
        """Adds a run of chunks, all as used at first: only the free and listed ones are then visited one by one."""
        self.add("used", run.address, run.bytes)
        chunks = free_chunks(run)
        if chunks:
            self._add_free(chunks)
        for at, chunk in run.marks:
            self.met += 1
            if run.after(at) & PREV_INUSE:
                start, size = chunk - self.heap.address, run.raws[at] & ~SIZE_BITS
                self._spread(self._layer("used"), start, size, -1)
                self._spread(self._layer("cached"), start, size, 1)

    def _add_free(self, chunks: Sequence[Chunk]) -> None:
        """Moves chunks from used to free. One loop without calls: there may be a million."""
        self._split(*chunks[0])
        used, free, splits = (self._layer(name) for name in ("used", "free", SPLITS))
        shift, base = self._shift, self.heap.address
        last_size = before = 0
        for address, size in chunks:
            start = address - base
            end = start + size
            first = start >> shift
            if first == end - 1 >> shift:
                used[first] -= size
                free[first] += size
            else:
                self._spread(used, start, size, -1)
                self._spread(free, start, size, 1)
            if last_size and before < start < before + last_size + size:
                splits[before >> shift] += 1
            before, last_size = end, size
        self._last_free = Range(*chunks[-1])

    def folded(self, limit: int) -> Strip:
        """Returns the same strip with fewer, larger cells: `limit` at most."""
        cell = max(self.cell, cell_bytes(self.heap.bytes, 1, limit))
        if cell == self.cell:
            return self
        strip = Strip(self.heap, cell, self.unknown)
        step = cell // self.cell
        for name, cells in self._layers.items():
            strip._layers[name] = array("q", (sum(cells[at : at + step]) for at in range(0, self.count, step)))
        strip.met = self.met
        return strip
