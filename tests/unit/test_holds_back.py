"""What a kind holds back where memory is locked or top is large (else: debuggers/test_holding_back.py frees it all)."""

from __future__ import annotations

from typing import Iterator

from heapbuilder import HeapImage

from arenascope.analysis.pinning_blocks import Holdings, HoldSearch
from arenascope.analysis.pinning_blocks import Typed as Block
from arenascope.analysis.trim_prediction import TrimRules
from arenascope.base.heap_model import ArenaHeader, ChunkRun, Heap
from arenascope.blocks.type_figures import held_back, in_memory
from arenascope.glibc.sweep import blocks
from arenascope.session.session import Session
from arenascope.sources.target import Runs, Span


def by_size(session: Session, header: ArenaHeader, heap: Heap) -> Iterator[Block]:
    for piece in session.sweep(header, heap):
        if isinstance(piece, ChunkRun):
            for chunk, size, state in blocks(piece, session.listed):
                yield chunk, size, state, size
        else:
            yield piece.address, piece.bytes, piece.kind, -1


def test_what_is_present_of_a_range() -> None:
    present = Runs([Span(0x1000, 0x3000), Span(0x5000, 0x6000)])
    assert present.bytes_in(0, 0x10000) == 0x3000
    assert present.bytes_in(0x2000, 0x5000) == 0x1000
    assert present.bytes_in(0x3000, 0x5000) == present.bytes_in(0, 0x1000) == 0
    assert Runs([]).bytes_in(0, 0x10000) == 0


def test_what_is_locked_stays_in_memory() -> None:
    """madvise ends at the first locked page; the figure of address space does not."""
    page, start = 4096, 0x7F0000000000
    layout = Session(HeapImage("2.36-64").target()).layout
    heap = Heap(0, start, start + 64 * page, None, True)
    header = ArenaHeader(0, 0x7000, True, 0, 0, heap.end, 0, 0x7000, 1, heap.bytes, heap.bytes, True)
    blocks_of_one = [
        (start + 16, 10 * page, "used", 1),
        (start + 16 + 10 * page, 20 * page, "free", -1),
        (start + 16 + 30 * page, 2 * page, "used", 2),
        (start + 16 + 32 * page, 20 * page, "free", -1),
        (start + 16 + 52 * page, 4 * page, "used", 1),
    ]
    found = {}
    for locked in ((), [Span(start + 40 * page, start + 41 * page)], [Span(start + 31 * page, start + 32 * page)]):
        holdings = Holdings()
        search = HoldSearch(header, TrimRules(layout, page, heap.end), None, holdings)
        search.locked = locked
        search.walk(heap, blocks_of_one, Runs([Span(heap.address, heap.end)]))
        held_by = holdings.of(2)
        assert held_by is not None
        # the block's own two pages, and the one on either side that it shares
        assert held_by.releases == 3 * page
        found[len(found)] = held_by.resident
    # after a lock in the second piece nothing goes back either way; with one in the block, what lies in front of it
    assert found == {0: 3 * page, 1: 3 * page, 2: page}


def test_a_top_is_not_stranded() -> None:
    """The one block below a thread arena's large top: what goes back with it lay in no page that it shares."""
    image = HeapImage("2.36-64", trim_threshold=0x8000, top_pad=0)
    arena = image.thread(1).arena
    arena.used(0x100)
    arena.free(0x20000)
    arena.used(0x40)
    session = Session(image.target())
    held_by = held_back(session, in_memory(session, 1), lambda header, heap: by_size(session, header, heap)).of(0x40)
    assert held_by is not None
    assert held_by.releases > held_by.within
    assert held_by.within <= 0x2000
