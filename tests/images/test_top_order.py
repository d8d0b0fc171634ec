"""arenascope top ranks by what processes have, also where that takes longer to see: processes with many free chunks
beside one with few."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from schemas import valid
from shell_door import arenascope

from arenascope.cli import top
from arenascope.cli.top import TopView, top_lines
from arenascope.present.shared_text.lines_and_tables import Style
from arenascope.sources.live.processes_by_name import list_processes

ROOT = Path(__file__).resolve().parents[2]
PAGE = os.sysconf("SC_PAGE_SIZE")
# half of so many blocks is freed; chunks of the same size, too many for thread caches
SUBJECT = Path(__file__).with_name("top_order.c").read_text()
FEW = 900
MANY = 30_000
"""Of which half are free: of these top's first look at each process sees a seventh."""


@pytest.fixture(scope="module")
def subjects(build, start):
    """One with few large free chunks, and one with far more in many small ones: with more of them stranded, too."""
    few = start(build(SUBJECT, f"-DCOUNT={FEW}", "-DBYTES=30000"))
    many = start(build(SUBJECT, f"-DCOUNT={MANY}", "-DBYTES=1500"))
    assert many.facts["free"] > 1.3 * few.facts["free"]
    return few, many


@pytest.fixture
def alone(subjects, monkeypatch):
    """As if there were no other processes."""
    pids = {each.pid for each in subjects}
    listed = [each for each in list_processes(PAGE) if each.pid in pids]
    monkeypatch.setattr(top, "list_processes", lambda page_size: listed)


@pytest.mark.parametrize("sort", ["free", "stranded"])
def test_the_order_is_that_of_what_they_have(subjects, alone, sort):
    few, many = subjects
    found = top.Looks({}, sort).look()
    assert [row.pid for row in found.processes] == [many.pid, few.pid]
    assert found.uncertain_pids == []
    for row, subject in zip(found.processes, (many, few)):
        assert row.free_whole
        assert row.free_bytes == subject.facts["free"] - subject.facts["fast"]
        # all was written to, but for the top
        assert row.free_bytes - row.tops_bytes <= row.free_resident_bytes + PAGE
        assert row.free_resident_bytes <= row.free_bytes
    assert found.processes[0].stranded_bytes > 0.99 * found.processes[0].bins_bytes


def test_among_all_others_no_figure_that_is_told_as_whole_is_another(subjects):
    few, many = subjects
    done = arenascope("top", "--json", "--once", "--limit", 0)
    document = valid(json.loads(done.stdout))
    rows = {row["pid"]: row for row in document["processes"]}
    for subject in (few, many):
        truth = subject.facts["free"] - subject.facts["fast"]
        row = rows[subject.pid]
        assert row["free_bytes"] == truth if row["free_whole"] else row["free_bytes"] < truth
    if rows[many.pid]["free_whole"]:
        order = list(rows)
        assert order.index(many.pid) < order.index(few.pid)
    else:
        assert many.pid in document["uncertain_pids"]


@pytest.mark.parametrize("further", [0, 5000])
@pytest.mark.parametrize("limit", [0, 1])
def test_where_the_budget_does_not_suffice_the_order_is_uncertain(subjects, alone, further, limit):
    few, many = subjects
    found = top.Looks({}, further=further).look(limit)
    rows = {row.pid: row for row in found.processes}
    assert list(rows) == ([few.pid, many.pid] if not limit else [few.pid])
    assert found.uncertain_pids == [many.pid]
    assert rows[few.pid].free_whole
    if not limit:
        assert rows[many.pid].free_whole is False
        assert rows[many.pid].free_bytes < many.facts["free"]
    assert {row.pid: row.figures for row in found.processes} == (
        {few.pid: "estimate"} if limit else {few.pid: "estimate", many.pid: "at-least"}
    )
    screen = list(top_lines(Style(), found, TopView("free")))
    assert screen[0].endswith(f"top --once --exact {many.pid}")
    assert sum("--exact" in line for line in screen) == 1
    # which settles it, in one table
    settled = top.Looks(top._whole_looks([many.pid]), further=0).look(limit)
    assert settled.uncertain_pids == []
    first = settled.processes[0]
    assert (first.pid, first.figures) == (many.pid, "exact")
    screen = list(top_lines(Style(width=0, exact=True), settled, TopView("free")))
    assert not any("--once --exact" in line for line in screen)
    assert sum(line.startswith("---") for line in screen) == 1
    (row,) = (line for line in screen if line.split()[:1] == [str(many.pid)])
    assert f"{first.exact.free_bytes:,}" in row
    assert "≥" not in row


def test_a_budget_is_kept_to(subjects, alone, monkeypatch):
    looks = top.Looks({}, further=10_000)
    allowed, seen = [], []
    look = looks._reader.look

    def noted(pid: int, identity: tuple[int, bytes], chunks: int) -> Any:
        found = look(pid, identity, chunks)
        allowed.append(chunks)
        seen.append(found.free.followed)
        return found

    monkeypatch.setattr(looks._reader, "look", noted)
    looks.look()
    assert allowed[:2] == [top.MOST, top.MOST]
    assert sum(seen[2:]) == 10_000
    assert all(one <= most for one, most in zip(seen, allowed))
