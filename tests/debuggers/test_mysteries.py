"""What the report says of a process, and what it must not say: each cause and each advice on the program that has it
and on those that look like it, and every advice, given or not, against the same program with the advice followed."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Mapping, NamedTuple

import pytest
from doors import DOORS, NEWEST, Core, Live
from looks import give_up
from marks import full_after, in_full
from scenarios import BY_ID
from schemas import valid
from shell_door import begin
from subjects import Subject

from arenascope.present.screens.verdict import ONE_LOOK

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
    told: tuple[str, ...] = ()
    """The fixture's arguments, where they are not the story's name."""
    env: Mapping[str, str] = {}
    figures: Mapping[str, Mapping[str, Any]] = {}
    """Of causes, by what the program did."""


GIB = 1 << 30
WAIT = {"MALLOC_TRIM_THRESHOLD_": str(GIB)}
HUGE = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
HUGE_PAGE = 2 * MIB
TOP = 40 * MIB // 2000 * 2016
LEFT = 8 * (5 * MIB // 300) * 320
"""Chunks of blocks of 2,000 bytes, and of 300."""
CACHED = 8 * 7 * sum(range(32, 1041, 16))
"""Eight threads, seven chunks of each size."""


def near(size: int) -> Any:
    """Pages decide."""
    return pytest.approx(size, abs=SLACK)


STORIES = {
    "map": Story("live-data", (), ("look-again",)),
    "foreign": Story("mostly-not-this-malloc", ("not-this-malloc",), ("ask-who-mapped",)),
    "pool": Story("mostly-not-this-malloc", ("not-this-malloc",), ("ask-who-mapped",)),
    "ended": Story("live-data", (), ("look-again",)),
    "scattered": Story("freed", ("pages-shared-with-live",), ("other-allocator",)),
    "grown": Story("freed", ("free-between-live", "pages-shared-with-live"), ("trim-once", "trim-regularly")),
    "large": Story(
        "freed-thresholds-grew",
        ("thresholds-grew", "free-between-live"),
        # small blocks can leave pieces as large: the trim is sure
        ("trim-once", "pin-thresholds", "trim-regularly"),
    ),
    "top": Story("mostly-mapped-files", (), ()),
    "top-waits": Story(
        "freed",
        ("top-below-threshold",),
        ("trim-once", "pin-thresholds"),
        ("top",),
        WAIT,
        {"top-below-threshold": {"trim_threshold_bytes": GIB, "large_tops": 1, "largest_top_bytes": near(TOP)}},
    ),
    "left": Story(
        "freed",
        ("arenas-outlived-threads", "free-between-live"),
        ("trim-once", "limit-arenas", "trim-regularly"),
        figures={"arenas-outlived-threads": {"orphans": 8, "arenas": 9, "threads": 1, "free_bytes": near(LEFT)}},
    ),
    "cached": Story(
        "freed",
        ("thread-caches",),
        ("shrink-thread-caches", "limit-arenas"),
        env={"GLIBC_TUNABLES": "glibc.malloc.tcache_count=7"},
        figures={"thread-caches": {"bytes": CACHED, "threads": 9}},
    ),
}
HUGE_STORIES = {
    "top": Story("freed", ("top-below-threshold", "huge-pages"), ("trim-once", "pin-thresholds"), env={**HUGE, **WAIT}),
    # they explain nothing where what is free is less than one of them
    "map": Story("live-data", (), ("look-again",), ("map", "128"), HUGE),
}


class Looked(NamedTuple):
    report: Mapping[str, Any]
    own: int
    """Its memory without pages of files, by the kernel."""
    trimmed: int
    """The same after malloc_trim(0)."""


@cache
def look(story: str, env: tuple[tuple[str, str], ...] = ()) -> Looked:
    each = STORIES[story]
    with Subject("mystery", *(each.told or (story,)), env={**each.env, **dict(env)}) as subject:
        own = subject.rollup("Anonymous")
        report = DOORS["shell"].run(Live(subject.pid, subject.program), ["report --quick --json"])[0].json()
        subject.send("trim")
        return Looked(report, own, subject.rollup("Anonymous"))


def effects(report: Mapping[str, Any]) -> dict[str, int]:
    return {each["id"]: each["effect_bytes"] for each in report["advice"]}


@pytest.mark.xdist_group("mysteries")
@pytest.mark.parametrize("story", full_after(5, STORIES))
def test_the_report_names_the_cause(story: str) -> None:
    is_told(look(story).report, STORIES[story])


def is_told(report: Mapping[str, Any], expected: Story) -> None:
    assert report["judgement"]["id"] == expected.judgement
    assert tuple(each["id"] for each in report["causes"]) == expected.causes
    assert tuple(each["id"] for each in report["advice"]) == expected.advice
    said = {each["id"]: each["figures"] for each in report["causes"]}
    for cause, figures in expected.figures.items():
        assert {name: said[cause][name] for name in figures} == figures


@pytest.mark.parametrize("story", full_after(1, HUGE_STORIES))
def test_huge_pages_are_a_cause_where_much_of_them_is_free(story: str) -> None:
    each = HUGE_STORIES[story]
    with Subject("mystery", *(each.told or (story,)), env=each.env) as subject:
        huge = subject.rollup("AnonHugePages")
        if huge < 10 * MIB:
            pytest.skip("this glibc or kernel gives malloc no huge pages (/sys/kernel/mm/transparent_hugepage/enabled)")
        own = subject.rollup("Anonymous")
        report = DOORS["shell"].run(Live(subject.pid, subject.program), ["report --quick --json"])[0].json()
    is_told(report, each)
    with Subject("mystery", *(each.told or (story,)), env={**each.env, **PIN}) as subject:
        pinned = own - subject.rollup("Anonymous")
    promised = effects(report).get("pin-thresholds", 0)
    # the two were not given the same addresses, and the break moves by whole huge pages
    assert 0.9 * promised - SLACK - HUGE_PAGE <= pinned <= promised + SLACK + HUGE_PAGE
    assert [cause["figures"]["bytes"] for cause in report["causes"] if cause["id"] == "huge-pages"] in ([], [huge])


@pytest.mark.xdist_group("mysteries")
@pytest.mark.parametrize(
    "story",
    [pytest.param(name, marks=() if name in ("map", "pool", "scattered") else pytest.mark.full) for name in STORIES],
)
def test_an_advice_holds_what_it_promises(story: str) -> None:
    """No advice promises what it does not hold; none that would have brought much is left out."""
    seen = look(story)
    promised = effects(seen.report)
    once = seen.own - seen.trimmed
    assert abs(once - promised.get("trim-once", 0)) <= SLACK
    pinned = seen.own - look(story, tuple(PIN.items())).own
    assert pinned <= promised.get("pin-thresholds", 0) + 2 * SLACK
    assert pinned >= 0.9 * promised.get("pin-thresholds", 0) - SLACK
    few = seen.own - look(story, tuple(FEW.items())).own
    assert few <= promised.get("limit-arenas", 0) + 2 * SLACK


def test_what_ended_threads_left_is_told() -> None:
    """Eight threads filled 40 MB between them, and ended."""
    (left,) = look("ended").report["advice"]
    assert left["figures"]["left_arenas"] == 8
    assert left["figures"]["left_bytes"] >= 40 * MIB - SLACK
    assert " 8 arenas " in left["evidence"]
    assert not look("map").report["advice"][0]["figures"]["left_arenas"]


@pytest.mark.full
@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
def test_growth_takes_two_moments(door: str, tmp_path: Path) -> None:
    if DOORS[door].available():
        give_up(DOORS[door].available() or "")
    saved = tmp_path / "before.json"
    with Subject("mystery", "map", "8") as subject:
        image = Live(subject.pid, subject.program)
        DOORS[door].run(image, [f"snapshot {saved}"])
        still = DOORS[door].run(image, [f"report --json --since {saved}"])[0].json()
        before = subject.rollup("Anonymous")
        subject.send("tick")
        grown = subject.rollup("Anonymous") - before
        after = DOORS[door].run(image, [f"report --json --since {saved}"])[0].json()
        alone = DOORS[door].run(image, ["report --quick --json"])[0].json()
    assert still["growth"]["id"] == "held-still"
    assert after["growth"]["id"] == "live-grew"
    assert abs(after["growth"]["figures"]["live_change_bytes"] - grown) <= SLACK
    assert alone["growth"] is None
    # what two looks have told is not asked for again
    assert ONE_LOOK in alone["verdict"]
    assert not any(ONE_LOOK in each["verdict"] or "before.json" in str(each["advice"]) for each in (still, after))
    two_looks = "watch " if door == "shell" else "snapshot "
    assert all(word in way for word, way in zip((two_looks, "owners"), after["advice"][0]["how"]))
    # that all is as it should be is said of two moments alone
    assert [each["advice"][0]["id"] for each in (alone, still, after)] == [
        "look-again",
        "nothing-to-tune",
        "find-what-grew",
    ]


@pytest.mark.parametrize("types", [False, True], ids=["short", "types"])
def test_the_shell_looks_twice_by_itself(types: bool) -> None:
    with Subject("mystery", "map", "8") as subject:
        twice = begin("report", subject.pid, "--again", 3, "--json", *["--types"] * types)
        # said once the first look is over
        first = twice.stderr.readline()
        before = subject.rollup("Anonymous")
        subject.send("tick")
        grown = subject.rollup("Anonymous") - before
        said, more = twice.communicate(timeout=100)
    assert twice.returncode == 0, more
    document = valid(json.loads(said))
    growth = document["growth"]
    assert "node" in document["grown"][0]["type"] if types else document["grown"] is None
    # what was told is not advised
    assert any(" watch " in each for each in document["advice"][0]["how"]) is not types
    assert "second look" in first
    assert "(2 stops)" in more
    assert growth["id"] == "live-grew"
    assert abs(growth["figures"]["live_change_bytes"] - grown) <= SLACK
    assert growth["figures"]["seconds"] >= 3


@pytest.mark.parametrize("story", ["large", *in_full("foreign", "ended")])
def test_a_core_without_holes_tells_parts_of_address_space(story: str) -> None:
    """GDB's: what was in memory it does not tell, but what is mapped, and whose that is."""
    with Subject("mystery", story) as subject:
        live = DOORS["shell"].run(Live(subject.pid, subject.program), ["report --quick --json"])[0].json()
        core = Core(subject.gcore(), subject.program)
        looks = DOORS["shell"].run(core, ["report --quick --json", "trim --json"])
    found, trimmed = (each.json() for each in looks)
    parts = {each["part"]: each["bytes"] for each in found["parts"]}
    assert found["measure"] == "address-space"
    assert found["rss_bytes"] is None
    assert found["judgement"]["id"] == live["judgement"]["id"]
    # of what ended nothing is left to trim
    assert ("malloc_trim" in found["verdict"]) == (story != "ended")
    # an advice promises what is mapped, of which less may have been in memory
    assert {each["id"] for each in found["advice"]} == {each["id"] for each in live["advice"]}
    assert all(each["bound"] for each in found["advice"] if each["effect_bytes"])
    # all of these were written once, by what the fixture does
    for each in live["parts"]:
        if each["part"] in ("live", "other") and each["bytes"] > MIB:
            assert each["bytes"] <= parts[each["part"]] <= each["bytes"] + MIB, each
    assert parts.get("returnable", 0) == trimmed["totals"]["release_bytes"]


@pytest.mark.full
@pytest.mark.parametrize("name", ["hoard", "many_heaps", "random-1"])
def test_fewer_arenas_are_not_advised_where_they_bring_little(name: str) -> None:
    """Each has much free outside two arenas; what keeps it there would keep it in one."""
    each = BY_ID[name]

    def own(env: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
        with Subject(each.fixture, *each.arguments, env={**each.env, **env}) as subject:
            report = DOORS["shell"].run(Live(subject.pid, subject.program), ["report --quick --json"])[0].json()
            return subject.rollup("Anonymous"), report

    before, report = own({})
    # how threads meet in two arenas is chance: what is to be had by that comes of it each time
    after = max(own(FEW)[0] for _ in range(4))
    assert before - after <= report["judgement"]["figures"]["free_bytes"] / 4
    assert "limit-arenas" not in {advice["id"] for advice in report["advice"]}
