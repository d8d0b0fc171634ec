"""What `arenascope --gdbinit` and `--lldbinit` print, put into a home of its own: each session has the commands."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from lldb_door import NEWEST_LLDB
from looks import completed, needs

ROOT = Path(__file__).resolve().parents[2]
ASKED = "heap version --json"


def run(*command: object, home: Path) -> str:
    return completed(*command, env={**os.environ, "HOME": str(home)}, cwd="/").stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a copy of the checkout's doors, in a folder that has a blank in its name, and the lines that it prints."""
    folder = tmp_path_factory.mktemp("home")
    copy = folder / "my tools"
    for name in ("bin", "common", "gdb", "lldb", "docs/schema"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for debugger in ("gdb", "lldb"):
        line = run(copy / "bin" / "arenascope", f"--{debugger}init", home=folder)
        assert line.count("\n") == 1
        assert str(copy / debugger / "arena.py") in line
        (folder / f".{debugger}init").write_text(line)
    return folder


def test_gdb_has_the_commands(home: Path) -> None:
    needs("gdb")
    said = run("gdb", "-q", "-batch", "-ex", ASKED, home=home)
    assert json.loads(said)["door"] == "gdb"


def test_lldb_has_the_commands(home: Path) -> None:
    needs(NEWEST_LLDB.name)
    said = run(NEWEST_LLDB.name, "-b", "-o", ASKED, home=home)
    assert json.loads(next(line for line in said.splitlines() if line.startswith("{")))["door"] == "lldb"
