"""Pointers of main of which the compiler tells no place: what they lead to is found in its frame, and nothing else is
taken for it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Callable, NamedTuple, Sequence

import pytest
from doors import GDB, Core, Door, Live
from lldb_door import NEWEST_LLDB
from looks import give_up, opened
from sites import SOURCES, Comparison, Sited, compare, sizes_of
from test_builds import CXX, SITED
from test_names import names_in

pytestmark = pytest.mark.xdist_group("lost locals")
LEVELS = [pytest.param("-O1", marks=pytest.mark.full), "-O2"]
DOORS = [pytest.param(each, id=each.name) for each in (GDB, NEWEST_LLDB)]
ROOTS = {"Book", "Archive"}


class Named(NamedTuple):
    names: set[str]
    found: Comparison


Look = Callable[[str, Door, Sequence[str]], list[Named]]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """What a door names of the program that is built so: live, and in a core."""

    def named(level: str, door: Door, defined: Sequence[str]) -> list[Named]:
        opened(door)
        program = tmp_path / "lost"
        built = subprocess.run(
            [*CXX, *SITED, level, *(f"-D{each}" for each in defined), str(SOURCES / "orders.cc"), "-o", str(program)],
            capture_output=True,
            text=True,
        )
        if built.returncode:
            give_up(f"g++ does not build it: {built.stderr[-300:]}")
        sited = Sited(program, tmp_path, "500", "index")
        try:
            expected, core = sited.expected(), tmp_path / "core"
            sizes = sizes_of(program, {each.type for each in expected.values() if each.type})
            live = Live(sited.pid, program)
            opened(GDB).do(live, [f"generate-core-file {core}"])
            told = [names_in(door, image, tmp_path) for image in (live, Core(core, program))]
        finally:
            sited.end()
        names = [{address: name for address, (name, _) in each.items()} for each in told]
        return [Named(set(each.values()), compare(each, expected, sizes)) for each in names]

    return named


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("level", LEVELS)
def test_what_lost_pointers_lead_to(look: Look, level: str, door: Door) -> None:
    """But not what is beside it in the frame, as large, and of another type or what remains of one that is freed."""
    for names, found in look(level, door, ["LOST"]):
        assert found.wrong == []
        assert names >= ROOTS
        assert found.typed >= 0.95
        assert found.typed_bytes >= 0.95


@pytest.mark.full
@pytest.mark.parametrize("door", DOORS)
def test_one_of_two_types_with_the_same_members(look: Look, door: Door) -> None:
    """Which of them it is, nothing tells."""
    for names, found in look("-O2", door, ["LOST", "TWIN"]):
        assert found.wrong == []
        assert names & {"Book", "Twin", "Archive"} == {"Archive"}
        assert found.typed < 0.8
