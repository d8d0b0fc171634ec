"""heap report's advice, taken: the same program with the setting that it names, and what that changed.

An effect is exact where the report says so, and never exceeded where it calls it a bound.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional

import pytest
from doors import DOORS, Live, give_up
from marks import in_full
from scenarios import BY_ID
from subjects import Subject

SLACK = 512 << 10
"""What differs from run to run: pages of files, stacks, thread caches."""
PIN, ARENAS, ONCE, TOPS, LEAVE = "pin-thresholds", "limit-arenas", "trim-once", "release-tops", "leave-arena-max"


def rss_with(name: str, env: Optional[Mapping[str, str]] = None, trim: bool = False) -> int:
    each = BY_ID[name]
    with Subject(each.fixture, *each.arguments, env={**each.env, **(env or {})}) as subject:
        if trim:
            subject.send("trim")
        return own_memory(subject)


def own_memory(subject: Subject) -> int:
    """RSS without pages of files: how many of those are mapped differs from run to run by half a megabyte."""
    return subject.rollup("Anonymous")


def report(name: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """(its own memory, advice by id)."""
    each = BY_ID[name]
    with Subject(each.fixture, *each.arguments, env=each.env) as subject:
        before = own_memory(subject)
        document = DOORS["shell"].run(Live(subject.pid, subject.program), ["report --json"])[0].json()
    return before, {each["id"]: each for each in document["advice"]}


def environment(advice: Mapping[str, Any]) -> dict[str, str]:
    """The setting as the report writes it: NAME=VALUE in the environment."""
    setting = advice["how"][0].partition(" ")[0]
    name, _, value = setting.partition("=")
    return {name: value}


@pytest.mark.parametrize("name", ["workers-30MB", "hoard", *in_full("workers-30MB-ended", "ladder-shuffled")])
def test_pinned_thresholds(name: str) -> None:
    """Celonis's tops, and the threshold experiment: nearly all of the bound is had."""
    rss, advice = report(name)
    pin = advice[PIN]
    saved = rss - rss_with(name, environment(pin))
    assert pin["bound"]
    assert 0.9 * pin["effect_bytes"] <= saved <= pin["effect_bytes"] + SLACK


@pytest.mark.parametrize("seed", ["1", *in_full("2", "3", "5", "8")])
def test_pinned_thresholds_of_a_random_life(seed: str) -> None:
    """Large blocks among small ones: what they left is joined with what lay free beside it, which is part of the
    bound, and of some lives so large that no block alone can have left it."""
    with Subject("random", seed) as subject:
        rss = own_memory(subject)
        document = DOORS["shell"].run(Live(subject.pid, subject.program), ["report --json"])[0].json()
    pin = next(each for each in document["advice"] if each["id"] == PIN)
    assert pin["bound"]
    with Subject("random", seed, env=environment(pin)) as subject:
        saved = rss - own_memory(subject)
    assert 0.8 * pin["effect_bytes"] <= saved <= pin["effect_bytes"] + SLACK


def test_the_tunable_does_the_same() -> None:
    rss, advice = report("workers-30MB")
    pin = advice[PIN]
    tunable = next(line for line in pin["how"] if "GLIBC_TUNABLES=" in line).split("GLIBC_TUNABLES=")[1].split()[0]
    assert rss - rss_with("workers-30MB", {"GLIBC_TUNABLES": tunable}) >= 0.9 * pin["effect_bytes"]


def test_the_folklore_is_refuted_where_thresholds_are_the_cause() -> None:
    rss, advice = report("workers-30MB")
    leave, pin = advice[LEAVE], advice[PIN]
    assert leave["effect_bytes"] == 0
    saved = rss - rss_with("workers-30MB", {"MALLOC_ARENA_MAX": "2"})
    assert saved <= 0.6 * (rss - rss_with("workers-30MB", environment(pin)))


def test_fewer_arenas_where_they_are_the_cause() -> None:
    rss, advice = report("turns")
    limit = advice[ARENAS]
    saved = rss - rss_with("turns", environment(limit))
    assert limit["bound"]
    assert limit["effect_bytes"] / 2 < saved <= limit["effect_bytes"] + SLACK


@pytest.mark.parametrize("name", ["pinned-thread", "hoard", *in_full("pinned-main", "arenas14")])
def test_one_trim(name: str) -> None:
    rss, advice = report(name)
    once = advice[ONCE]
    saved = rss - rss_with(name, trim=True)
    assert not once["bound"]
    assert once["effect_bytes"] - SLACK <= saved <= once["effect_bytes"] + SLACK


def test_tops() -> None:
    each = BY_ID["workers-30MB"]
    with Subject(each.fixture, *each.arguments) as subject:
        image = Live(subject.pid, subject.program)
        document = DOORS["shell"].run(image, ["report --json"])[0].json()
        advice = {entry["id"]: entry for entry in document["advice"]}
        before = subject.rollup("Rss")
        gdb = DOORS["gdb"]
        if gdb.available():
            give_up(gdb.available() or "")
        applied = gdb.run(image, ["trim --apply --tops -y --json"])[0].json()["applied"]
        saved = before - subject.rollup("Rss")
    effect = advice[TOPS]["effect_bytes"]
    assert abs(applied["predicted_bytes"] - effect) <= 4 * 4096
    assert effect - 2 * SLACK <= saved <= effect + SLACK


def test_live_data_needs_no_advice_but_a_profiler() -> None:
    rss, advice = report("full_heap")
    only = advice["look-again"]
    assert rss_with("full_heap", trim=True) >= rss - SLACK
    assert any("profiler" in line for line in only["how"])
