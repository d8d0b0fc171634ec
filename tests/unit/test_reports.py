"""malloc_info's XML and malloc_stats' text, release by release, against texts written by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from arenascope.base.heap_model import Arena, ArenaHeader, Bin, Heap, Params
from arenascope.commands.info import malloc_info
from arenascope.commands.stats import malloc_stats
from arenascope.glibc.process_layout import from_table
from arenascope.glibc.release_table import Release

TABS = "\t" * 7

# by the release that brought it; between 2.17 and 2.36 only what changed is said
TEXTS = {(2, each): Path(__file__).with_name(f"malloc_info-2.{each}.xml").read_text() for each in (17, 36)}
TEXTS[2, 19] = TEXTS[2, 17].replace("<size ", TABS + "      <size ")
TEXTS[2, 20] = (
    TEXTS[2, 17]
    .replace("<size ", TABS + "        <size ")
    .replace("<unsorted ", "  <unsorted ")
    .replace(
        '<system type="current" size="335872"/>',
        '<total type="mmap" count="2" size="413696"/>\n<system type="current" size="335872"/>',
    )
)
TEXTS[2, 26] = TEXTS[2, 20]
TEXTS[2, 27] = (
    TEXTS[2, 26]
    .replace(
        '<aspace type="total" size="135168"/>\n<aspace type="mprotect" size="139264"/>\n',
        '<aspace type="total" size="200704"/>\n<aspace type="mprotect" size="208896"/>\n'
        '<aspace type="subheaps" size="2"/>\n',
    )
    .replace('<aspace type="total" size="270336"/>', '<aspace type="total" size="335872"/>')
    .replace('<aspace type="mprotect" size="274432"/>', '<aspace type="mprotect" size="344064"/>')
)
TEXTS[2, 30] = TEXTS[2, 27]
TEXTS[2, 31] = TEXTS[2, 36]
# without fast chunks
FAST = re.compile(r'<size from="(17|33)" to="(32|48)"|<total type="fast"')
TEXTS[2, 43] = "".join(line for line in TEXTS[2, 36].splitlines(keepends=True) if not FAST.search(line))


def listed(kind: str, index: int, *sizes: int) -> Bin:
    flags = 0 if kind == "fast" else len(sizes)
    return Bin(kind, index, min(sizes), max(sizes), [0x1000 * n for n, _ in enumerate(sizes)], list(sizes), flags)


def header(index: int, system: int, most: int, top: int) -> ArenaHeader:
    return ArenaHeader(index, 0x7000 + index, index == 0, 0, 0, 0x9000, top, 0x7000, 1, system, most, True)


def arenas(release: Release) -> list[Arena]:
    fast = (listed("fast", 0, 32, 32), listed("fast", 1, 48)) if release < (2, 43) else ()
    bins = (listed("unsorted", 1, 1280, 528), listed("small", 2, *[32] * 43), listed("large", 64, 1072, 1040))
    heaps = (Heap(1, 0x10000, 0x20000, 69632, False), Heap(1, 0x40000, 0x61000, 139264, True))
    return [
        Arena(header(0, 135168, 139264, 126976), bins, fast, (Heap(0, 0, 135168, None, True),)),
        Arena(header(1, 200704, 200704, 4096), (), (), heaps),
    ]


@pytest.mark.parametrize("release", sorted(TEXTS))
def test_malloc_info(release: Release) -> None:
    params = Params(0x8000, {"n_mmaps": 2, "mmapped_mem": 413696})
    layout = from_table(release, 8, "x86_64")
    assert malloc_info(arenas(release), params, layout) == TEXTS[release]


def test_malloc_stats_cuts_sums_to_32_bits() -> None:
    large = 5 << 30
    params = Params(0x8000, {"mmapped_mem": (1 << 32) + 4096, "max_n_mmaps": 3, "max_mmapped_mem": 6 << 30})
    found = [
        Arena(header(0, large, large, 135168), (), (listed("fast", 0, 32),), ()),
        Arena(header(1, 135168, 135168, 4096), (listed("unsorted", 1, 528),), (), ()),
    ]
    assert (
        malloc_stats(found, params)
        == """\
Arena 0:
system bytes     = 1073741824
in use bytes     = 1073606624
Arena 1:
system bytes     =     135168
in use bytes     =     130544
Total (incl. mmap):
system bytes     = 1073881088
in use bytes     = 1073741264
max mmap regions =          3
max mmap bytes   = 6442450944
"""
    )


def test_malloc_stats_of_a_small_heap() -> None:
    params = Params(0x8000, {"mmapped_mem": 0, "max_n_mmaps": 0, "max_mmapped_mem": 0})
    assert (
        malloc_stats([Arena(header(0, 135168, 135168, 130000), (), (), ())], params)
        == """\
Arena 0:
system bytes     =     135168
in use bytes     =       5168
Total (incl. mmap):
system bytes     =     135168
in use bytes     =       5168
max mmap regions =          0
max mmap bytes   =          0
"""
    )
