"""`heap types` is one document from GDB and LLDB, live and of a core, where blocks are named by debug information."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from doors import GDB, Core, Door, Image, Live, give_up
from lldb_door import EVERY_LLDB, NEWEST_LLDB
from looks import opened
from schemas import valid
from sites import PROGRAMS, Sited
from test_truth import ARGUMENTS

pytestmark = pytest.mark.xdist_group("declared truth")
Row = dict[str, Any]
KEYS = ("type", "module", "kind", "certain", "how", "blocks", "bytes", "samples")
"""A core does not tell which pages were in memory, and what follows from that."""


def rows(door: Door, image: Image) -> list[Row]:
    (asked,) = opened(door).run(image, ["types --json --limit 0"])
    found: list[Row] = [{key: row[key] for key in KEYS} for row in valid(json.loads(asked.text))["types"]]
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


@pytest.mark.parametrize("door", EVERY_LLDB[1:], ids=lambda door: door.name)
@pytest.mark.parametrize("name", ["server.O1", "daemon.O2"])
def test_types(name: str, door: Door, tmp_path: Path) -> None:
    sited = Sited(PROGRAMS / name, tmp_path, *ARGUMENTS[name.rpartition(".")[0]])
    try:
        image = Live(sited.pid, sited.program)
        by_gdb = rows(GDB, image)
        assert rows(door, image) == by_gdb
        if door is not NEWEST_LLDB:
            return
        core = tmp_path / f"core.{sited.pid}"
        done = subprocess.run(["gcore", "-o", tmp_path / "core", str(sited.pid)], capture_output=True, text=True)
        if not core.exists():
            give_up(f"gcore wrote none: {done.stderr}")
        assert rows(door, Core(core, sited.program)) == by_gdb
    finally:
        sited.end()
    declared = [row for row in by_gdb if row["kind"] == "declared" and row["certain"]]
    assert sum(row["blocks"] for row in declared) > 4000
