"""Who holds blocks in a stripped program: all its variables are one owner, and the command that names them is told."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest
from looks import stripped
from shell_door import ask, look
from subjects import Subject

OWNER = "unnamed variables of "
DEBUGINFOD = "DEBUGINFOD_URLS="
UNCACHED = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}


@pytest.fixture(scope="module")
def named() -> Iterator[Subject]:
    with Subject("holding", guard_regions=False) as held:
        yield held


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    held = Subject("holding", guard_regions=False)
    held.program = stripped(held.program)
    with held:
        yield held


def own(document: dict[str, Any], subject: Subject) -> dict[str, Any]:
    """The one row of the program's own variables."""
    rows = [each for each in document["owners"] if each["kind"] == "global" and each["name"].startswith(OWNER)]
    (row,) = [each for each in rows if each["name"] == f"{OWNER}{subject.program.name}" and each["stale"] is None]
    assert row is document["owners"][0]
    return row


def saved(subject: Subject, folder: Path) -> Path:
    core = folder / "saved.core"
    assert look(subject.pid, f"save {core}")[0] == 0
    return core


def test_all_variables_of_a_stripped_program_are_one_owner(subject: Subject, named: Subject, tmp_path: Path) -> None:
    """It holds what these hold where they have names."""
    expected = ask(named.pid, "owners --limit 0")
    globals_ = [each for each in expected["owners"] if each["kind"] == "global" and each["stale"] is None]
    assert any(each["name"].startswith("ledger") for each in globals_)
    for image in (Path(str(subject.pid)), saved(subject, tmp_path)):
        document = ask(image, "owners --limit 0")
        row = own(document, subject)
        assert sum(each["held_bytes"] for each in document["owners"]) == document["live_bytes"]
        assert document["live_bytes"] == expected["live_bytes"]
        symbols = {each["name"] for each in document["owners"]}
        mine = [each for each in globals_ if each["name"] not in symbols]
        assert row["held_bytes"] == sum(each["held_bytes"] for each in mine)
        assert row["blocks"] == sum(each["blocks"] for each in mine) > 1000


def test_the_report_advises_symbols_and_no_clearing() -> None:
    """Nobody can clear what all variables of a program hold."""
    cache = Subject("cache", env=UNCACHED, guard_regions=False)
    cache.program = stripped(cache.program)
    with cache:
        report = ask(cache.pid, "report --owners")
    (advice,) = [each for each in report["advice"] if each["id"] in ("install-symbols", "clear-owner")]
    assert advice["id"] == "install-symbols"
    assert advice["how"][0].startswith(DEBUGINFOD)


def test_refs_say_where_in_the_file_the_pointer_lies(subject: Subject) -> None:
    said = subprocess.run(["nm", Subject("holding").program], capture_output=True, text=True, check=True).stdout
    (offset,) = (int(line.split()[0], 16) for line in said.splitlines() if line.endswith(" ledger"))
    maps = Path(f"/proc/{subject.pid}/maps").read_text().splitlines()
    base = next(int(line.split("-")[0], 16) for line in maps if line.endswith(str(subject.program)))
    with open(f"/proc/{subject.pid}/mem", "rb", 0) as memory:
        table = struct.unpack("64Q", os.pread(memory.fileno(), 512, base + offset))
    at = next(at for at, block in enumerate(table) if block)
    place = f"{subject.program.name}+{offset + 8 * at:#x}"
    refs = ask(subject.pid, f"refs {table[at]:#x}")["refs"]
    assert (place, f"{base + offset + 8 * at:#x}") in [(each["name"], each["address"]) for each in refs]
    way = ask(subject.pid, f"owner {table[at]:#x}")
    assert way["held_by"]["name"] == f"{OWNER}{subject.program.name}"
    assert way["path"][0]["name"].startswith(f"{subject.program.name}+0x")
