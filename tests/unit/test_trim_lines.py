"""What `trim` says to do next: nothing that would return nothing, and after a trim what is left."""

from __future__ import annotations

import re
from typing import Sequence

import pytest

from arenascope.analysis.trim import ArenaTrim, Residents, Trim
from arenascope.base.model import Applied, Range, Statement
from arenascope.commands.trim import lines, question
from arenascope.present.shared_text.text import Style

MIB = 1 << 20
SHELL = Style(width=0, program="arenascope", subject="7")
PINS, TRIM, REPORT = "arenascope pins 7 --types", "arenascope trim 7 --apply", "arenascope report 7"


def said(stranded: int, tops: int = 0, cached: int = 0) -> list[Statement]:
    kept = [
        Statement("tops-untouched", {"bytes": tops, "resident_bytes": tops}),
        Statement("pages-shared", {"bytes": stranded}),
        Statement("cached-by-threads", {"bytes": cached}),
    ]
    return [each for each in kept if each.figures["bytes"]]


def shown(resident: int, kept: Sequence[Statement], calls: int = 3) -> str:
    ranges = [Range(0x10000 * at, MIB) for at in range(calls)]
    plan = ArenaTrim(0, 0x7000, ranges, 0, None, Range(0, 0), 0, 0, None, 0, complete=True)
    plans = [Trim(plan, Residents(resident, 0, 0))]
    how = {"whole": True, "ranges": False, "tops": False, "may_apply": True}
    return "\n".join(lines(SHELL, plans, None, limit=0, kept=kept, refused=None, **how))


@pytest.mark.parametrize(
    ("resident", "stranded", "told"),
    [(2 * MIB, 9 * MIB, TRIM), (0, 9 * MIB, PINS), (0, 4096, REPORT)],
    ids=["it returns some", "nothing but what is stranded", "nothing at all"],
)
def test_what_would_return_nothing_is_not_advised(resident: int, stranded: int, told: str) -> None:
    """Not even with the pages that it would release once more: they have left memory."""
    text = shown(resident, said(stranded))
    assert [each for each in (PINS, TRIM, REPORT) if each in text] == [told]
    assert ("3 madvise calls" in text) is bool(resident)


def test_what_apply_stops_a_process_for_is_told_apart_from_the_call() -> None:
    """However short: 46 ms are much for who was told of one."""
    ranges = [Range(0x10000 * at, MIB) for at in range(3)]
    plan = ArenaTrim(0, 0x7000, ranges, 0, None, Range(0, 0), 0, 0, None, 0, complete=True)
    how = {"whole": True, "ranges": False, "tops": False, "may_apply": True, "limit": 0, "kept": ()}
    held, elsewhere = (
        "\n".join(lines(SHELL, [Trim(plan, Residents(MIB, 0, 0))], None, refused=None, holds=holds, **how))
        for holds in (0.234, None)
    )
    assert "230 ms" in held
    assert "230 ms" not in elsewhere
    asked = question(["malloc_trim(0)"], 7, "x", returns=MIB, takes=0.011, held=0.046, holds=0.234)
    assert re.findall(r"([\d.]+ \w+) in about (11 ms) .* (230 ms) .* (46 ms)", asked) == [
        ("1.0 MiB", "11 ms", "230 ms", "46 ms")
    ]
    # a debugger holds it anyway
    unheld = question(["malloc_trim(0)"], 7, "x", returns=MIB, takes=0.011, held=0.0, holds=None)
    assert re.findall(r"\d+ ms", unheld) == ["11 ms"]


def after(kept: Sequence[Statement], tops: bool = False, refused: int = 0) -> str:
    """The line on what is left."""
    call = Statement("released", {"ranges": 9, "refused": refused}, {"call": "malloc_trim(0)", "of": "range"})
    applied = Applied(50 * MIB, 10 * MIB, 40 * MIB, 40 * MIB, 0.1, [call])
    how = {"whole": True, "ranges": False, "may_apply": True}
    found = list(lines(SHELL, [], applied, tops=tops, limit=0, kept=kept, refused=None, **how))
    assert len(found) in (3, 4)
    return "".join(found[3:])


def test_what_is_left_after_a_trim_is_told_with_what_tells_more() -> None:
    assert after([]) == ""
    assert after([Statement("break-grows", {"bytes": 4096})]) == ""
    stranded = after(said(9 * MIB, tops=2 * MIB, cached=MIB))
    assert stranded.index("12.0 MiB") < stranded.index("9.0 MiB") < stranded.index(PINS)
    tops = after(said(4096, tops=2 * MIB))
    assert f"{TRIM} --tops" in tops
    assert PINS not in tops
    # those were released as well
    assert after(said(0, tops=2 * MIB), tops=True) == ""
    little = after(said(4096))
    assert "4.0 KiB" in little
    assert "arenascope" not in little


def test_what_is_left_is_a_lower_bound_where_the_kernel_refused_some() -> None:
    certain, bound = (after(said(9 * MIB), refused=refused) for refused in (0, 2))
    assert certain != bound
    assert "9.0 MiB" in certain
    assert "9.0 MiB" in bound
