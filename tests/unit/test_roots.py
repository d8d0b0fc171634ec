"""Which mappings are whose variables."""

from __future__ import annotations

import pytest

from arenascope.graph.roots import _candidates
from arenascope.target import Region

PAGE = 0x1000


def region(number: int, flags: str, path: str = "") -> Region:
    start = 0x555500000000 + number * PAGE
    return Region(start, start + PAGE, "r" in flags, "w" in flags, "x" in flags, path=path)


@pytest.mark.parametrize(
    ("protected", "kind"),
    [
        (("rw", "/usr/sbin/mariadbd"), "global"),
        # the end of .data, protected by the program
        (("r", "/usr/sbin/mariadbd"), "global"),
        # somebody else's file that lies there
        (("r", "/usr/share/words"), "mapping"),
        (("", ""), "mapping"),
    ],
)
def test_bss_is_a_programs_variables(protected: tuple[str, str], kind: str) -> None:
    path = "/usr/sbin/mariadbd"
    regions = [region(0, "rx", path), region(1, "rw", path), region(2, *protected), region(3, "rw")]
    assert dict(_candidates(regions))[regions[3]] == kind
