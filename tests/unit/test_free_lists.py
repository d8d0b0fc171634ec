"""Lists that the engine follows are those that are walked link by link: of sound heaps and of damaged ones."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import pytest
from fake_target import FakeTarget
from heap_mixtures import everything
from heapbuilder import HeapImage
from marks import in_full
from test_damage import ARENAS, LISTS

from arenascope.base.errors import MemoryReadError
from arenascope.engine import FollowedLists, ListStart
from arenascope.session import session as sessions
from arenascope.session.session import Session, follow_lists
from arenascope.sources.target import MemoryPiece

ROWS = ["2.17-64", "2.26-i386", "2.36-64", "2.43-64"]
PAGE = 4096


def pieces_of(target: FakeTarget, start: int, end: int) -> Optional[Sequence[MemoryPiece]]:
    pieces = []
    for address in range(start, end, PAGE):
        try:
            data = target.read(address, min(PAGE, end - address))
        except MemoryReadError:
            continue
        pieces.append(MemoryPiece(address, len(data), memoryview(bytearray(data))))
    return pieces


class Lists:
    """What a session tells of all lists, and how many of them the engine had followed."""

    def __init__(self, target: FakeTarget, engine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        self.followed = self.odd = 0

        def follow(session: Session, starts: dict[int, ListStart]) -> FollowedLists:
            lists = follow_lists(session, starts) if engine else FollowedLists()
            self.followed += len(lists.whole)
            self.odd += len(lists.odd)
            return lists

        with monkeypatch.context() as patched:
            patched.setattr(sessions, "follow_lists", follow)
            patched.setattr(FakeTarget, "pieces", pieces_of)
            session = Session(target)
            arenas = session.arenas
            caches = session.thread_caches if session.started else []
        self.told: Any = (
            [self._bin(each) for arena in arenas for each in (*arena.bins, *arena.fastbins)],
            [self._bin(each) for cache in caches for each in cache.bins],
            [arena.complete for arena in arenas],
            [cache.known for cache in caches],
            session.findings,
        )

    @staticmethod
    def _bin(each: Any) -> Any:
        return each._replace(addresses=list(each.addresses), sizes=list(each.sizes))


def long_lists(row: str) -> HeapImage:
    """Also lists of one, two and many chunks."""
    image = everything(row)
    for number in (1, 2, 3, 17):
        for _ in range(number):
            image.main.used(0x30)
            image.main.free(0x700 + 0x100 * number, into="bin")
    image.main.used(0x30)
    return image


@pytest.mark.parametrize("row", ROWS)
def test_sound_lists_are_those_that_were_built(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = long_lists(row).target()
    by_engine, by_link = (Lists(target, engine, monkeypatch) for engine in (True, False))
    assert by_engine.told == by_link.told
    bins, caches, complete, known, _ = by_engine.told
    # one cache's block may lie outside of all heaps: its bytes the engine was not given
    assert by_engine.followed + by_engine.odd == len(bins) + len(caches)
    assert by_engine.odd <= (row == "2.43-64")
    assert by_link.followed == 0
    assert all(complete)
    assert all(known)
    assert max(len(each.addresses) for each in bins) >= 17


@pytest.mark.parametrize("row", ["2.26-i386", *in_full("2.36-64")])
def test_damage_is_told_as_link_by_link(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = 0
    for name, wound in {**LISTS, **ARENAS}.items():
        image = everything(row)
        if wound(image) is not None:
            target = image.target()
            by_engine = Lists(target, True, monkeypatch)
            assert by_engine.told == Lists(target, False, monkeypatch).told, name
            odd += by_engine.odd
    assert odd > len(LISTS) // 2
