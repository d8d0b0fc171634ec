"""Whose memory grew, between two snapshots and over many, by the program's own count (fixtures/busy.c)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from schemas import valid, valid_snapshot
from shell_door import look
from subjects import Subject

MINUTE = 60.0
IN_PASSING = "stacks of threads"


class Count(NamedTuple):
    """Bytes, by the program."""

    sessions: int
    recent: int
    work: int


def count(subject: Subject) -> Count:
    subject.send("truth")
    return Count(*map(int, (subject.folder / "truth" / "busy.txt").read_text().split()))


def said(words: str, subject: object) -> str:
    code, text, complained = look(subject, words)
    assert code == 0, complained
    return text


def a_minute_apart(first: Path, second: Path) -> None:
    """A tick of the program stands for a minute."""
    document = json.loads(second.read_text())
    document["taken"] = json.loads(first.read_text())["taken"] + MINUTE
    second.write_text(json.dumps(document))


def test_what_grows_and_stays_comes_first(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    with Subject("busy") as subject:
        first = count(subject)
        said(f"snapshot {before} --owners", subject.pid)
        subject.send("tick")
        second = count(subject)
        said(f"snapshot {after} --owners", subject.pid)
    grown, worked = second.sessions - first.sessions, second.work - first.work
    assert first.sessions // 100 <= grown < first.sessions // 80
    # what is worked on changes by more than that
    assert abs(worked) > 2 * grown
    for file in (before, after):
        valid_snapshot(json.loads(file.read_text()))
    a_minute_apart(before, after)
    document = valid(json.loads(said(f"diff {after} --json", before)))
    rows = {row["name"]: row for row in document["owners"]}
    assert document["owners"][0]["name"] == "sessions"
    assert (rows["sessions"]["before"], rows["sessions"]["after"]) == (first.sessions, second.sessions)
    assert rows["sessions"]["per_hour"] == 60 * grown
    assert rows["recent"]["change"] == second.recent - first.recent
    assert rows[IN_PASSING]["kind"] == "stack"
    assert abs(rows[IN_PASSING]["change"] - worked) < 16384
    text = said(f"diff {after}", before)
    most = f"sessions, +{grown / 1024:.1f} KiB ({100 * grown / first.sessions:.1f} % "
    assert [most in line for line in text.splitlines()].count(True) == 1


@pytest.mark.full
def test_over_time(tmp_path: Path) -> None:
    """As watch --save keeps them; one without owners in between knows nothing of any, and that is no zero."""
    counts = []
    with Subject("busy") as subject:
        for number in range(5):
            counts.append(count(subject))
            words = [] if number == 2 else ["--owners", "--types"]
            said(" ".join(["snapshot", str(tmp_path / f"{number}.json"), *words]), subject.pid)
            subject.send("tick")
    for number in range(1, 5):
        document = json.loads((tmp_path / f"{number}.json").read_text())
        document["taken"] = json.loads((tmp_path / "0.json").read_text())["taken"] + MINUTE * number
        (tmp_path / f"{number}.json").write_text(json.dumps(document))
    trend: dict[str, Any] = valid(json.loads(said("trend --json", tmp_path)))
    (series,) = [each for each in trend["series"] if (each["by"], each["name"]) == ("owner", "sessions")]
    assert [value for _, value in series["moments"]] == [counts[number].sessions for number in (0, 1, 3, 4)]
    assert series["how"] == "steadily"
    (grown,) = trend["grown"]
    assert (grown["owner"], grown["type"]) == ("sessions", "char[] of session.body")
    # a session's own block is small
    more = counts[4].sessions - counts[0].sessions
    assert 0.9 * more < grown["bytes"] <= more
    assert [each["id"] for each in trend["problem_records"]] == ["types-not-in-all"]
    between = valid(json.loads(said(f"diff {tmp_path / '2.json'} --json", tmp_path / "1.json")))
    assert between["owners"] is None
