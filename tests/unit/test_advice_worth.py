"""Advice that nobody would ask for is not given, and what is given says all: figures as a process has them, judged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from arenascope.analysis.advice import OF_LEAKS, find_advice
from arenascope.analysis.arena_usage import ArenaUsage
from arenascope.analysis.causes import Facts, find_causes, judge
from arenascope.analysis.held_sums import HeldSums, LeakRow, MainHolder
from arenascope.analysis.resident_parts import RESIDENT, ArenaResident, ResidentPicture
from arenascope.base.heap_model import ArenaHeader, Owner, Params
from arenascope.present.screens.verdict import verdict
from arenascope.present.shared_text.lines_and_tables import say

MIB = 1 << 20
ARENAS = 6


def advised(scraps: int, files: int) -> set[str]:
    """For a process of six arenas that has so much stranded in one of them, and so many bytes of files."""
    empty = dict.fromkeys(ArenaResident._fields, 0)
    arenas = [ArenaResident(**{**empty, "arena": index}) for index in range(ARENAS)]
    arenas[1] = arenas[1]._replace(total=scraps, stranded=scraps)
    parts = {"scraps": scraps, "files": files}
    picture = ResidentPicture(parts, RESIDENT, sum(parts.values()), None, None, arenas, ())
    # that the arenas have threads is all that is asked of their usage
    usages = cast(Any, [None] * ARENAS)
    facts = Facts(picture, None, 4096, usages, ARENAS, None, started=True, calls=0, tunables=True, release="2.36")
    return {each.id for each in find_advice(facts)}


@pytest.mark.parametrize(
    ("scraps", "files", "expected"),
    [
        (3 * MIB, 3 * MIB, {"leave-arena-max"}),
        (3 * MIB, 60 * MIB, set()),
        (30 * MIB, 30 * MIB, {"leave-arena-max", "other-allocator"}),
        (30 * MIB, 600 * MIB, set()),
    ],
)
def test_what_is_little_calls_for_no_change(scraps: int, files: int, expected: set[str]) -> None:
    """Another allocator for less than 8 MiB, a word on arenas where not a tenth is free."""
    assert advised(scraps, files) == expected


def test_what_small_blocks_can_have_left_is_not_put_down_to_thresholds_for_sure() -> None:
    """A threshold that grew, and free pieces as large as a block above its default: the trim, which is sure, leads.
    What lies in a top is arithmetic."""
    empty = dict.fromkeys(ArenaResident._fields, 0)
    values = {**dict.fromkeys(("no_dyn_threshold", "top_pad"), 0), "mmap_threshold": 4 * MIB, "trim_threshold": 8 * MIB}
    for sure in (False, True):
        place = {"top_end": 30 * MIB} if sure else {"large": 31 * MIB, "single": 31 * MIB}
        arena = ArenaResident(**{**empty, "total": 31 * MIB, "returnable": 30 * MIB, **place})
        parts = {"returnable": 30 * MIB}
        picture = ResidentPicture(parts, RESIDENT, 31 * MIB, None, None, [arena], ())
        params = cast(Params, SimpleNamespace(values=values, get=values.get))
        usages = cast(Any, [SimpleNamespace(header=SimpleNamespace(index=0, main=True, top_bytes=30 * MIB))])
        facts = Facts(picture, params, 4096, usages, 1, None, started=True, calls=1, tunables=True, release="2.36")
        judgement = judge(facts)
        assert judgement.id == "freed-thresholds-grew"
        assert (judgement.figures["large_free_bytes"] == 0) is sure
        helps = [each for each in find_advice(facts) if each.effect]
        assert [each.id for each in helps] == ["trim-once", "pin-thresholds"]


def test_a_limit_of_arenas_is_said_to_be_no_help_where_it_is_none() -> None:
    """A limit is set, and most of what is free lies between live blocks all the same."""
    for between, told in ((30 * MIB, True), (2 * MIB, False)):
        empty = dict.fromkeys(ArenaResident._fields, 0)
        arena = ArenaResident(**{**empty, "total": 30 * MIB, "returnable": between, "stranded": 30 * MIB - between})
        parts = {"returnable": between, "scraps": 30 * MIB - between}
        picture = ResidentPicture(parts, RESIDENT, 30 * MIB, None, None, [arena], ())
        params = Params(
            0,
            {
                "arena_max": 2,
                **dict.fromkeys(("trim_threshold", "mmap_threshold", "top_pad", "no_dyn_threshold"), 128 << 10),
            },
        )
        facts = Facts(picture, params, 4096, (), 2, 2, started=True, calls=1, tunables=True, release="2.36")
        said = [each for each in find_advice(facts) if each.id == "arena-limit-no-help"]
        assert [each.figures["limit"] for each in said] == ([2] if told else [])


@pytest.mark.parametrize(
    ("top", "whole", "threshold", "told"),
    [
        (3 * MIB, 3 * MIB, 4 * MIB, True),
        (3 * MIB, 3 * MIB, 128 << 10, False),
        (3 * MIB, 64 * MIB, 4 * MIB, False),
        (MIB // 2, MIB // 2, 4 * MIB, False),
    ],
)
def test_a_top_that_was_asked_for_ahead_is_not_put_down_to_a_threshold(
    top: int, whole: int, threshold: int, told: bool
) -> None:
    """free() would return one that has reached trim_threshold: such a top was never freed (top_pad, huge pages)."""
    empty = dict.fromkeys(ArenaResident._fields, 0)
    parts = {"main_top": top, "live": 4 * MIB}
    arena = ArenaResident(**{**empty, "total": top + 4 * MIB, "live": 4 * MIB, "top": top})
    picture = ResidentPicture(parts, RESIDENT, sum(parts.values()), None, None, [arena], ())
    values = {"trim_threshold": threshold, "mmap_threshold": 128 << 10, "top_pad": 0, "no_dyn_threshold": 1}
    header = ArenaHeader(0, 0x7000, True, 0, 0, 0x9000, whole, 0x7000, 1, whole, whole, True)
    usages = [ArenaUsage(header, 1, (), None, None, None, None, None)]
    facts = Facts(
        picture, Params(0, values), 4096, usages, 1, None, started=True, calls=0, tunables=True, release="2.36"
    )
    assert ("top-below-threshold" in {each.id for each in find_causes(facts)}) is told


def test_who_holds_what_is_in_use_is_why_it_stays() -> None:
    """Whoever holds much, all the others together, and what nobody does; of what the program has freed, no."""
    sizes = (("cache", 30 * MIB, 12 * MIB), ("small", 4096, 4096))
    keepers = [MainHolder([Owner("global", name)], size, alone, name) for name, size, alone in sizes]
    lost = LeakRow("Request", True, None, "lost", (), 3, MIB, 6, 3 * MIB, None, "definite", (0x1000,))
    held = HeldSums(
        live=60 * MIB,
        reached=56 * MIB,
        possible=0,
        lost=4 * MIB,
        unknown=0,
        lost_blocks=9,
        doubted=False,
        keepers=keepers,
        others=26 * MIB - 4096,
        lost_rows=[lost],
    )
    told = {}
    for free in (0, 70 * MIB):
        parts = {"live": 60 * MIB, "returnable": free}
        picture = ResidentPicture(parts, RESIDENT, sum(parts.values()), None, None, (), ())
        facts = Facts(picture, None, 4096, (), 1, None, started=True, calls=1, tunables=True, release="2.36", held=held)
        told[free] = [each.id for each in find_causes(facts)]
    assert told[0] == ["held-by-owner", "held-by-others", "lost-blocks"]
    assert not {"held-by-owner", "held-by-others"} & {*told[70 * MIB]}


@pytest.mark.parametrize(
    ("possible", "unknown", "doubted", "expected"),
    [
        (4 * MIB, 0, False, {"look-into-possible-leak"}),
        (0, 4 * MIB, False, {"search-for-leak"}),
        # `leaks` does not know it either
        (0, 4 * MIB, True, set()),
        (4096, 4096, False, set()),
    ],
)
def test_what_may_be_lost_leads_to_leaks(possible: int, unknown: int, doubted: bool, expected: set[str]) -> None:
    held = HeldSums(
        live=60 * MIB,
        reached=60 * MIB - possible - unknown,
        possible=possible,
        lost=0,
        unknown=unknown,
        lost_blocks=0,
        doubted=doubted,
        keepers=(),
    )
    picture = ResidentPicture({"live": 60 * MIB}, RESIDENT, 60 * MIB, None, None, (), ())
    facts = Facts(picture, None, 4096, (), 1, None, started=True, calls=1, tunables=True, release="2.36", held=held)
    assert {each.id for each in find_advice(facts)} & set(OF_LEAKS) == expected


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({}, ()),
        ({"lost": 30 * MIB}, ("lost",)),
        ({"cycles": 30 * MIB}, ("cycles",)),
        ({"perhaps": 30 * MIB}, ("perhaps",)),
        ({"lost": 20 * MIB, "cycles": 10 * MIB, "perhaps": 5 * MIB}, ("lost", "cycles", "perhaps")),
        ({"lost": 1000, "cycles": 3 * MIB, "perhaps": 2000, "files": 50 * MIB}, ("cycles",)),
    ],
)
def test_the_verdict_says_what_is_found_to_be_lost(figures: dict[str, int], said: tuple[str, ...]) -> None:
    """Nothing else may be said of memory to which, by what the report found, nothing leads that the program uses."""
    held = HeldSums(
        live=60 * MIB,
        reached=60 * MIB - figures.get("lost", 0),
        possible=0,
        unknown=0,
        doubted=False,
        keepers=(),
        lost=figures.get("lost", 0),
        lost_blocks=9,
        cycles=figures.get("cycles", 0),
        perhaps=figures.get("perhaps", 0),
    )
    parts = {"live": 60 * MIB, "files": figures.get("files", 0)}
    picture = ResidentPicture(parts, RESIDENT, sum(parts.values()), None, None, (), ())
    facts = Facts(picture, None, 4096, (), 1, None, started=True, calls=1, tunables=True, release="2.36", held=held)
    judgement = judge(facts)
    text = verdict(judgement, compared=False, has_waste=True)
    assert judgement.id == "live-data"
    assert [each for each in ("lost", "cycles", "perhaps") if each in figures and say(figures[each]) in text] == [*said]
    assert text != verdict(judgement, compared=False, has_waste=False) or said
