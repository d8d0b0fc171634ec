"""Pages of runtimes' heaps are asked for within bounds, whatever a core says of its mappings' sizes."""

from __future__ import annotations

from typing import Sequence

import pytest
from heap_mixtures import everything

from arenascope.blocks.graph import roots
from arenascope.blocks.graph.roots import Page, Root, RuntimeForm, Runtimes
from arenascope.session.session import Session
from arenascope.sources.elf.modules import Modules, modules_of
from arenascope.sources.memory import Memory
from arenascope.sources.target import Region

MOST, SIZE = 1000, 1 << 46


def test_mappings_that_are_said_to_be_large(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def none_is(_: Memory, page: Page) -> int:
        asked.append(page.start)
        return 0

    def words(_: Memory, address: int) -> Sequence[int]:
        return (address,)

    monkeypatch.setattr(roots, "MOST_IN_ALL", MOST)
    monkeypatch.setattr(roots, "_words", words)
    session = Session(everything("2.36-64").target())
    found = Runtimes(session, Modules(session.target, modules_of(session.regions)))
    monkeypatch.setattr(found, "_forms", {"CPython": RuntimeForm(4 << 10, none_is)})
    for start in (SIZE, 2 * SIZE, 3 * SIZE):
        region = Region(start, start + SIZE)
        root = Root("mapping", region.start, region.end)
        assert [*found.parts(region, root)] == [root]
    assert len(asked) == MOST
