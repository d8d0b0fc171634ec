"""Advice that nobody would ask for is not given: figures as a process has them, judged."""

from __future__ import annotations

from typing import Any, cast

import pytest

from arenascope.analysis.advice import find_advice
from arenascope.analysis.causes import Facts
from arenascope.analysis.report import RESIDENT, Picture
from arenascope.analysis.resident import ArenaResident

MIB = 1 << 20
ARENAS = 6


def advised(scraps: int, files: int) -> set[str]:
    """For a process of six arenas that has so much stranded in one of them, and so many bytes of files."""
    empty = dict.fromkeys(ArenaResident._fields, 0)
    arenas = [ArenaResident(**{**empty, "arena": index}) for index in range(ARENAS)]
    arenas[1] = arenas[1]._replace(total=scraps, scraps=scraps)
    parts = {"scraps": scraps, "files": files}
    picture = Picture(parts, RESIDENT, sum(parts.values()), None, None, arenas, ())
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
