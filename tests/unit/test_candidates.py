"""The candidates on the way to the heap: asking for it finds the same, and each that lost says why."""

from __future__ import annotations

import re

import pytest
from fake_door import run_json, run_text
from heap_mixtures import everything
from heapbuilder import EACH_ROW, HeapImage, Row

from arenascope.glibc.process_layout import KINDS, CandidateTrail
from arenascope.session.session import Session

rows = pytest.mark.parametrize("row", EACH_ROW, ids=str)


def asked(session: Session) -> Session:
    session.trail = CandidateTrail()
    return session


@rows
@pytest.mark.parametrize("symbols", [True, False])
def test_asking_finds_the_same(row: Row, symbols: bool) -> None:
    target = everything(row).target(symbols=symbols, structs=symbols, rodata=symbols)
    session, other = Session(target), asked(Session(target))
    assert other.located == session.located
    assert other.threads_found == session.threads_found
    assert other.layout == session.layout
    assert other.trail is not None
    for kind in KINDS:
        met = other.trail.of(kind)
        if kind == "thread_caches" and not row.has_tcache and not symbols:
            assert not met
            continue
        assert [each.chosen for each in met] == [True, *(False for _ in met[1:])], kind
        assert len({each.name for each in met}) == len(met)
        assert met[0].speaks_for
        assert all(each.against for each in met[1:]), [each for each in met[1:] if not each.against]
    assert other.trail.of("main_arena")[0].name == f"{session.located.main_arena:#x}"


def test_where_nothing_is_found_each_candidate_says_why() -> None:
    """A symbol that leads nowhere, in a process whose arena was overwritten."""
    image = HeapImage("2.36-64")
    image.main.mix(10)
    target = image.target()
    main = image.addresses["main_arena"]
    image.space.write(main, b"\xa5" * 2200)
    document = run_json(target, "version", "--full")
    assert document["layout"] is None
    (lost,) = document["candidates"]["main_arena"]
    assert (lost["name"], lost["taken"]) == (f"{main:#x}", False)
    assert lost["for"]
    assert lost["against"]
    assert all(not document["candidates"][kind] for kind in KINDS[1:])
    screen = run_text(target, "version", "--full")
    assert f"    - {lost['against'][0]}" in screen
    assert re.search(r"main_arena: 1 .*^ *mp_: ", screen, re.MULTILINE | re.DOTALL)


def test_only_who_asks_is_told() -> None:
    target = everything("2.36-64").target()
    assert "candidates" not in run_json(target, "version")
    assert "candidate" not in run_text(target, "version")
