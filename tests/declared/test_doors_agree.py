"""What types know is one document from every door, live and of a core, where blocks are named by debug information."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Sequence

import pytest
from documents import Documents, documents, valued_types
from doors import GDB, Core, Door, Image, Live, give_up
from lldb_door import NEWEST_LLDB
from looks import opened
from marks import in_full
from shell_door import SHELL
from sites import PROGRAMS, Sited
from test_names import names_in
from test_truth import ARGUMENTS, LEVELS

pytestmark = pytest.mark.xdist_group("declared truth")
Row = dict[str, Any]
SAME_IN_A_CORE = ("type", "module", "kind", "certain", "how", "blocks", "bytes", "samples")
"""A core does not tell which pages were in memory, and what follows from that."""
OTHERS = {"crew": ("20",), "lost": ("requests",), "recycled": ("/dev/null",)}
PROGRAMS_AND_ARGUMENTS = {**ARGUMENTS, **OTHERS}
SHORT = ("server.O1",)
EACH = [
    pytest.param(f"{program}.{level}", marks=() if f"{program}.{level}" in SHORT else pytest.mark.full)
    for program in PROGRAMS_AND_ARGUMENTS
    for level in LEVELS
]


@pytest.mark.parametrize("name", EACH)
def test_all_doors_say_the_same(name: str, tmp_path: Path) -> None:
    """Of a process and of a core, at every level: what hangs of static variables, of locals in memory, of ones in
    registers, of arguments and references, and of other threads' frames."""
    sited = Sited(PROGRAMS / name, tmp_path, *PROGRAMS_AND_ARGUMENTS[name.rpartition(".")[0]])
    try:
        live = Live(sited.pid, sited.program)
        core = written(live, tmp_path)
        valued = valued_types(GDB, live)
        said = [said_by_all(each, valued) for each in (live, core)]
    finally:
        sited.end()
    of_process, of_core = (rows(each["types --limit 0"]["types"]) for each in said)
    assert of_process == of_core
    assert valued
    assert any(row["kind"] == "declared" for row in of_process)


def said_by_all(image: Image, valued: Sequence[str]) -> Documents:
    """What GDB says, and the shell and LLDB as well."""
    by_gdb = documents(GDB, image, valued)
    # a process that was stopped before LLDB came runs on when that has left
    for door in (SHELL, NEWEST_LLDB):
        for command, document in documents(door, image, valued).items():
            assert document == by_gdb[command], f"{command} of {image.kind}, by {door.name}"
    return by_gdb


def rows(types: Sequence[Row]) -> list[Row]:
    found = [{key: row[key] for key in SAME_IN_A_CORE} for row in types]
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


@pytest.mark.full
def test_pointers_in_unions_are_told_alike(tmp_path: Path) -> None:
    """A union's member is not known to be the one that there is."""
    sited = Sited(PROGRAMS / "idioms.O2", tmp_path, *ARGUMENTS["idioms"])
    try:
        image = Live(sited.pid, sited.program)
        texts = [
            block for block, (name, _) in names_in(GDB, image, tmp_path).items() if name.endswith("entry.key.text")
        ]
        asked = [f"owner {block:#x} --json" for block in texts[:2]]
        by_gdb, by_lldb = (
            [json.loads(each.text) for each in opened(door).run(image, asked)] for door in (GDB, NEWEST_LLDB)
        )
    finally:
        sited.end()
    assert [each["path"] for each in by_lldb] == [each["path"] for each in by_gdb]
    assert [each["path"][-1]["field"] for each in by_gdb] == ["key", "key"]


def written(image: Live, folder: Path) -> Core:
    core = folder / f"core.{image.pid}"
    done = subprocess.run(["gcore", "-o", folder / "core", str(image.pid)], capture_output=True, text=True)
    if not core.exists():
        give_up(f"gcore wrote none: {done.stderr}")
    return Core(core, image.program)


@pytest.mark.parametrize("door", [SHELL, *in_full(NEWEST_LLDB)], ids=lambda door: door.name)
@pytest.mark.parametrize("name", ["orders.O1", *in_full("idioms.cc.O2")])
def test_types_that_two_doors_know_are_the_same(name: str, door: Door, tmp_path: Path) -> None:
    """Where a program's blocks hang of locals as well, or of lambdas, a door may know less than GDB, and nothing else;
    of a core as much as of the process, whatever lies where."""
    sited = Sited(PROGRAMS / name, tmp_path, *ARGUMENTS[name.rpartition(".")[0]])
    try:
        image = Live(sited.pid, sited.program)
        core = written(image, tmp_path)
        by_gdb, live = names_in(GDB, image, tmp_path), names_in(door, image, tmp_path)
    finally:
        sited.end()
    assert names_in(door, core, tmp_path) == live
    known = {address: name for address, (name, certain) in live.items() if certain}
    assert {address: by_gdb.get(address, ("",))[0] for address in known} == known
    assert len(known) > 200


@pytest.mark.full
def test_answers_that_are_kept_hold_at_other_addresses(tmp_path: Path) -> None:
    """The shell's next look at a program, where its classes' methods have moved."""
    told = []
    for _ in range(2):
        sited = Sited(PROGRAMS / "pool.O2", tmp_path, *ARGUMENTS["pool"])
        try:
            names = names_in(SHELL, Live(sited.pid, sited.program), tmp_path)
        finally:
            sited.end()
        told.append(sorted(name for name, certain in names.values() if certain))
    assert told[0] == told[1]
    assert len(told[0]) > 500
