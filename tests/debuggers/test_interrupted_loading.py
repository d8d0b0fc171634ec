"""Ctrl-C while the first command loads what it needs: the next one finds all of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from doors import ARENA_PY, Core, Gdb
from lldb_door import LLDB_ARENA_PY, LLDBS
from looks import opened
from subjects import Subject

pytestmark = pytest.mark.xdist_group("loading")
HERE = Path(__file__).parent
POINTS = 12
IN_GDB = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import gdb, stop_loading
print(stop_loading.stop_while_loading(lambda: gdb.execute("source {ARENA_PY}"),
                                      lambda: gdb.execute("heap heaps", to_string=True), {POINTS}))
"""


def check(said: str) -> None:
    found = json.loads(said)
    assert found["lines"] > 4 * POINTS
    stopped = [first for _, first, _ in found["tries"] if "heaps of" not in first]
    assert len(stopped) > POINTS // 2
    assert all("KeyboardInterrupt" in first or "interrupted" in first for first in stopped)
    for line, _, second in found["tries"]:
        assert "heaps of" in second, (line, second)


def test_in_gdb(gdb: Gdb, subject: Subject, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(IN_GDB)
    said = gdb.start(["-p", str(subject.pid), "-x", str(script)]).stdout
    check(next(line for line in said.splitlines() if line.startswith("{")))


IN_LLDB = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import stop_loading
def run(line):
    result = lldb.SBCommandReturnObject()
    debugger.GetCommandInterpreter().HandleCommand(line, result)
    return result.GetOutput() if result.Succeeded() else result.GetError()
value = stop_loading.stop_while_loading(lambda: run("command script import -r {LLDB_ARENA_PY}"),
                                        lambda: run("heap heaps"), {POINTS})
"""


@pytest.mark.full
@pytest.mark.parametrize("lldb", LLDBS[-1:], ids=lambda lldb: lldb.name)
def test_in_lldb(lldb, subject: Subject) -> None:
    image = Core(subject.gcore(), subject.program)
    (outcome,) = opened(lldb).drive(lldb.look_at(image), [{"python": IN_LLDB}])
    check(outcome.value)
