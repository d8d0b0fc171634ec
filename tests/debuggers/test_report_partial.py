"""heap report and heap trim where part of the heap could not be read: what is not known is no 0, and no step is named
that would be refused."""

from __future__ import annotations

import os
import struct
from typing import Any

import pytest
from doors import DOORS, NEWEST, Live
from looks import opened
from marks import full_after
from schemas import problem_ids
from subjects import Subject

from arenascope.present.screens.report_lines import LABELS

LOOKS = ("report --json", "report", "trim", "trim --json", "trim --apply --yes")
ALL_READ = ("live_bytes", "free_bytes", "returnable_bytes", "scraps_bytes", "tcache_bytes")


def overwrite(pid: int, address: int, value: int) -> None:
    memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
    try:
        os.pwrite(memory, struct.pack("=Q", value), address)
    finally:
        os.close(memory)


def looked_at(subject: Subject, door: str) -> list[Any]:
    return opened(DOORS[door]).run(Live(subject.pid, subject.program), list(LOOKS))


def check_not_known(report: dict[str, Any], said: str) -> None:
    assert not report["complete"]
    assert report["judgement"]["id"] == "unread"
    figures = report["judgement"]["figures"]
    assert {name: figures[name] for name in ALL_READ} == dict.fromkeys(ALL_READ)
    assert sum(each["bytes"] for each in report["parts"]) == report["rss_bytes"]
    assert "0 B in use" not in said
    assert "0 B free" not in said


def check_refused(plain: Any, document: dict[str, Any], applied: Any) -> None:
    """The step is not named that this door has just refused, for the reason that it gave."""
    why = document["problems"][0]
    assert why in (applied.error or applied.text)
    assert "next: " not in plain.text or "--apply" not in plain.text.split("next: ")[1]
    assert "or: " not in plain.text


@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
def test_no_cache_is_known(door: str) -> None:
    """The size of the main thread's cache is overwritten: whatever any arena has may be in it."""
    with Subject("hoard", "3", "12") as subject:
        process = Live(subject.pid, subject.program)
        (threads,) = DOORS["shell"].run(process, ["threads --json"])
        main = next(each for each in threads.json()["threads"] if each["tid"] == subject.pid)
        if main["tcache"]["address"] is None:
            pytest.skip("this glibc (2.43 and later) makes a cache once something is put into it")
        overwrite(subject.pid, int(main["tcache"]["address"], 16) - 8, 0x31)
        report, screen, trim, document, applied = looked_at(subject, door)
    found = report.json()
    assert "caches-not-found" in problem_ids(found)
    check_not_known(found, screen.text)
    assert screen.text.count("? ") >= 2
    row = next(line for line in screen.text.splitlines() if line.startswith("in use, with malloc's"))
    assert row.endswith("  ?")
    assert "live" not in {each["part"] for each in found["parts"]}
    check_refused(trim, document.json(), applied)
    assert document.json()["problems"][0] in " ".join(trim.text.split())


@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
def test_one_arena_is_not_known(door: str) -> None:
    """A list of one arena leads astray: what the others have is said to be the least that there is."""
    with Subject("hoard", "3", "12") as subject:
        process = Live(subject.pid, subject.program)
        (chunks,) = DOORS["shell"].run(process, ["chunks --arena 1 --free --json"])
        first = next(int(each["address"], 16) for each in chunks.json()["chunks"] if each["state"] == "free")
        overwrite(subject.pid, first + 16, 0x10)
        report, screen, trim, document, applied = looked_at(subject, door)
    found = report.json()
    check_not_known(found, screen.text)
    figures = found["judgement"]["figures"]
    ours = {each["part"]: each["bytes"] for each in found["parts"]}
    assert figures["live_at_least_bytes"] == ours["live"] + ours["mmapped"] > 0
    assert "at least " in screen.text
    row = next(line for line in screen.text.splitlines() if line.startswith("in use, with malloc's"))
    assert "≥" in row
    label = next(each["label"] for each in found["parts"] if each["part"] == "live")
    assert label.startswith(f"{LABELS['live']}, ")
    check_refused(trim, document.json(), applied)
