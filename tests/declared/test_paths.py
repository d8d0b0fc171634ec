"""The way to a block in the program's own words: GDB evaluates what `owner` writes, and comes to that block."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from doors import GDB, Core, Gdb, Image, Live
from looks import opened
from sites import PROGRAMS, Sited

BLOCKS = 24
pytestmark = [pytest.mark.needs_gdb, pytest.mark.debugger]


@pytest.mark.parametrize("kind", ["live", "core"])
@pytest.mark.parametrize(
    ("name", "arguments", "share"), [("daemon.O2", ("200", "closed"), 0.9), ("idioms.O0", (), 0.5)]
)
def test_gdb_comes_to_the_block_by_what_owner_writes(
    tmp_path: Path, name: str, arguments: tuple[str, ...], share: float, kind: str
) -> None:
    """`share`: of blocks that variables lead to by types."""
    gdb = opened(GDB)
    sited = Sited(PROGRAMS / name, tmp_path, *arguments)
    try:
        own = [address for address, each in sited.expected().items() if not each.foreign]
        image: Image = Live(sited.pid, sited.program)
        if kind == "core":
            gdb.do(image, [f"gcore {tmp_path / 'core'}"])
            image = Core(tmp_path / "core", sited.program)
        chosen = random.Random(1).sample(sorted(own), BLOCKS)
        found = [each.json() for each in gdb.run(image, [f"owner {each:#x} --json" for each in chosen])]
        told = {address: each["expression"] for address, each in zip(chosen, found) if each["expression"] is not None}
        assert len(told) >= share * BLOCKS, [each["block"] for each in found if each["expression"] is None]
        assert values(gdb, image, [unfolded(each) for each in told.values()]) == list(told)
        members = {
            (f"&((struct {step['type']} *) 0)->{step['field']}", step["offset"])
            for each in found
            for step in each["path"] or ()
            if step["field"] is not None
        }
        assert len(members) > 3
        assert values(gdb, image, [each for each, _ in members]) == [offset for _, offset in members]
    finally:
        sited.end()


def unfolded(expression: str) -> str:
    """With every step: "->next (5 times)" stands for five."""
    return re.sub(r"(->\w+|\[\d+\]) \((\d+) times\)", lambda found: found[1] * int(found[2]), expression)


def values(gdb: Gdb, image: Image, expressions: list[str]) -> list[int]:
    steps = [{"value": f"(unsigned long) ({each})"} for each in expressions]
    return [each.value for each in gdb.drive(gdb.look_at(image), steps)]
