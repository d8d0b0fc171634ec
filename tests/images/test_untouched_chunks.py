"""Of large blocks that a program never touched, sweeps read the size words alone, where the process is not copied."""

from __future__ import annotations

import json
from array import array
from pathlib import Path

import pytest
from shell_door import arenascope
from subjects import Started

ROOT = Path(__file__).resolve().parents[2]
PAGE = 4096
PRESENT = 1 << 63
BLOCKS, PAGES = 1024, 1024 << 20 >> 12
"""Of its heap."""


def present(pid: int) -> int:
    """How many pages of the heap by brk page tables have."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    start, end = (int(each, 16) for line in lines if line.endswith("[heap]") for each in line.split()[0].split("-"))
    with open(f"/proc/{pid}/pagemap", "rb") as file:
        file.seek(start // PAGE * 8)
        return sum(bool(entry & PRESENT) for entry in array("Q", file.read((end - start) // PAGE * 8)))


@pytest.mark.parametrize("words", ["chunks --summary", "check", "map"])
def test_they_stay_untouched(words: str, tmp_path: Path) -> None:
    program = [ROOT / "fixtures" / "build" / "wide", tmp_path, "1", "1024"]
    with Started(*program) as subject:
        before = present(subject.pid)
        name, *rest = words.split()
        done = arenascope(name, subject.pid, *rest, "--no-stop", "--json")
        assert json.loads(done.stdout)["complete"]
        assert before >= BLOCKS
        # beside the pages with sizes it reads where heaps begin, and where they may be cut for several processes
        assert present(subject.pid) <= before + PAGES // 16
