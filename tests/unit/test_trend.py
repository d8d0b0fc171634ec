"""What grew over many moments: since when, how, and when it reaches a limit; and a folder that does not fill up."""

from __future__ import annotations

import errno
import json
import os
import random
import re
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from fake_door import run_json, run_text
from heap_mixtures import everything

from arenascope.analysis.growth import Series, ValueAt, judged, lives, reached, succession
from arenascope.base.errors import UsageError
from arenascope.present.json_documents import snapshot_file

MIB = 1 << 20
START = 1_700_000_000.0
MINUTE = 60.0
NUMBER = 100
Course = Callable[[int], float]


def flutter(minute: float) -> float:
    """The same at every run, whichever tests run."""
    return random.Random(minute).random()


COURSES: dict[str, tuple[Course, str, Optional[int], Optional[int]]] = {
    # how it goes, what that is, in which minute it began, and by how many MiB an hour
    "a line": (lambda minute: 100 + minute, "steadily", 0, 60),
    "a line that falls": (lambda minute: 200 - minute, "steadily", 0, -60),
    "a line that begins late": (lambda minute: 100 + max(0, minute - 60), "steadily", 60, 60),
    "a line that ends": (lambda minute: 100 + min(minute, 50), "ended", 0, 60),
    "a line that flutters": (lambda minute: 100 + minute / 2 + 8 * flutter(minute), "steadily", 1, 30),
    "a step": (lambda minute: 100 + (50 if minute > 70 else 0), "at-once", 71, None),
    "noise": (lambda minute: 100 + flutter(minute), "held-still", None, None),
    "a saw": (lambda minute: 100 + minute % 10 * 5, "held-still", None, None),
    "nothing": (lambda minute: 100, "held-still", None, None),
}


def course(goes: Course, number: int = NUMBER) -> Series:
    return judged("rss", "rss", [ValueAt(START + MINUTE * minute, int(goes(minute) * MIB)) for minute in range(number)])


@pytest.mark.parametrize("name", COURSES)
def test_how_it_grew_and_since_when(name: str) -> None:
    goes, how, began, rate = COURSES[name]
    seen = course(goes)
    assert seen.how == how
    assert (seen.since is None) == (began is None)
    if began is not None:
        assert seen.since is not None
        assert abs((seen.since - START) / MINUTE - began) <= 2
    assert (seen.per_hour is None) == (rate is None)
    if rate is not None:
        assert seen.per_hour is not None
        assert abs(seen.per_hour / MIB - rate) <= 0.1 * abs(rate)


def test_when_it_reaches_a_limit() -> None:
    grows = course(COURSES["a line"][0])
    comes = reached(grows, 319 * MIB, None)
    assert comes is not None
    assert comes.room == 120 * MIB
    assert [round(each) for each in (comes.soonest, comes.likely, comes.latest)] == [7200] * 3
    # what others in its group have counts, too
    shared = reached(grows, 319 * MIB, 259 * MIB)
    assert shared is not None
    assert round(shared.likely) == 3600
    past = reached(grows, 50 * MIB, None)
    assert past is not None
    assert (past.room, past.likely) == (0, 0)
    for name in ("a line that falls", "a line that ends", "a step", "noise", "nothing"):
        assert reached(course(COURSES[name][0]), 1 << 40, None) is None, name


@pytest.mark.parametrize("number", [2, 3, 4])
def test_few_moments_are_taken_for_no_more_than_they_are(number: int) -> None:
    seen = course(lambda minute: 100 + minute, number)
    assert seen.change == (number - 1) * MIB
    assert (seen.per_hour is not None) == (number > 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "moments").mkdir()
    return tmp_path / "moments"


def moment(
    minute: float, live: int, pid: int = 7, started: int = 1, name: str = "server", **more: Any
) -> dict[str, Any]:
    parts = [{"part": "live", "bytes": live, "label": "in use"}, {"part": "files", "bytes": 3 * MIB, "label": "files"}]
    return {
        "taken": START + MINUTE * minute,
        "target": {"kind": "live", "pid": pid, "started": started, "name": name},
        "report": {"rss_bytes": live + 3 * MIB, "parts": parts, "measure": "resident"},
        **more,
    }


def fill(folder: Path, document: dict[str, Any]) -> None:
    target = document["target"]
    snapshot_file.save(str(folder), document, (target["pid"], target["started"]))


