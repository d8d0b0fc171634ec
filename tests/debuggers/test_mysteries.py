"""What the report says of a process, and what it must not say: each cause and each advice on the program that has it
and on those that look like it, and every advice, given or not, against the same program with the advice followed."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

import pytest
from doors import DOORS, Live
from subjects import Subject

MIB = 1 << 20
SLACK = MIB // 2
"""What differs from run to run: pages of files, stacks, thread caches."""
PIN = {"MALLOC_TRIM_THRESHOLD_": "131072"}
FEW = {"MALLOC_ARENA_MAX": "2"}


class Story(NamedTuple):
    """What must be said of a mystery, by ids. Causes and advice that are not named must not be there."""

    judgement: str
    causes: tuple[str, ...]
    advice: tuple[str, ...]


STORIES = {
    "map": Story("live-data", (), ("nothing-to-tune",)),
    "foreign": Story("mostly-not-this-malloc", ("not-this-malloc",), ("ask-who-mapped",)),
    "pool": Story("mostly-not-this-malloc", ("not-this-malloc",), ("ask-who-mapped",)),
    "ended": Story("live-data", (), ("nothing-to-tune",)),
    "scattered": Story("freed", ("pages-shared-with-live",), ("other-allocator",)),
    "grown": Story("freed", ("free-between-live", "pages-shared-with-live"), ("trim-once", "trim-regularly")),
    "large": Story(
        "freed-thresholds-grew",
        ("thresholds-grew", "free-between-live"),
        ("pin-thresholds", "trim-once", "trim-regularly"),
    ),
}


class Looked(NamedTuple):
    report: Mapping[str, Any]
    own: int
    """Its memory without pages of files, by the kernel."""
    trimmed: int
    """The same after malloc_trim(0)."""


def look(story: str, env: Mapping[str, str] = {}) -> Looked:
    with Subject("mystery", story, env=dict(env)) as subject:
        own = subject.rollup("Anonymous")
        report = DOORS["shell"].run(Live(subject.pid, subject.program), ["report --json"])[0].json()
        subject.send("trim")
        return Looked(report, own, subject.rollup("Anonymous"))


def effects(report: Mapping[str, Any]) -> dict[str, int]:
    return {each["id"]: each["effect_bytes"] for each in report["advice"]}


@pytest.mark.parametrize("story", STORIES)
def test_what_is_said_of_it(story: str) -> None:
    report = look(story).report
    expected = STORIES[story]
    assert report["judgement"]["id"] == expected.judgement
    assert tuple(each["id"] for each in report["causes"]) == expected.causes
    assert tuple(each["id"] for each in report["advice"]) == expected.advice


@pytest.mark.parametrize("story", STORIES)
def test_what_following_it_changes(story: str) -> None:
    """No advice promises what it does not hold; none that would have brought much is left out."""
    seen = look(story)
    promised = effects(seen.report)
    once = seen.own - seen.trimmed
    assert abs(once - promised.get("trim-once", 0)) <= SLACK
    pinned = seen.own - look(story, PIN).own
    assert pinned <= promised.get("pin-thresholds", 0) + 2 * SLACK
    assert pinned >= 0.9 * promised.get("pin-thresholds", 0) - SLACK
    few = seen.own - look(story, FEW).own
    assert few <= promised.get("limit-arenas", 0) + 2 * SLACK
