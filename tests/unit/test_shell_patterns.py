"""Patterns for names: the shell's, in a time that grows with the name, whatever the pattern."""

from __future__ import annotations

import time

import pytest

from arenascope.base.argv import LONGEST, shell_pattern
from arenascope.base.errors import UsageError


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("Session", "Session", True),
        ("Session", "Sessions", False),
        ("*Session*", "std::vector<Session> body", True),
        ("S?ssion", "Session", True),
        ("session", "Session", False),
        ("[ST]ession", "Session", True),
        ("char[16]", "char[16]", True),
        ("Request[]", "Request[]", True),
        ("*[].second.requests[]", "g_sessions[].second.requests[]", True),
        ("Kind<[0-9]>", "Kind<3>", True),
        ("(Session|Buffer)", "Session", False),
        (r"(([\w:<>, ]+)+)+$#", "Session", False),
    ],
)
def test_what_matches(pattern: str, name: str, matches: bool) -> None:
    assert shell_pattern(pattern)(name) == matches


@pytest.mark.parametrize(
    "pattern", ["*a" * 200 + "*b", "*?a" * 200 + "*b", "*[ab]" * 190 + "c", "*" * (LONGEST - 1) + "b"], ids=len
)
def test_many_stars_take_no_time(pattern: str) -> None:
    began = time.process_time()
    assert not shell_pattern(pattern)("a" * 20_000)
    assert time.process_time() - began < 2


def test_a_pattern_has_a_bound() -> None:
    with pytest.raises(UsageError):
        shell_pattern("*a" * LONGEST)
