"""heap report: its parts against RSS, and against what the kernel says of each mapping."""

from __future__ import annotations

import json
import os
import re
import struct
from pathlib import Path
from typing import Any, Iterable

import pytest
from doors import DOORS, NEWEST, Core, Live
from looks import give_up
from marks import full_after, in_full
from scenarios import AT_HOME, BY_ID, Scenario, scenario
from subjects import Subject

import arenascope
from arenascope.cli import several_subjects
from arenascope.commands.framework import live_copy
from arenascope.commands.framework.find_command import find_command
from arenascope.present.screens.report_lines import NO_RESIDENCY
from arenascope.session.resident import look_up
from arenascope.session.session import Session
from arenascope.sources.live.live_target import ProcessTarget
from arenascope.sources.live.process import ProcessImage

PAGE = 4096
REPORT = "report --json"
MALLOC = ("live", "mmapped", "tcache", "returnable", "thread_tops", "main_top", "scraps")
CHOSEN = (
    "hoard",
    "workers-30MB",
    "pinned-thread",
    "ladder-shuffled",
    "arenas14",
    "many_heaps-spread",
    "bins-static",
    "tcache",
    "mmapped",
    "foreign_sbrk",
    "blocked_brk-unblock",
    "dlmopen",
    "random-1",
)
# fixtures that no other test needs in all its images
OTHERS = tuple(scenario(name, name) for name in ("tiny_top", "locked", "waiting"))


def start(each: Scenario) -> Subject:
    return Subject(each.fixture, *each.arguments, env=each.env)


def by_part(document: dict[str, Any]) -> dict[str, int]:
    return {each["part"]: each["bytes"] for each in document["parts"]}


def present_bytes(pid: int, ranges: Iterable[tuple[int, int]]) -> int:
    """How many bytes of these ranges lie in pages that page tables call present."""
    found = 0
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for start, end in ranges:
            first, last = start // PAGE, -(-end // PAGE)
            entries = os.pread(pagemap.fileno(), 8 * (last - first), 8 * first)
            for page, (entry,) in enumerate(struct.iter_unpack("=Q", entries), first):
                if entry >> 63:
                    found += min(end, (page + 1) * PAGE) - max(start, page * PAGE)
    return found


@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
@pytest.mark.parametrize("name", full_after(1, CHOSEN))
def test_the_parts_sum_to_rss(name: str, door: str) -> None:
    if DOORS[door].available():
        give_up(DOORS[door].available() or "")
    with start(BY_ID[name]) as subject:
        seen = subject.smaps()
        blocks, info = subject.live_blocks, subject.truth["mallinfo"]
        # malloc_usable_size leaves out the size word; of a mapping of its own, the whole header
        in_use = present_bytes(subject.pid, ((user - 8, user + size) for user, size in blocks.items()))
        document = DOORS[door].run(Live(subject.pid, subject.program), [REPORT])[0].json()
        afterwards = subject.smaps()
    parts = by_part(document)
    assert document["complete"], document["problems"]
    assert sum(parts.values()) == document["rss_bytes"]
    # a debugger's reading faults pages of files in, so each mapping may differ by what was read of it meanwhile
    low, high = sum(seen.values()), sum(afterwards.values())
    assert low - PAGE * len(seen) <= document["rss_bytes"] <= high + PAGE * len(seen)
    live = parts["live"] + parts["mmapped"]
    # beside those blocks live is what glibc has handed out to itself, and its heads: mallinfo2 counts both
    unnamed = info["uordblks"] + info["hblkhd"] - sum(size + 8 for size in blocks.values())
    assert in_use <= live <= in_use + unnamed
    assert all(size >= 0 for size in parts.values())


@pytest.mark.parametrize(
    "each",
    full_after(6, (BY_ID["hoard"], BY_ID["pinned-thread"], BY_ID["mmapped"], *OTHERS, *AT_HOME[4:])),
    ids=lambda each: each.name,
)
def test_the_shell_says_rss_to_the_byte(each: Scenario) -> None:
    """Of every fixture that stands still: nothing of its own reading counts."""
    with start(each) as subject:
        before = subject.rollup("Rss")
        document = DOORS["shell"].run(Live(subject.pid, subject.program), [REPORT])[0].json()
        after = subject.rollup("Rss")
    assert before <= document["rss_bytes"] <= after + PAGE
    assert sum(by_part(document).values()) == document["rss_bytes"]


