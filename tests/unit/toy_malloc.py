"""free() and malloc_trim() played on what a built heap holds, step by step and on lists, as one reads them in malloc.c.

Slow and plain on purpose: it copies the whole arena for every block, and shares nothing with arenascope.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from fake_door import run_json
from heapbuilder import ArenaTruth, HeapImage

EVERY = ("--own", "--ranges", "--limit", "0")


@dataclass
class Cell:
    at: int
    size: int
    kind: str
    """"used", "free", "fast", "cached", "fence" or "top"."""

    @property
    def end(self) -> int:
        return self.at + self.size


class ToyArena:
    def __init__(self, image: HeapImage, arena: ArenaTruth) -> None:
        self.row, self.mp, self.brk = image.row, dict(image.truth.mp), image.truth.curbrk
        self.main = arena.index == 0
        self.page, self.heap_max, self.grain = image.row.page_size, image.heap_max, image.grain
        self.gone: set[int] = set()
        """The pages that went back, by their number."""
        self.heaps = []
        self.ends = [[heap.address, heap.end] for heap in arena.heaps]
        states = [*arena.states(), *((fence.address, fence.size, "fence") for fence in arena.fences)]
        if arena.top:
            states.append((arena.top.address, arena.top.size, "top"))
        for heap in arena.heaps:
            self.heaps.append([Cell(*each) for each in sorted(states) if heap.address <= each[0] < heap.end])

    def copy(self) -> ToyArena:
        return copy.deepcopy(self)

    # free()

    def free(self, at: int) -> tuple[int, bool]:
        """(bytes that went back, whether the chunk was large enough to look)."""
        cells, index = self._find(at)
        cells[index].kind = "free"
        size = self._merge(cells, index)
        if size < 65536:
            return 0, False
        return self.trim_top(), True

    def trim_top(self) -> int:
        self.consolidate()
        return self._systrim_by_free() if self.main else self._heap_trim()

    def _give_back(self, start: int, end: int) -> None:
        self.gone.update(range(start // self.page, end // self.page))

    def _find(self, at: int) -> tuple[list[Cell], int]:
        return next((cells, index) for cells in self.heaps for index, cell in enumerate(cells) if cell.at == at)

    def _merge(self, cells: list[Cell], index: int) -> int:
        """Joins a free chunk with its free neighbours, and with top."""
        if index and cells[index - 1].kind == "free":
            cells[index - 1].size += cells.pop(index).size
            index -= 1
        if index + 1 < len(cells) and cells[index + 1].kind in ("free", "top"):
            cells[index].kind = cells[index + 1].kind
            cells[index].size += cells.pop(index + 1).size
        return cells[index].size

    def consolidate(self) -> None:
        for cells in self.heaps:
            while any(cell.kind == "fast" for cell in cells):
                index = next(index for index, cell in enumerate(cells) if cell.kind == "fast")
                cells[index].kind = "free"
                self._merge(cells, index)

    @property
    def top(self) -> Cell:
        return next(cell for cells in self.heaps for cell in cells if cell.kind == "top")

    # systrim

    def _systrim_by_free(self) -> int:
        return self._systrim(self.mp["top_pad"]) if self.top.size >= self.mp["trim_threshold"] else 0

    def _systrim(self, pad: int) -> int:
        top, unit = self.top, self.mp.get("thp_pagesize") or self.page
        spare = top.size - self.row.minsize - 1 - pad
        if spare <= 0 or self.brk != top.end:
            return 0
        extra = spare - spare % unit
        top.size -= extra
        self.brk -= extra
        self._give_back(self.brk, self.brk + extra)
        return extra

    # heap_trim

    def _heap_trim(self) -> int:
        released, pad, page = 0, self.mp["top_pad"], self.grain
        while (
            len(self.heaps) > 1
            and self.heaps[-1][0].kind == "top"
            and (self.top.at == self.ends[-1][0] + self.row.heap_info["sizeof"])
        ):
            before = self.heaps[-2]
            fences = [cell for cell in before if cell.kind == "fence"]
            start = fences[0].at
            rest = [cell for cell in before if cell.kind != "fence"]
            if rest and rest[-1].kind == "free":
                start = rest.pop().at
            end = self.ends[-2][1]
            if end - start + self.heap_max - (end - self.ends[-2][0]) < pad + self.row.minsize + page:
                break
            address, stop = self.ends.pop()
            self.heaps.pop()
            released += stop - address
            self._give_back(address, stop)
            self.heaps[-1] = [*rest, Cell(start, end - start, "top")]
        shrunk = self._shrink(self.top.size, pad, page)
        self.top.size -= shrunk
        self.ends[-1][1] -= shrunk
        self._give_back(self.ends[-1][1], self.ends[-1][1] + shrunk)
        return released + shrunk

    def _shrink(self, size: int, pad: int, page: int) -> int:
        threshold, spare = self.mp["trim_threshold"], size - self.row.minsize - 1 - pad
        extra = max(spare - spare % page, 0) if spare > 0 else 0
        if self.row.number < (2, 22):
            return extra
        if self.row.number == (2, 22):
            return extra if extra >= threshold else 0
        return extra if size >= threshold else 0

    # malloc_trim(0)

    def malloc_trim(self) -> int:
        self.consolidate()
        released = 0
        for cells in self.heaps:
            for cell in cells:
                if cell.kind == "free" and cell.size >= self.page + 6 * self.row.word:
                    first = -(-(cell.at + 6 * self.row.word) // self.page)
                    released += max(cell.end // self.page - first, 0) * self.page
                    self._give_back(first * self.page, cell.end)
        return released + (self._systrim(0) if self.main else 0)


def worth(image: HeapImage, arena: ArenaTruth) -> dict[int, tuple[int, str]]:
    """What free() of each used block brings, alone or with a malloc_trim(0) after it, beyond what comes without it."""
    whole = ToyArena(image, arena)
    now = whole.copy().malloc_trim()
    other = whole.copy()
    pending = other.trim_top() if arena.top else 0
    now_after_pending = pending + other.malloc_trim() if arena.top else now
    found = {}
    for block in arena.used:
        toy = whole.copy()
        by_free, looked = toy.free(block.address)
        by_trim = by_free + toy.malloc_trim() - (now_after_pending if looked else now)
        by_free -= pending if looked else 0
        found[block.address] = max((by_free, "free"), (by_trim, "trim"), key=lambda each: each[0])
    return found


def held(image: HeapImage, arena: ArenaTruth) -> dict[int, int]:
    """By the size of blocks: what more goes back with all of that size freed, the oldest heap's lowest first, and a
    malloc_trim(0) after that. What any free() brings at top is none's."""
    whole = ToyArena(image, arena)
    now = whole.copy()
    now.malloc_trim()
    other = whole.copy()
    if arena.top:
        other.trim_top()
    found = {}
    for size in {block.size for block in arena.used}:
        toy = whole.copy()
        for at in [cell.at for cells in whole.heaps for cell in cells if (cell.kind, cell.size) == ("used", size)]:
            toy.free(at)
        toy.malloc_trim()
        found[size] = toy.page * len(toy.gone - now.gone - other.gone)
    return found


