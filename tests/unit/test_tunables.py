"""What the environment asks of malloc, and what of it a release hears."""

from __future__ import annotations

from typing import Optional

import pytest

from arenascope.base.heap_model import Params
from arenascope.commands.params import describe_params
from arenascope.glibc import release_table
from arenascope.glibc.malloc_par import parse_number, requests
from arenascope.glibc.process_layout import from_table

Asked = tuple[str, Optional[int], Optional[str]]
"""As it stands there, its value, and why it is not heard."""


def ask(environment: dict[str, str], release: release_table.Release = (2, 36)) -> dict[str, Asked]:
    found = requests(environment, release_table.behaviour(release))
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


def test_what_lies_beside_mp() -> None:
    asked = {"MALLOC_PERTURB_": "90", "GLIBC_TUNABLES": "glibc.malloc.mxfast=70"}
    layout = from_table((2, 36), 8, "x86_64")
    params = Params(0, dict.fromkeys(layout.params.offsets, 0))

    def rows(**beside: Optional[int]) -> dict[str, tuple[Optional[int], Optional[int], Optional[str]]]:
        found = describe_params(params, layout, asked, beside=beside)
        return {row.name: (row.value, row.default, row.note and row.note.id) for row in found if row.name in beside}

    assert rows(global_max_fast=64, perturb_byte=90) == {
        "global_max_fast": (64, 128, "in-effect"),
        "perturb_byte": (90, 0, "in-effect"),
    }
    assert rows(global_max_fast=128, perturb_byte=None) == {
        "global_max_fast": (128, 128, "not-in-effect"),
        "perturb_byte": (None, 0, "place-unknown"),
    }


@pytest.mark.parametrize(
    ("asked", "stands", "note"),
    [
        ("1", ("thp_pagesize", 2 << 20), "mode-in-effect"),
        ("1", ("thp_pagesize", 0), "mode-without-effect"),
        ("2", ("hp_pagesize", 2 << 20), "mode-in-effect"),
        ("2", ("hp_pagesize", 0), "mode-without-effect"),
        ("0x40000000", ("hp_pagesize", 1 << 30), "in-effect"),
        ("4096", ("hp_pagesize", 0), "not-in-effect"),
        ("0", ("hp_pagesize", 0), "in-effect"),
    ],
)
def test_huge_pages_are_asked_for_by_mode_or_size(asked: str, stands: tuple[str, int], note: str) -> None:
    layout = from_table((2, 36), 8, "x86_64")
    params = Params(0, {**dict.fromkeys(layout.params.offsets, 0), stands[0]: stands[1]})
    rows = describe_params(params, layout, {"GLIBC_TUNABLES": f"glibc.malloc.hugetlb={asked}"})
    assert {row.name: row.note and row.note.id for row in rows if row.requested} == {stands[0]: note}


def test_a_secure_program_hears_none() -> None:
    asked = {"MALLOC_ARENA_MAX": "2", "MALLOC_TOP_PAD": "1", "GLIBC_TUNABLES": "glibc.malloc.mxfast=70"}
    heard = requests(asked, release_table.behaviour((2, 36)), secure=True)
    assert {name: each.refusal and each.refusal.id for name, each in heard.items()} == {
        "arena_max": "secure-program",
        "top_pad": "misspelt-variable",
        "global_max_fast": "secure-program",
    }


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
