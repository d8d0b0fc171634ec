"""What docs/speed.md says comes out of one command."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    done = subprocess.run([sys.executable, str(BENCH), *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
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
    words = [sys.executable, str(BENCH.with_name("real_programs.py")), "perl"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()]
    assert [row[0] for row in rows[2:]] == ["perl"]
    assert len(rows[0]) == len(rows[2]) == 4
    assert all(re.fullmatch(r"\d+\.\d \(\d+\.\d\)", cell) for cell in rows[2][1:])
