"""Whether `watch` asks for types by itself: what such a look may cost (the looks themselves: test_trend.py)."""

from __future__ import annotations

import os
import re

import pytest

from arenascope.cli import watch
from arenascope.cli.watch import HELD, MEMORY, SHARE, AutoLookRule, AutoTypes
from arenascope.commands.snapshot import LookCost
from arenascope.sources.live.proc_tables import read_status

MIB = 1 << 20
INTERVAL = 100.0
MOST = LookCost(SHARE * INTERVAL, HELD * INTERVAL)


@pytest.mark.parametrize(
    ("cost", "processes", "left", "fits"),
    [
        (MOST, 1, MEMORY * MIB, True),
        (MOST, 2, MEMORY * MIB, False),
        (MOST._replace(whole=MOST.whole / 2), 2, MEMORY * MIB, True),
        (MOST._replace(whole=MOST.whole + 1), 1, MEMORY * MIB, False),
        (MOST._replace(held=MOST.held + 1), 1, MEMORY * MIB, False),
        (MOST, 1, MEMORY * MIB - 1, False),
        (MOST, 1, 0, False),
    ],
)
def test_a_look_costs_little(cost: LookCost, processes: int, left: int, fits: bool) -> None:
    assert (not AutoLookRule(INTERVAL, processes).why_not(cost, MIB, left)) == fits


@pytest.mark.parametrize("cost", [LookCost(3.0, 0.1), LookCost(0.5, 4.0)])
def test_the_interval_that_is_named_is_long_enough(cost: LookCost) -> None:
    named = re.findall(r"--interval (\d+)", AutoLookRule(1.0, processes=3).why_not(cost, MIB, 1 << 40))
    assert len(named) == 1
    assert AutoLookRule(float(named[0]), processes=3).why_not(cost, MIB, 1 << 40) == ""
    assert AutoLookRule(float(named[0]) / 2, processes=3).why_not(cost, MIB, 1 << 40)


def test_two_looks_in_a_row_tell_and_not_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_predicted", lambda pid: MOST)
    monkeypatch.setattr(watch, "memory_left", lambda: MEMORY * (read_status(os.getpid()).rss or 0) * 2)
    unasked = AutoTypes(os.getpid(), AutoLookRule(INTERVAL))
    slow = MOST._replace(whole=MOST.whole * 2)
    assert unasked.why_not() == ""
    unasked.took(slow)
    assert unasked.why_not() == ""
    unasked.took(MOST)
    assert unasked.why_not() == ""
    unasked.took(slow)
    unasked.took(slow)
    why_not = unasked.why_not()
    assert why_not
    assert [unasked.say_once(each) for each in ("", why_not, why_not)] == ["", why_not, ""]
