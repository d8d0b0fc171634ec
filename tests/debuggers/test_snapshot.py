"""heap snapshot, heap diff, arenascope watch: what they say changed, against what the kernel says changed."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from doors import DOORS, NEWEST, Live
from looks import give_up
from marks import in_full
from schemas import valid, valid_snapshot
from shell_door import arenascope, begin
from subjects import Subject

PAGE = 4096


def diff_json(*words: object) -> dict[str, Any]:
    return valid(json.loads(arenascope("diff", *words, "--json").stdout))


@pytest.mark.parametrize("door", ["shell", *in_full(*NEWEST[:2])])
def test_a_trim_between_snapshot_and_now(door: str, tmp_path: Path) -> None:
    opened = DOORS[door]
    if opened.available():
        give_up(opened.available() or "")
    saved = tmp_path / "before.json"
    with Subject("hoard", "2", "12") as subject:
        image = Live(subject.pid, subject.program)
        opened.run(image, [f"snapshot {saved}"])
        before = subject.rollup("Rss")
        subject.send("trim")
        fall = before - subject.rollup("Rss")
        found = opened.run(image, [f"diff {saved} --json"])[0].json()
    parts = {each["name"]: each["change"] for each in found["parts"]}
    assert fall - PAGE <= -parts["returnable"] <= fall + 32 * PAGE
    assert "live" not in parts or abs(parts["live"]) <= 2 * PAGE
    assert found["seconds"] > 0


def test_two_snapshots_and_the_sizes_that_grew(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json.gz"
    with Subject("pinned", "main", "40") as subject:
        arenascope("snapshot", subject.pid, first, "--sizes")
        size = next(size for name, size in names(subject).items() if name == "pin")
        assert subject.send("free pin") == "freed pin"
        arenascope("snapshot", subject.pid, second, "--sizes")
    found = diff_json(first, second)
    gone = [each for each in found["sizes"] if each["change"] < 0]
    # the one block, its size word with it
    assert sum(each["change"] for each in gone) == -(size + 8)
    assert found["target"] is None
    # in the order of time, whichever is named first
    back = diff_json(second, first)
    assert back["judgement"]["figures"]["exchanged"] == 1
    assert back["rss_bytes"] == found["rss_bytes"]
    assert back["seconds"] == found["seconds"] > 0


@pytest.mark.parametrize("door", ["shell", *in_full(*NEWEST[:2])])
def test_what_takes_too_long_is_left_out(door: str, tmp_path: Path) -> None:
    opened = DOORS[door]
    if opened.available():
        give_up(opened.available() or "")
    short, whole = tmp_path / "short.json", tmp_path / "whole.json"
    words = "--types --owners --sizes --take-at-most"
    with Subject("bins") as subject:
        image = Live(subject.pid, subject.program)
        answers = opened.run(image, [f"snapshot {short} {words} 0.01 --json", f"snapshot {whole} {words} 0 --json"])
    without, with_all = (valid_snapshot(json.loads(file.read_text())) for file in (short, whole))
    assert {"types", "owners", "chunks"} & without.keys() == {"chunks"}
    assert {"types", "owners", "chunks"} <= with_all.keys()
    ids = [[each["id"] for each in answer.json()["problem_records"]] for answer in answers]
    assert ["types-take-too-long" in each for each in ids] == [True, False]
    found = diff_json(short, whole)
    assert (found["owners"], found["types"]) == (None, [])
    assert [each["id"] for each in found["problem_records"]] == ["snapshot-problem"]


def names(subject: Subject) -> dict[str, int]:
    """malloc_usable_size of the fixture's named blocks."""
    blocks = subject.live_blocks
    return {name: blocks[int(address, 16)] for name, address in subject.truth["blocks"].items()}


def test_nothing_of_the_program_s_data_is_saved(tmp_path: Path) -> None:
    saved = tmp_path / "a.json.gz"
    with Subject("hoard", "2", "12") as subject:
        arenascope("snapshot", subject.pid, saved, "--sizes")
        data = gzip.decompress(saved.read_bytes())
    assert saved.stat().st_size < 64 << 10
    document = valid_snapshot(json.loads(data))
    assert set(document) == {
        "arenascope_snapshot",
        "arenascope",
        "taken",
        "target",
        "glibc",
        "report",
        "arenas",
        "bins",
        "threads",
        "params",
        "chunks",
        "problems",
    }


def test_a_later_release_reads_it(tmp_path: Path) -> None:
    """Sections that one side does not have count as not known; a format from the future is refused."""
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps({"arenascope_snapshot": 1, "taken": 1.0, "arenas": {"arenas": []}}))
    with Subject("bins") as subject:
        arenascope("snapshot", subject.pid, new)
    found = diff_json(old, new)
    assert found["rss_bytes"]["change"] is None
    assert len(found["arenas"]) == 3
    old.write_text('{"arenascope_snapshot":99}')
    assert "newer arenascope" in arenascope("diff", old, new, status=2).stderr


def test_watch_prints_a_line_each_time_and_ends_with_the_process() -> None:
    with Subject("hoard", "2", "12") as subject:
        watching = begin("watch", subject.pid, "--interval", 0.7, "--bytes")
        header, first = watching.stdout.readline(), watching.stdout.readline()
        returned = int(first.split()[4].replace(",", ""))
        assert returned > 10 << 20
        subject.send("trim")
        # one of the next looks finds it gone, by the column of changes
        while int(watching.stdout.readline().split()[2].replace(",", "")) > -returned + 64 * PAGE:
            assert watching.poll() is None
        subject.process.kill()
        _, said = watching.communicate(timeout=120)
    assert header.split()[:3] == ["time", "RSS", "change"]
    assert watching.returncode == 0
    assert "watch" in said


def test_watch_looks_at_several_and_goes_on_with_those_that_are_left() -> None:
    with Subject("mystery", "foreign", "8") as one, Subject("bins") as other:
        watching = begin("watch", one.pid, other.pid, "--interval", 0.5, "--bytes")
        header, first, second = (watching.stdout.readline().split() for _ in range(3))
        assert header[:3] == ["time", "pid", "RSS"]
        for subject, line in ((one, first), (other, second)):
            assert line[1] == str(subject.pid)
            assert int(line[2].replace(",", "")) == sum(subject.smaps().values())
        one.process.kill()
        one.process.wait()
        while True:
            pids = [watching.stdout.readline().split()[1] for _ in range(2)]
            if pids == [str(other.pid)] * 2:
                break
        other.process.kill()
        other.process.wait()
        _, said = watching.communicate(timeout=120)
    assert watching.returncode == 0
    assert len(re.findall("^arenascope watch: (?!looks )", said, re.MULTILINE)) == 2