def test_a_process_that_was_started_again_did_not_shrink(folder: Path) -> None:
    for minute in range(10):
        fill(folder, moment(minute, (50 + minute) * MIB))
    for minute in range(20, 30):
        fill(folder, moment(minute, (10 + minute) * MIB, pid=8, started=2))
    # another program beside it, and the number of the first one taken by a third
    fill(folder, moment(15, 90 * MIB, pid=7, started=3, name="other"))
    target = everything("2.36-64").target()
    document = run_json(target, "trend", str(folder))
    assert document["process"]["pid"] == 8
    assert [each["pid"] for each in document["earlier"]] == [7]
    assert [each["name"] for each in document["others"]] == ["other"]
    assert document["judgement"]["id"] == "grew-steadily"
    assert document["judgement"]["figures"]["change_bytes"] == 9 * MIB
    text = run_text(target, "trend", str(folder))
    assert re.findall(r"[\d.]+ (?:min|MiB)", text.splitlines()[0])[:3] == ["9.0 MiB", "9.0 min", "42.0 MiB"]
    assert "before: server 7" in text
    # none of these has types
    assert "arenascope watch 8 --save FOLDER --types" in text
    first = run_json(target, "trend", str(folder), "--pid", "7")
    assert first["process"]["name"] == "other"
    with pytest.raises(UsageError, match=r"\b9\b"):
        run_json(target, "trend", str(folder), "--pid", "9")


def test_two_at_a_time_are_no_succession() -> None:
    found = lives([moment(minute, MIB, pid=pid) for minute in range(5) for pid in (1, 2)])
    assert len(found) == 2
    assert succession(found, found[-1]) == [found[-1]]


def test_types_that_come_and_go(folder: Path) -> None:
    """One that a snapshot does not name had nothing then, where others are named."""
    for minute in range(6):
        rows = [{"type": "Session", "bytes": minute * MIB}] if minute else []
        rows.append({"type": "Page", "bytes": 5 * MIB})
        fill(folder, moment(minute, (50 + minute) * MIB, types={"types": rows}))
    document = run_json(everything("2.36-64").target(), "trend", str(folder))
    types = {each["name"]: each for each in document["series"] if each["by"] == "type"}
    assert types["Session"]["before"] == 0
    assert types["Session"]["change"] == 5 * MIB
    assert types["Page"]["how"] == "held-still"


def types_of(*rows: tuple[str, int, int, Optional[str]]) -> dict[str, Any]:
    """By name, blocks, MiB, and the variable that holds them."""
    return {
        "types": [
            {
                "type": name,
                "kind": "declared",
                "certain": True,
                "blocks": blocks,
                "bytes": size * MIB,
                "held_by": holder and {"kind": "global", "name": holder, "bytes": size * MIB},
            }
            for name, blocks, size, holder in rows
        ]
    }


def test_the_type_that_grows_and_its_owner_are_named(folder: Path) -> None:
    for minute in range(6):
        rows = types_of(("Conn", 100 * minute, 12 * minute, "table"), ("Page", 9, 100, "pages"))
        # a page cache that grows, but by less
        rows["types"] += types_of(("Line", minute, 2 * minute, None))["types"]
        fill(folder, moment(minute, (50 + 12 * minute) * MIB, types=rows))
    target = everything("2.36-64").target()
    conn, line = run_json(target, "trend", str(folder))["grown"]
    assert (conn["type"], conn["owner"], conn["owner_kind"], conn["certain"]) == ("Conn", "table", "global", True)
    assert (conn["blocks"], conn["bytes"], conn["per_minute_bytes"]) == (500, 60 * MIB, 12 * MIB)
    assert (line["type"], line["owner"]) == ("Line", None)
    text = run_text(target, "trend", str(folder))
    assert "--types" not in text
    headline = text.splitlines()[0]
    assert re.match(r"\+12\.0 MiB .*\bConn\b.*`table`.*\+500\b", headline)


def test_a_container_comes_before_what_lies_within_it(folder: Path) -> None:
    """Which has more elements, and holds less."""
    for minute in range(6):
        rows = [("table[].second", 700 * minute, 10 * minute), ("table", 100 * minute, 12 * minute), ("log", 800, 1)]
        row = {"type": "std::vector<Conn>", "form": "vector", "containers": 1}
        containers = [{**row, "path": path, "elements": some, "held_bytes": held * MIB} for path, some, held in rows]
        fill(folder, moment(minute, (50 + 12 * minute) * MIB, containers={"containers": containers}))
    target = everything("2.36-64").target()
    document = run_json(target, "trend", str(folder))
    series = [(each["name"], each["change"]) for each in document["series"] if each["by"] == "container"]
    assert series == [("table", 500), ("table[].second", 3500), ("log", 0)]
    assert "table has 500 elements more" in document["verdict"]
    text = run_text(target, "trend", str(folder))
    assert text.index("\ntable  ") < text.index("\ntable[].second  ")


def test_no_owner_is_named_that_is_not_known_to_have_the_growth(folder: Path) -> None:
    """Who holds most of a type need not hold what it grew by."""
    for minute, holder in enumerate(("other", "other", "table")):
        fill(folder, moment(minute, 50 * MIB, types=types_of(("Conn", minute, 10 + minute, holder))))
    (conn,) = run_json(everything("2.36-64").target(), "trend", str(folder))["grown"]
    assert (conn["type"], conn["blocks"], conn["owner"]) == ("Conn", 2, None)


