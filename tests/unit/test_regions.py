"""Where a main arena that is one stretch lies."""

from __future__ import annotations

from typing import Optional

import pytest
from heap_mixtures import everything

from arenascope.base.model import Params
from arenascope.glibc.regions import Ground, main_regions
from arenascope.session.session import Session


@pytest.mark.parametrize("top_bytes", [None, 0])
def test_a_top_without_a_size_tells_no_start(top_bytes: Optional[int]) -> None:
    """sbrk_base does; a top of no bytes would put the start as far in front of it as top is long."""
    image = everything("2.31-64")
    session = Session(image.target())
    header = session.headers[0]._replace(top_bytes=top_bytes)
    assert header.contiguous
    base = image.truth.mp["sbrk_base"]

    def found(params: Optional[Params]) -> list[tuple[int, int]]:
        regions = main_regions(session.memory, session.layout, header, Ground(params, session.regions, 4096), [])
        return [(each.address, each.end) for each in regions]

    assert found(session.params) == [(base, base + header.system_mem)]
    assert found(None) == []
