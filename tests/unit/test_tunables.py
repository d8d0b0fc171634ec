"""What the environment asks of malloc, and what of it a release hears."""

from __future__ import annotations

from typing import Optional

import pytest

from arenascope.glibc import versions
from arenascope.glibc.tunables import parse_number, requests

Asked = tuple[str, Optional[int], Optional[str]]
"""As it stands there, its value, and why it is not heard."""


def ask(environment: dict[str, str], release: versions.Release = (2, 36)) -> dict[str, Asked]:
    found = requests(environment, versions.behaviour(release))
    return {name: (each.text, each.value, each.refusal.id if each.refusal else None) for name, each in found.items()}


def test_variables_and_tunables() -> None:
    assert ask({}) == {}
    assert ask({"MALLOC_ARENA_MAX": "2", "HOME": "/"}) == {"arena_max": ("MALLOC_ARENA_MAX=2", 2, None)}
    assert ask({"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.top_pad=0x20000:glibc.cpu.hwcaps=x"}) == {
        "tcache_count": ("glibc.malloc.tcache_count=0", 0, None),
        "top_pad": ("glibc.malloc.top_pad=0x20000", 0x20000, None),
    }
    both = {"MALLOC_MMAP_THRESHOLD_": "65536", "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4096"}
    assert ask(both)["mmap_threshold"] == ("glibc.malloc.mmap_threshold=4096", 4096, None)


def test_requests_that_nobody_hears() -> None:
    assert ask({"MALLOC_TRIM_THRESHOLD": "1"}) == {
        "trim_threshold": ("MALLOC_TRIM_THRESHOLD=1", None, "misspelt-variable")
    }
    assert ask({"MALLOC_TRIM_THRESHOLD": "1", "MALLOC_TRIM_THRESHOLD_": "2"}) == {
        "trim_threshold": ("MALLOC_TRIM_THRESHOLD_=2", 2, None)
    }
    old = ask({"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}, (2, 25))
    assert old == {"arena_max": ("glibc.malloc.arena_max=1", 1, "no-malloc-tunables")}
    assert ask({"GLIBC_TUNABLES": "glibc.malloc.arena_max"}) == {"arena_max": ("glibc.malloc.arena_max", None, None)}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("10", 10),
        (" 7 ", 7),
        ("010", 8),
        ("0x10", 16),
        ("0X1f", 31),
        ("", None),
        ("1k", None),
        ("0x", None),
        ("09", None),
    ],
)
def test_numbers_as_strtoul_reads_them(text: str, value: Optional[int]) -> None:
    assert parse_number(text) == value
