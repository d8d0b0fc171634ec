"""Programs whose types were made to take long end no look, and cost it little."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from doors import GDB, LOAD
from hostile_programs import PROGRAMS
from lldb_door import LLDB_LOAD, LLDBS
from looks import HERE, ROOT, opened, run
from marks import in_full
from subjects import Subject

SECONDS = 10
"""Of the processor."""
GDB_CRASHES = {"array-of-itself", "pointer-to-itself", "function-of-itself"}
"""As it does when it prints such a type."""
LLDB_CRASHES = {
    "base-of-itself",
    "members-outside",
    "pointer-to-itself",
    "struct-of-itself",
    "structs-of-each-other",
    "typedef-of-itself",
    "typedefs-in-a-circle",
    "unions-of-each-other",
}
"""As it does when it prints such a type."""
LLDB_HANGS = {"nested-55", "nested-by-8", "nested-of-no-size", "unions"}
"""Asked for the size of such a type, which nobody can do without, LLDB 16 to 22 never end."""


def each_after(*names: str) -> pytest.MarkDecorator:
    """`make test` has these programs, `make test-all` each."""
    others = [name for name in PROGRAMS if name not in names]
    return pytest.mark.parametrize("name", [*names, *in_full(*others)])


def took(words: list[object]) -> tuple[int, str]:
    done = run([sys.executable, str(HERE / "cpu_time.py"), *map(str, words)])
    status, seconds = done.stderr.splitlines()[-1].split()
    assert float(seconds) < SECONDS, done.all[-2000:]
    return int(status), done.stdout


def is_complete(said: str) -> bool:
    document = next(line for line in said.splitlines() if line.startswith("{"))
    return bool(json.loads(document)["complete"])


@each_after("unions", "typedefs-in-a-circle", "functions-without-names")
def test_in_the_shell(name: str, tmp_path: Path) -> None:
    with Subject(str(PROGRAMS[name]().build(tmp_path, name))) as subject:
        for command in ("types", "containers", "owners"):
            status, said = took([sys.executable, ROOT / "bin" / "arenascope", command, subject.pid, "--json"])
            assert status == 0
            assert is_complete(said)


@pytest.mark.debugger
@pytest.mark.needs_gdb
@each_after("unions")
def test_in_gdb(name: str, tmp_path: Path) -> None:
    opened(GDB)
    with Subject(str(PROGRAMS[name]().build(tmp_path, name))) as subject:
        for command in ("types", "containers", "owners"):
            words = ["gdb", "-nx", "-q", "-batch", "-p", subject.pid, *LOAD, "-ex", f"heap {command} --json"]
            status, said = took(words)
            if name in GDB_CRASHES and status < 0:
                pytest.skip("this GDB crashes by itself")
            assert status == 0
            assert is_complete(said)


@pytest.mark.debugger
@pytest.mark.needs_lldb
@each_after("functions-without-names")
def test_in_lldb(name: str, tmp_path: Path) -> None:
    lldb = opened(LLDBS[-1])
    if name in LLDB_HANGS:
        pytest.skip("this LLDB never ends by itself")
    with Subject(str(PROGRAMS[name]().build(tmp_path, name))) as subject:
        for command in ("types", "containers", "owners"):
            heap = [*LLDB_LOAD, "-o", f"heap {command} --json"]
            status, said = took([lldb.name, "--no-lldbinit", "-b", "-p", subject.pid, *heap])
            if name in LLDB_CRASHES and status < 0:
                pytest.skip("this LLDB crashes by itself")
            assert status == 0
            assert is_complete(said)
