"""Heaps that a program damaged itself, the way such bugs do: found, named, and at the right address."""

from __future__ import annotations

import re
from itertools import cycle
from typing import Any

import pytest
from doors import DOORS, NEWEST, Core, Live
from looks import opened
from platforms import ELSEWHERE, HOST, Platform
from subjects import Subject

KINDS = (
    "overflow",
    "off_by_one",
    "underflow",
    "negative_index",
    "double_free_tcache",
    "double_free_fast",
    "use_after_free_tcache",
    "use_after_free_key",
    "use_after_free_fd",
    "use_after_free_bk",
    "use_after_free_both",
    "use_after_free_nextsize",
    "wrong_arena",
    "mapped_flag",
    "size_grown",
    "size_misaligned",
    "freed_size_mismatch",
    "top_overwrite",
    "mmapped_header",
    "heap_info",
)
NOTHING_OF_THE_KIND = (("double_free_fast", "2.43"), ("double_free_fast", "2.44"))
WITHOUT_SYMBOLS = "shell-stripped"
MAX_BREACHES = 3
"""A breach may have a consequence or two, not more."""


LOOKS = [(door, image) for image in ("live", "kernel") for door in (*NEWEST, WITHOUT_SYMBOLS)]
CASES = [
    pytest.param(kind, door, image, marks=pytest.mark.full if number >= 4 else ())
    for number, (kind, (door, image)) in enumerate(zip(KINDS, cycle(LOOKS)))
]
"""Each kind of damage by one look; `make test` has four of them."""


def held_against(told: dict[str, Any], document: dict[str, Any]) -> None:
    breaches = document["breaches"]
    assert not any(each["transient"] for each in breaches)
    assert 1 <= len(breaches) <= MAX_BREACHES, breaches
    found = [each for each in breaches if each["rule"] == told["rule"]]
    assert found, breaches
    if told["address"] is not None:
        assert [each["address"] for each in found] == [told["address"]]
    if "culprit" in told:
        assert found[0]["culprit"] == told["culprit"]


@pytest.mark.parametrize(("kind", "door", "image"), CASES)
def test_damage_is_found_where_it_is(kind: str, door: str, image: str) -> None:
    symbols = door != WITHOUT_SYMBOLS
    looker = opened(DOORS[door if symbols else "shell"])
    with Subject("corrupt", kind) as subject:
        (before,) = DOORS["shell"].run(Live(subject.pid, subject.program), ["check --json"])
        assert (before.json()["breaches"], before.value) == ([], 0)
        told = subject.truth["notes"]
        if not told["possible"]:
            assert (kind, HOST.release) in NOTHING_OF_THE_KIND
            pytest.skip("this glibc has no fastbins")
        assert subject.send("tick") == "ticked"
        process = Live(subject.pid, subject.program)
        looked_at = process if image == "live" else Core(subject.kernel_core(), subject.program)
        (outcome,) = looker.run(looked_at, ["check --json"], symbols)
        assert outcome.value in (1, None)
        held_against(told, outcome.json())


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "platform"),
    [
        pytest.param(kind, platform, id=f"{kind}-{platform.id}")
        for kind, platform in zip(KINDS, cycle(ELSEWHERE))
        if (kind, platform.release) not in NOTHING_OF_THE_KIND
    ],
)
def test_damage_on_another_glibc(kind: str, platform: Platform) -> None:
    with Subject("corrupt", kind, platform=platform) as subject:
        told = subject.truth["notes"]
        assert told["possible"]
        assert subject.send("tick") == "ticked"
        (outcome,) = DOORS["shell"].run(Live(subject.pid, subject.program), ["check --json"])
        held_against(told, outcome.json())


def test_the_verdict_and_the_next_step(gdb: Any) -> None:
    with Subject("corrupt", "overflow") as subject:
        subject.send("tick")
        told = subject.truth["notes"]
        text = gdb.run(Live(subject.pid, subject.program), ["check"])[0].text
    assert re.match(rf"\w+: 1 \w+, .*{told['address']}; ", text)
    assert f"heap chunk {told['culprit']}" in text
