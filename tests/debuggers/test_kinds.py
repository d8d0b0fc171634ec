"""What fixtures/kinds.cc planted, as the debuggers say it: of the kernel's core, where names stand in files."""

from __future__ import annotations

from collections import Counter

import pytest
from doors import DOORS, NEWEST
from looks import Core, opened
from planted import MANY, planted_by
from subjects import Subject


@pytest.mark.parametrize("name", [NEWEST[0], pytest.param(NEWEST[1], marks=pytest.mark.full)])
def test_classes_are_counted(name: str) -> None:
    door = opened(DOORS[name])
    with Subject("kinds.stripped") as subject:
        planted = planted_by(subject.folder / "truth")
        first = next(block for block, what in planted.items() if what[0] == "c++")
        core = Core(subject.kernel_core(), subject.program)
        told, chunk = door.run(core, ["types --limit 0 --json", f"chunk {first:#x} --json"])
    assert told.error is None, told
    rows = {(row["kind"], row["type"]): row for row in told.json()["types"]}
    of_classes = Counter(what for what in planted.values() if what[0] in ("c++", "control"))
    assert len(of_classes) > MANY // 2
    for what, blocks in of_classes.items():
        assert rows[what]["blocks"] == blocks, what
        assert {planted[int(each, 16)] for each in rows[what]["samples"]} == {what}
    found = chunk.json()["chunk"]
    assert (found["kind"], found["type"]) == planted[first]


@pytest.mark.full
@pytest.mark.parametrize("name", NEWEST[:2])
def test_what_comes_after_a_header_is_counted(name: str) -> None:
    door = opened(DOORS[name])
    with Subject("fronts") as subject:
        text = (subject.folder / "truth" / "fronts.txt").read_text()
        core = Core(subject.kernel_core(), subject.program)
        (told,) = door.run(core, ["types --limit 0 --json"])
    assert told.error is None, told
    rows = {row["type"]: row["blocks"] for row in told.json()["types"]}
    planted = Counter(line.partition("\t")[2] for line in text.splitlines())
    assert {each: rows[each] for each in planted} == planted
