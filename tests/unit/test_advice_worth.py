"""Advice that nobody would ask for is not given, and what is given says all: figures as a process has them, judged."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, Optional, Sequence, cast

import pytest

from arenascope.analysis.advice import OF_LEAKS, find_advice
from arenascope.analysis.causes import Facts, find_causes, judge
from arenascope.analysis.pins import BlocksOfKind, HeldBack, LiveBlockKinds, TypeRow
from arenascope.analysis.report import RESIDENT, ArenaResident, HeldSums, Lost, MainHolder, ResidentPicture
from arenascope.analysis.trim import ArenaUsage
from arenascope.base.model import Applied, ArenaHeader, Kind, Params
from arenascope.commands.pins import group_lines
from arenascope.commands.trim import lines
from arenascope.present.screens.advice_sentences import words
from arenascope.present.screens.report import advice_line
from arenascope.present.screens.verdict import ONE_LOOK, ONLY_FREEING, cause, verdict
from arenascope.present.shared_text.text import Style

MIB = 1 << 20
ARENAS = 6


def advised(scraps: int, files: int) -> set[str]:
    """For a process of six arenas that has so much stranded in one of them, and so many bytes of files."""
    empty = dict.fromkeys(ArenaResident._fields, 0)
    arenas = [ArenaResident(**{**empty, "arena": index}) for index in range(ARENAS)]
    arenas[1] = arenas[1]._replace(total=scraps, scraps=scraps)
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


def test_what_threads_one_after_the_other_would_share_is_not_called_hopeless() -> None:
    """Stranded in arenas that would not be there: one look does not tell whether the threads need it at once."""
    empty = dict.fromkeys(ArenaResident._fields, 0)
    for others, title in ((0, "MALLOC_ARENA_MAX=2 would not help"), (10 * MIB, "MALLOC_ARENA_MAX=2 may not help")):
        sizes = [0, 20 * MIB, others, others]
        arenas = [
            ArenaResident(**{**empty, "arena": at, "total": size, "scraps": size}) for at, size in enumerate(sizes)
        ]
        parts = {"scraps": sum(sizes)}
        picture = ResidentPicture(parts, RESIDENT, sum(sizes), None, None, arenas, ())
        usages = cast(Any, [None] * len(sizes))
        facts = Facts(picture, None, 4096, usages, 4, None, started=True, calls=0, tunables=True, release="2.36")
        (leave,) = (each for each in find_advice(facts) if each.id == "leave-arena-max")
        assert leave.figures["stranded_outside_bytes"] == 2 * others
        assert words(leave, facts, Style().size).action == title


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
        judgement, style = judge(facts), Style()
        assert judgement.id == "freed-thresholds-grew"
        assert (judgement.figures["large_free_bytes"] == 0) is sure
        assert ("perhaps" in verdict(judgement, style.size)) is not sure
        helps = [each for each in find_advice(facts) if each.effect]
        assert [each.id for each in helps] == ["trim-once", "pin-thresholds"]
        pin = words(helps[1], facts, style.size)
        assert any("chunks" in (each or "") for each in pin.commands(style)) is not sure


def test_a_limit_of_arenas_is_said_to_be_no_help_where_it_is_none() -> None:
    """A limit is set, and most of what is free lies between live blocks all the same."""
    for between, told in ((30 * MIB, True), (2 * MIB, False)):
        empty = dict.fromkeys(ArenaResident._fields, 0)
        arena = ArenaResident(**{**empty, "total": 30 * MIB, "returnable": between, "scraps": 30 * MIB - between})
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
        assert all("limit of 2 arenas" in words(each, facts, Style().size).action for each in said)


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


def test_releasing_tops_says_what_its_command_returns_in_all() -> None:
    """`trim --apply --tops` calls malloc_trim too."""
    for returnable, both in ((0, 0), (20 * MIB, 30 * MIB - 4096)):
        empty = dict.fromkeys(ArenaResident._fields, 0)
        arena = ArenaResident(**{**empty, "arena": 1, "total": 30 * MIB, "top": 10 * MIB, "returnable": returnable})
        parts = {"returnable": returnable, "thread_tops": 10 * MIB}
        picture = ResidentPicture(parts, RESIDENT, sum(parts.values()), None, None, [arena], ())
        facts = Facts(picture, None, 4096, (), 1, None, started=True, calls=1, tunables=True, release="2.36")
        (tops,) = (each for each in find_advice(facts) if each.id == "release-tops")
        assert tops.figures["with_trim_bytes"] == both
        (way,) = words(tops, facts, Style().size).how(Style(program="arenascope", subject="7"))
        assert ("in all)" in way) == bool(both)
        (way,) = words(tops, facts, Style().size).how(Style(core=True))
        assert way.count("(") == 1


def test_what_came_in_is_told_where_the_sums_would_not_agree() -> None:
    for came, told in ((0, False), (MIB, True)):
        applied = Applied(50 * MIB, 10 * MIB + came, 40 * MIB, 40 * MIB, 0.1, [])
        words = {"whole": True, "ranges": False, "tops": False, "may_apply": True}
        shown = lines(Style(), [], applied, limit=0, kept=[], refused=None, **words)
        assert ("1.0 MiB" in "\n".join(shown)) is told


def test_what_a_type_keeps_is_told_from_what_a_trim_returns_anyway() -> None:
    """Beside it may stand what the last blocks alone would give back without one, which can be far more."""
    row = TypeRow(Kind("Session", "c++"), 0, 104, MIB, None, None, ())
    first, *_ = group_lines(Style(), [BlocksOfKind(row, HeldBack(3 * MIB, 3 * MIB, within=0))], {})
    assert re.findall(r"[\d.]+ MiB|\d+ blocks of \w+", first) == ["104 blocks of Session", "1.0 MiB", "3.0 MiB"]


@pytest.mark.parametrize(
    ("returnable", "tops", "told"),
    [
        (0, 0, "malloc has nothing to give back."),
        (4096, 0, "malloc has little to give back: 4.0 KiB."),
        (4096, 8192, "malloc has little to give back: 12.0 KiB."),
    ],
)
def test_what_little_there_is_to_give_back_is_said(returnable: int, tops: int, told: str) -> None:
    parts = {"live": 60 * MIB, "returnable": returnable, "thread_tops": tops}
    picture = ResidentPicture(parts, RESIDENT, sum(parts.values()), None, None, (), ())
    facts = Facts(picture, None, 4096, (), 1, None, started=True, calls=1, tunables=True, release="2.36")
    assert verdict(judge(facts), Style().size).endswith(f"{ONE_LOOK}; {told}")


@pytest.mark.parametrize(
    ("returnable", "tops", "told"),
    [(0, 0, ()), (300 << 10, 0, ("300.0 KiB",)), (0, MIB, ("1.0 MiB",)), (4096, MIB, ("4.0 KiB", "1.0 MiB"))],
)
def test_what_a_trim_returns_is_said_where_most_is_not_malloc_s(
    returnable: int, tops: int, told: Sequence[str]
) -> None:
    """However little: a table below has it."""
    parts = {"live": 0, "returnable": returnable, "thread_tops": tops, "files": 20 * MIB}
    picture = ResidentPicture(parts, RESIDENT, sum(parts.values()), None, None, (), ())
    facts = Facts(picture, None, 4096, (), 1, None, started=True, calls=1, tunables=True, release="2.36")
    said = judge(facts)
    assert said.id == "mostly-mapped-files"
    judged = verdict(said, Style().size).partition("Most of it")[2]
    assert tuple(re.findall(r"[\d.]+ [KM]iB", judged)) == told
    assert ("cannot help" in judged) is not told


@pytest.mark.parametrize(
    ("live", "scraps", "free", "told"),
    [(40, 20, 0, True), (90, 10, 0, True), (60, 0, 20, False), (60, 0, 0, False), (40, 5, 30, False)],
    ids=["of what is free most", "of little that is free", "a trim returns it", "nothing is free", "least of it"],
)
def test_what_no_trim_returns_is_said_at_once_to_be_so(live: int, scraps: int, free: int, told: bool) -> None:
    parts = {"live": live * MIB, "scraps": scraps * MIB, "returnable": free * MIB}
    picture = ResidentPicture(parts, RESIDENT, sum(parts.values()), None, None, (), ())
    row = TypeRow(Kind("Session", "c++"), 0, 104, MIB, None, None, ())
    seen = LiveBlockKinds((), [BlocksOfKind(row, HeldBack(scraps * MIB, scraps * MIB, within=(scraps + 1) * MIB))])
    for known in (None, seen):
        facts = Facts(
            picture, None, 4096, (), 1, None, started=True, calls=1, tunables=True, release="2.36", seen=known
        )
        said = verdict(judge(facts), Style().size)
        assert said.endswith(f"{ONLY_FREEING}.") is told
        assert ("104 blocks of Session" in said) is (told and known is seen)


def test_who_holds_what_is_in_use_is_why_it_stays() -> None:
    """Whoever holds much, all the others together, and what nobody does; of what the program has freed, no."""
    sizes = (("cache", 30 * MIB, 12 * MIB), ("small", 4096, 4096))
    keepers = [MainHolder("global", name, None, bytes=size, alone=alone, called=name) for name, size, alone in sizes]
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
        most_lost=Lost("Request", 3, 4 * MIB, 6),
    )
    told = {}
    for free in (0, 70 * MIB):
        parts = {"live": 60 * MIB, "returnable": free}
        picture = ResidentPicture(parts, RESIDENT, sum(parts.values()), None, None, (), ())
        facts = Facts(picture, None, 4096, (), 1, None, started=True, calls=1, tunables=True, release="2.36", held=held)
        told[free] = [(each.id, *cause(each, Style().size)) for each in find_causes(facts)]
    assert [name for name, *_ in told[0]] == ["held-by-owner", "held-by-others", "lost-blocks"]
    owner, others, _ = (words.partition(":")[0] for _, words, _ in told[0])
    assert re.search(r"\bcache\b.* 30\.0 MiB", owner)
    assert "12.0 MiB" in told[0][0][2]
    assert "26.0 MiB" in others
    assert not {"held-by-owner", "held-by-others"} & {name for name, *_ in told[70 * MIB]}


@pytest.mark.parametrize(
    ("possible", "unknown", "doubted", "expected"),
    [
        (4 * MIB, 0, False, {"look-into-possible-leak": "leaks --possible"}),
        (0, 4 * MIB, False, {"search-for-leak": "leaks"}),
        # `leaks` does not know it either
        (0, 4 * MIB, True, {}),
        (4096, 4096, False, {}),
    ],
)
def test_what_may_be_lost_leads_to_leaks(possible: int, unknown: int, doubted: bool, expected: dict[str, str]) -> None:
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
    told = {each.id: words(each, facts, Style().size) for each in find_advice(facts) if each.id in OF_LEAKS}
    assert {id: said.commands(Style())[0] for id, said in told.items()} == {
        id: Style().typed(command) for id, command in expected.items()
    }
    assert all("4.0 MiB" in said.action for said in told.values())
    # what may be lost is not called held
    assert ("4.0 MiB" in verdict(judge(facts), Style().size)) is (possible + unknown > MIB)


@pytest.mark.parametrize(
    ("kind", "free", "returns", "told"),
    [
        ("global", 0, 12 * MIB, "at most 12.0 MiB"),
        ("global", 0, None, "in 9 blocks]"),
        ("global", 0, 4096, None),
        ("stack", 0, 12 * MIB, "(cache)"),
        ("mapping", 0, 12 * MIB, None),
        ("global", 70 * MIB, 12 * MIB, None),
    ],
    ids=["known", "not known", "nothing to be had", "a thread's", "no variable", "what is free stays"],
)
def test_what_is_a_cause_is_told_what_its_end_would_bring(
    kind: str, free: int, returns: Optional[int], told: Optional[str]
) -> None:
    keepers = [
        MainHolder(kind, "cache", None, bytes=40 * MIB, alone=30 * MIB, called="cache", alone_blocks=9, returns=returns)
    ]
    held = HeldSums(
        live=60 * MIB,
        reached=60 * MIB,
        possible=0,
        lost=0,
        unknown=0,
        lost_blocks=0,
        doubted=False,
        keepers=keepers,
        others=30 * MIB,
    )
    parts = {"live": 60 * MIB, "returnable": free}
    picture = ResidentPicture(parts, RESIDENT, sum(parts.values()), None, None, (), ())
    facts = Facts(picture, None, 4096, (), 1, None, started=True, calls=1, tunables=True, release="2.36", held=held)
    said = [
        advice_line(Style(), each, words(each, facts, Style().size))
        for each in find_advice(facts)
        if each.id == "clear-owner"
    ]
    assert len(said) == (told is not None)
    assert all(told in each for each in said if told is not None)
