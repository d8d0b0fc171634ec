"""The first chunks of bins, of heaps that were built: what is seen is there, and what is not seen is said."""

from __future__ import annotations

import pytest
from fake_target import FakeTarget
from heap_mixtures import everything

from arenascope.glibc.regular_bins import first_chunks
from arenascope.session.session import Session
from arenascope.sources.memory import Memory


def sessions(name: str) -> Session:
    target: FakeTarget = everything(name).target()
    return Session(target)


@pytest.mark.parametrize("name", ["2.23-arm", "2.36-64", "2.36-ppc32"])
def test_all_of_them_are_those_of_the_bins(name: str) -> None:
    session = sessions(name)
    for arena in session.arenas:
        first = first_chunks(session.memory, session.layout, arena.header, 1 << 20)
        expected = {pair for each in arena.bins for pair in zip(each.addresses, each.sizes)}
        assert first.whole
        assert len(first.chunks) == len(expected)
        assert {tuple(each) for each in first.chunks} == expected
        part = first_chunks(session.memory, session.layout, arena.header, 1)
        assert part.chunks == first.chunks[:1]
        assert part.whole == (len(expected) <= 1)


def test_a_list_that_leads_astray_ends_there() -> None:
    session = sessions("2.36-64")
    arena = max(session.arenas, key=lambda each: max((len(one.addresses) for one in each.bins), default=0))
    longest = max(arena.bins, key=lambda each: len(each.addresses))
    second, word = longest.addresses[1], session.layout.word
    memory = Memory(session.target.read, session.target.pointer_size, session.target.byte_order)
    node = memory.node

    def moved(chunk: int) -> tuple[int, ...]:
        """As if the first chunk were freed again, elsewhere."""
        raw, fd, bk = node(chunk)
        return (raw, fd, bk + 2 * word) if chunk == second else (raw, fd, bk)

    memory.node = moved
    first = first_chunks(memory, session.layout, arena.header, 1 << 20)
    seen = {each.address for each in first.chunks}
    assert not first.whole
    assert longest.addresses[0] in seen
    assert not seen & set(longest.addresses[1:])