@pytest.mark.parametrize("name", ["hoard", *in_full("pinned-thread", "random-1", "bins-static")])
def test_what_malloc_trim_returns_is_that_part(name: str) -> None:
    with start(BY_ID[name]) as subject:
        document = DOORS["shell"].run(Live(subject.pid, subject.program), [REPORT])[0].json()
        before = subject.rollup("Rss")
        assert subject.send("trim").startswith("trimmed")
        fall = before - subject.rollup("Rss")
        later = DOORS["shell"].run(Live(subject.pid, subject.program), [REPORT])[0].json()
    returnable = by_part(document)["returnable"]
    # the process touches some pages of its own on the way
    assert returnable - 16 * PAGE <= fall <= returnable
    assert by_part(later).get("returnable", 0) == 0
    assert abs(by_part(later)["live"] - by_part(document)["live"]) <= 2 * PAGE


@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
@pytest.mark.parametrize("name", ["hoard", *in_full("arenas14", "mmapped")])
def test_a_kernel_core_tells_malloc_s_parts(name: str, door: str) -> None:
    if DOORS[door].available():
        give_up(DOORS[door].available() or "")
    with start(BY_ID[name]) as subject:
        live = by_part(DOORS["shell"].run(Live(subject.pid, subject.program), [REPORT])[0].json())
        core = Core(subject.kernel_core(), subject.program)
        document = DOORS[door].run(core, [REPORT])[0].json()
    parts = by_part(document)
    assert document["rss_bytes"] is None
    # dying takes a page of stack, and may touch what malloc itself keeps
    for part in MALLOC:
        assert abs(parts.get(part, 0) - live.get(part, 0)) <= 2 * PAGE, part


def test_a_core_without_holes_says_so() -> None:
    with start(BY_ID["hoard"]) as subject:
        core = Core(subject.gcore(), subject.program)
        document, text = DOORS["gdb"].run(core, [REPORT, "report"])
    assert document.json()["rss_bytes"] is None
    assert document.json()["measure"] == "address-space"
    assert NO_RESIDENCY in " ".join(text.text.split())


def test_the_screen_is_one_screen() -> None:
    """Two sentences without brackets, figures that stand there once, and nothing to do that is not to be done."""
    with start(BY_ID["hoard"]) as subject:
        short, full = DOORS["shell"].run(Live(subject.pid, subject.program), ["report", "report --full"])
    assert len(short.text.splitlines()) <= 50
    first = " ".join(short.text.split("\n\n")[0].split())
    assert first.startswith("RSS ")
    assert "malloc_trim" in first
    assert first.endswith(".")
    assert len(re.findall(r"\.(?: |$)", first)) == 2
    assert "(" not in first
    assert "[" not in short.text
    assert full.text.count(" [") > 5
    for text in (short.text, full.text):
        todo, beside = text.partition("\nwhat to do")[2].split("\nwhat helps little or not at all")
        assert "  1. " in todo
        assert "MALLOC_ARENA_MAX" not in todo
        assert "MALLOC_ARENA_MAX" in beside
    assert "█" in short.text


def test_blocks_are_looked_at_unasked_where_that_is_cheap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = tmp_path / "saved.core"
    with Subject("quotes") as subject:
        process = arenascope.open(str(subject.pid))
        process.ask("save", str(core))
        for opened in (process, arenascope.open(str(core))):
            (lost,) = opened.leaks().leaks
            (found,) = (each for each in opened.report().findings if each.reason == "lost")
            assert (found.reason, found.type, found.blocks) == ("lost", lost.type, lost.blocks)
            assert found.bytes == lost.bytes + lost.indirect_bytes
            assert found.resident_bytes == found.bytes
            assert opened.report(quick=True).findings is None
            for most in ("UNASKED", "BLOCKS_OF_REPORT"):
                with monkeypatch.context() as small:
                    small.setattr(live_copy, most, 1000)
                    assert opened.report().findings is None
                    assert found in opened.report(owners=True).findings
        options = find_command("report").parser("").parse_args(["--json"])
        for image in (str(subject.pid), str(core)):
            seen = several_subjects.look(several_subjects.SubjectRequest(image, "report", options))
            assert json.loads(seen.text)["findings"] is None


def test_malloc_is_searched_for_once_if_it_was_never_called() -> None:
    """Before the process is held; what was found is looked at again then."""
    with Subject("untouched") as subject, ProcessImage(subject.pid) as image:
        target = ProcessTarget(image, (), False)
        known = look_up(target, 0)
        assert known is not None
        held, moved = Session(target), Session(target)
        held.untouched, moved.untouched = known, known._replace(main_arena=known.main_arena + target.page_size)
        assert held.located is known
        assert not held.started
        assert moved.located.main_arena == known.main_arena
    with Subject("quotes") as subject, ProcessImage(subject.pid) as image:
        assert look_up(ProcessTarget(image, (), False), 0) is None


def test_before_the_first_malloc() -> None:
    with Subject("untouched") as subject:
        document = DOORS["shell"].run(Live(subject.pid, subject.program), [REPORT])[0].json()
    assert document["judgement"]["id"] == "no-heap"
    assert Path(f"/proc/{subject.pid}").exists() is False
