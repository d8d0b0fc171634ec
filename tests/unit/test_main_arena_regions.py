"""Where a main arena that is one stretch lies."""

from __future__ import annotations

from array import array
from typing import Optional

import pytest
from heap_mixtures import everything

from arenascope.base.heap_model import NONCONTIGUOUS, Params
from arenascope.glibc.arena import ArenaSurroundings, main_regions
from arenascope.session.session import Session
from arenascope.sources.memory import Memory
from arenascope.sources.target import Region

START, PAGE, PAGES = 0x10000000, 4096, 4


@pytest.mark.parametrize("top_bytes", [None, 0])
def test_a_top_without_a_size_tells_no_start(top_bytes: Optional[int]) -> None:
    """sbrk_base does; a top of no bytes would put the start as far in front of it as top is long."""
    image = everything("2.31-64")
    session = Session(image.target())
    header = session.headers[0]._replace(top_bytes=top_bytes)
    assert header.contiguous
    base = image.truth.mp["sbrk_base"]

    def found(params: Optional[Params]) -> list[tuple[int, int]]:
        regions = main_regions(
            session.memory, session.layout, header, ArenaSurroundings(params, session.regions, 4096), []
        )
        return [(each.address, each.end) for each in regions]

    assert found(session.params) == [(base, base + header.system_mem)]
    assert found(None) == []


def test_words_that_look_like_the_end_of_a_region() -> None:
    """At a page's start, by chance: no region is as small as that."""
    session = Session(everything("2.31-64").target())
    words = array("Q", bytes(PAGES * PAGE))
    sizes = {0: 0x1011, 0x1010: 0x11, 0x1020: 0x11, 3 * PAGE: 0x11, 3 * PAGE + 0x10: 0x11}
    for chunk, size in sizes.items():
        words[chunk // 8 + 1] = size
    data = words.tobytes()
    memory = Memory(lambda address, size: data[address - START : address - START + size], 8, "little")
    mapping = Region(START, START + len(data))
    header = session.headers[0]._replace(flags=NONCONTIGUOUS, top=0, top_bytes=None, system_mem=0x1030)
    found = main_regions(memory, session.layout, header, ArenaSurroundings(None, [mapping], PAGE), [])
    assert [(each.address, each.end) for each in found] == [(START, START + 0x1030)]
