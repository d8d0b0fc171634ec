"""Real programs in which another allocator serves malloc: it is named, and no more is said than is known."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from doors import DOORS, Live, give_up


@pytest.fixture(scope="module", params=["shell", "gdb"])
def report(request: pytest.FixtureRequest, replaced: Any) -> dict[str, Any]:
    door = DOORS[request.param]
    if door.available():
        give_up(door.available() or "")
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        running = replaced.start(Path(folder))
        try:
            replaced.load(running)
            image = Live(running.pid, Path(os.readlink(f"/proc/{running.pid}/exe")))
            json, text = door.run(image, ["report --json", "report"])
        finally:
            running.end()
    return {**json.json(), "words": text.text}


def test_the_other_allocator_is_named(report: dict[str, Any], replaced: Any) -> None:
    assert tuple(each["name"] for each in report["allocators"]) == replaced.allocators
    serving = [each for each in report["allocators"] if each["replaces_malloc"]]
    assert [each["name"] for each in serving] == [replaced.allocators[0]]
    assert [each["id"] for each in report["problem_records"]] == ["malloc-replaced"]
    assert serving[0]["name"] in report["words"]
    for each in report["allocators"]:
        assert each["instead"] in re.sub(r"\s+", " ", report["words"])


def test_the_share_of_the_other_allocator_is_bounded(report: dict[str, Any]) -> None:
    parts = {each["part"]: each["bytes"] for each in report["parts"]}
    assert sum(parts.values()) == report["rss_bytes"]
    assert parts["other"] > 1 << 20
    for each in report["allocators"]:
        assert each["resident_bytes"] is None or 0 < each["resident_bytes"] <= each["at_most_bytes"]
        assert each["at_most_bytes"] <= parts["other"] + parts.get("shared", 0)


def test_the_report_says_only_what_its_row_allows(report: dict[str, Any], replaced: Any) -> None:
    said = replaced.said
    assert report["judgement"]["id"] in said.judgements
    ids = [each["id"] for key in ("causes", "advice") for each in report[key]]
    assert not set(said.must) - set(ids), ids
    assert not set(said.never) & set(ids), ids
