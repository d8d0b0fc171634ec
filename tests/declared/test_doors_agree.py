"""What types know is one document from every door, live and of a core, where blocks are named by debug information."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Sequence

import pytest
from documents import Documents, documents, valued_types
from doors import GDB, Core, Image, Live
from lldb_door import NEWEST_LLDB
from looks import give_up
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


def written(image: Live, folder: Path) -> Core:
    core = folder / f"core.{image.pid}"
    done = subprocess.run(["gcore", "-o", folder / "core", str(image.pid)], capture_output=True, text=True)
    if not core.exists():
        give_up(f"gcore wrote none: {done.stderr}")
    return Core(core, image.program)


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
