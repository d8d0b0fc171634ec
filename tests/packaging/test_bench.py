"""What docs/speed.md says comes out of one command."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from looks import completed

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "speed.md"
BENCH = ROOT / "benchmarks" / "bench.py"
TABLES = ("MiB,", "command, on a core", "seconds (ratio to bare GDB)", "GB in memory", "start", "heap")
"""What stands first in the head of each."""


@pytest.mark.full
def test_one_command_makes_all_tables(tmp_path: Path) -> None:
    if not (shutil.which("gdb") and shutil.which("gcore")):
        pytest.skip("GDB is not installed")
    copy = tmp_path / "speed.md"
    shutil.copy(PAGE, copy)
    words = ["--megabytes", "8", "--larger", "16", "--thousands", "5", "--rounds", "1", "--write", str(copy)]
    done = completed(sys.executable, BENCH, *words, timeout=600, env=os.environ)
    assert done.stdout in copy.read_text()
    tables = re.findall(r"^(\|.*\|)\n\| ---.*\|\n((?:\|.*\|\n)+)", done.stdout, re.MULTILINE)
    assert len(tables) == len(TABLES)
    for (head, rows), begins in zip(tables, TABLES):
        assert begins in head.split("|")[1]
        # every row has as many cells as its head
        assert {row.count("|") for row in rows.splitlines()} == {head.count("|")}, rows


@pytest.mark.full
def test_real_programs_have_a_table_of_their_own() -> None:
    if shutil.which("perl") is None:
        pytest.skip("perl is not installed")
    done = completed(sys.executable, BENCH.with_name("real_programs.py"), "perl", timeout=600, env=os.environ)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()]
    assert [row[0] for row in rows[2:]] == ["perl"]
    assert len(rows[0]) == len(rows[2]) == 4
    assert all(re.fullmatch(r"\d+\.\d \(\d+\.\d\)", cell) for cell in rows[2][1:])