def test_types_that_are_not_in_all_snapshots(folder: Path) -> None:
    """Where one was left out its types are not known: it did not fall to zero, and did not end."""
    for minute in range(6):
        types = None if minute in (2, 5) else types_of(("Conn", minute, 12 + 12 * minute, "table"))
        fill(folder, moment(minute, 50 * MIB, types=types))
    document = run_json(everything("2.36-64").target(), "trend", str(folder))
    assert [(each["blocks"], each["bytes"]) for each in document["grown"]] == [(4, 48 * MIB)]
    (said,) = document["problem_records"]
    assert (said["id"], said["figures"]) == ("types-not-in-all", {"lacking": 2, "snapshots": 6})


def test_what_a_snapshot_does_not_know_is_no_zero(folder: Path) -> None:
    for minute in range(6):
        used = None if minute in (0, 3) else (50 + minute) * MIB
        row = {"address": "0x1000", "main": True, "system_bytes": 90 * MIB, "used_bytes": used}
        fill(folder, moment(minute, 50 * MIB, arenas={"arenas": [row]}))
    document = run_json(everything("2.36-64").target(), "trend", str(folder))
    (used_bytes,) = (each for each in document["series"] if each["by"] == "used")
    assert [value // MIB for _, value in used_bytes["moments"]] == [51, 52, 54, 55]
    assert (used_bytes["before"], used_bytes["change"]) == (51 * MIB, 4 * MIB)


def test_its_groups_limit_or_the_one_asked_for(folder: Path) -> None:
    limit = {"path": "/sys/fs/cgroup/memory.max", "bytes": 129 * MIB, "used": 70 * MIB}
    for minute in range(10):
        fill(folder, moment(minute, (50 + minute) * MIB, limit=limit))
    target = everything("2.36-64").target()
    document = run_json(target, "trend", str(folder))
    assert document["limit"] == limit
    assert document["reaches"]["room"] == 59 * MIB
    assert round(document["reaches"]["likely"]) == 59 * 60
    asked = run_json(target, "trend", str(folder), "--until", "182M")
    assert asked["limit"] == {"bytes": 182 * MIB, "used": None, "path": None}
    assert round(asked["reaches"]["likely"]) == 120 * 60
    assert re.search(r"182\.0 MiB .*\b2\.0 h\b", asked["verdict"])


def test_what_cannot_be_read_is_told_and_the_rest_counts(folder: Path) -> None:
    for minute in range(5):
        fill(folder, moment(minute, (50 + minute) * MIB))
    (folder / "notes.txt").write_text("nothing of ours")
    (folder / "half.json").write_text('{"arenascope_snapshot":1,"taken":')
    document = run_json(everything("2.36-64").target(), "trend", str(folder))
    assert document["process"]["snapshots"] == 5
    assert not document["complete"]
    assert ["half.json" in each for each in document["problems"]] == [True]


@pytest.mark.parametrize("what", ["empty", "missing", "of cores"])
def test_no_snapshots(what: str, folder: Path) -> None:
    if what == "missing":
        folder.rmdir()
    if what == "of cores":
        (folder / "one.json").write_text(json.dumps({"arenascope_snapshot": 1, "taken": None}))
    with pytest.raises(UsageError) as error:
        run_json(everything("2.36-64").target(), "trend", str(folder))
    assert (str(folder) in str(error.value)) == (what != "of cores")
    assert (os.strerror(errno.ENOENT) in str(error.value)) == (what == "missing")


def test_old_ones_become_fewer(folder: Path) -> None:
    """After any number of looks so many files are left, the first and the last among them, and newer ones closer."""
    for minute in range(120):
        fill(folder, moment(minute, MIB))
        fill(folder, moment(minute, MIB, pid=9))
        snapshot_file.thin(str(folder), (7, 1), 20)
    names = sorted(name for name in os.listdir(folder) if name.startswith("7-"))
    assert len(names) == 20
    assert len(os.listdir(folder)) == 20 + 120
    documents, _ = snapshot_file.read_all(str(folder))
    times = sorted((each["taken"] - START) / MINUTE for each in documents if each["target"]["pid"] == 7)
    assert (times[0], times[-1]) == (0, 119)
    gaps = [after - before for before, after in zip(times, times[1:])]
    assert sum(gaps[:9]) > 3 * sum(gaps[-9:])
    assert max(gaps) < 60


def test_nothing_of_the_target_becomes_markup(folder: Path) -> None:
    for minute in range(4):
        fill(folder, moment(minute, (50 + minute) * MIB, name="</script><script>alert(1)</script>"))
    target = everything("2.36-64").target()
    run_text(target, "trend", str(folder), "--html", str(folder / "page.html"))
    page = (folder / "page.html").read_text()
    assert page.count("</script>") == 3  # the data, what all pages share, and its own
    assert "alert(1)" in page
    assert "<script>alert" not in page
