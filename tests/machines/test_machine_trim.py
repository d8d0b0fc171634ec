"""heap trim on other machines: what it foretells over the stub, against the system calls of the guest's malloc_trim."""

from __future__ import annotations

from typing import Any

import pytest
from machine_album import TRIM, Sight, foretell
from machine_table import STUB, Machine, Scenario, looked_at, one_worker, subjects


def ranges_of(document: dict[str, Any]) -> list[tuple[int, int]]:
    return sorted((int(address, 16), size) for arena in document["arenas"] for address, size in arena["madvise_ranges"])


def tells_the_break(machine: Machine, symbols: bool) -> bool:
    """A libc.so.6 exports __curbrk, stripped or not. A stripped static program has the end of a mapping to go by, which
    no stub tells."""
    return symbols or not machine.static


@pytest.mark.parametrize(
    ("machine", "scenario"),
    [
        pytest.param(machine, scenario, id=f"{machine.id}-{scenario.name}", marks=one_worker(machine, scenario))
        for machine, scenario in subjects()
    ],
)
def test_malloc_trim_does_what_was_foretold(machine: Machine, scenario: Scenario) -> None:
    seen = foretell(machine, scenario)
    happened = seen.trimmed
    assert happened.reply == f"trimmed {int(bool(happened.madvised or happened.break_fell))}"
    for symbols, document in ((True, seen.by_symbols), (False, seen.by_scan)):
        assert ranges_of(document) == happened.madvised
        moves = [arena["brk_bytes"] for arena in document["arenas"]]
        if None in moves:
            assert not tells_the_break(machine, symbols)
            assert (document["complete"], document["totals"]["release_bytes"]) == (False, None)
        else:
            assert document["complete"], document["problems"]
            assert sum(moves) == happened.break_fell
    assert happened.others == []
    assert seen.alive == "intact"


@looked_at()
def test_every_image_gives_the_same_ranges(sight: Sight) -> None:
    """As the stub does, of which the test above proves that it is right."""
    document = sight.outcomes[TRIM].json()
    assert document["arenas"]
    keys = ["madvise_ranges", "madvise_bytes", "tops_bytes", "tops_range"]
    if sight.view.image != STUB or tells_the_break(sight.view.on, sight.view.symbols):
        assert document["complete"], document["problems"]
        keys.append("brk_bytes")
    over_stub = sight.stub[TRIM].json()
    for key in keys:
        assert [arena[key] for arena in document["arenas"]] == [arena[key] for arena in over_stub["arenas"]], key