def together(image: HeapImage, arena: ArenaTruth, blocks: int) -> tuple[int, int]:
    """(bytes, what goes back) of the last so many used blocks before top, the lowest freed first."""
    toy = ToyArena(image, arena)
    last = [(cell.at, cell.size) for cell in toy.heaps[-1] if cell.kind == "used"][-blocks:]
    released = sum(toy.free(at)[0] for at, _ in last)
    return sum(size for _, size in last), released - ToyArena(image, arena).trim_top()


def compare(image: HeapImage) -> dict[str, Any]:
    """Every pin that is listed is worth what the toy says, and none that keeps something is left out."""
    document = run_json(image.target(), "pins", *EVERY)
    assert document["complete"], document["problems"]
    listed = {int(pin["address"], 16): pin for pin in document["pins"]}
    expected: dict[int, tuple[int, str]] = {}
    sizes: dict[int, int] = {}
    for arena in image.truth.arenas:
        expected.update(worth(image, arena))
        sizes.update(arena.used)
    for address, pin in listed.items():
        assert (pin["releases_bytes"], pin["bytes"]) == (expected[address][0], sizes[address]), pin
        assert pin["releases_bytes"] == weigh(pin["ranges"]) - weigh(pin["already"])
        assert pin["by"] == expected[address][1] or pin["by"] == "free", pin
    assert {address for address, (gain, _) in expected.items() if gain > sizes[address]} <= set(listed)
    for run in document["together"]:
        arena = image.truth.arenas[run["arena"]]
        assert (run["bytes"], run["releases_bytes"]) == together(image, arena, run["blocks"]), run
    return document


def weigh(steps: list[list[Any]]) -> int:
    return sum(size for _, _, size in steps)
