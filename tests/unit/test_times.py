"""Options that are times, and the time that an advice names."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from arenascope.base.heap_model import HOLD, HOLD_AT_MOST, allows_more
from arenascope.cli.shell import HOLD_AT_MOST_OPTION
from arenascope.commands.framework.arguments import seconds


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("90s", 90.0),
        ("1.5s", 1.5),
        ("300ms", 0.3),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("5", 5.0),
        ("1e-6", 1e-6),
        ("0", 0.0),
    ],
)
def test_a_time_has_a_unit(text: str, found: float) -> None:
    assert seconds(text) == pytest.approx(found, abs=0, rel=1e-12)


def test_a_bare_hold_is_in_milliseconds() -> None:
    read = HOLD_AT_MOST_OPTION.options["type"]
    assert [read(each) for each in ("500", "500ms", "0.5s")] == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("text", ["", "s", "-1", "-1s", "2x", "2sm", "nan", "inf", "1m30s", "two"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="ms"):
        seconds(text)


@pytest.mark.parametrize("than", [0.001, 0.5, HOLD, 100.0])
def test_what_allows_more_is_more_and_allowed(than: float) -> None:
    option, value, *_ = allows_more(than).split()
    assert option in HOLD_AT_MOST_OPTION.names
    assert than < HOLD_AT_MOST_OPTION.options["type"](value) <= HOLD_AT_MOST


def test_nothing_allows_more_than_the_most() -> None:
    assert "--" not in allows_more(HOLD_AT_MOST)
