"""The page of `heap map --html`."""

from __future__ import annotations

from binascii import b2a_base64
from itertools import groupby
from typing import Mapping, Optional, Sequence

from ..formats.pprof import varint
from .fill_page import filled, title_of


def page(facts: Mapping[str, object], heaps: Sequence[Mapping[str, object]]) -> bytes:
    """The page. `heaps`: as the template's script takes them, with layers still as numbers per cell."""
    return filled("heap_map", {**facts, "heaps": [*map(packed, heaps)]}, title_of("heap map", facts))


def packed(row: Mapping[str, object]) -> dict[str, object]:
    """A heap as the template's script takes it."""
    return {**row, "layers": _packed(row["layers"])}


def _packed(layers: object) -> dict[str, Optional[str]]:
    """Layers that are not all zero. None stands for a layer that is not known."""
    assert isinstance(layers, dict)
    return {
        name: pack(cells) if cells is not None else None
        for name, cells in layers.items()
        if cells is None or any(cells)
    }


def pack(cells: Sequence[int]) -> str:
    """Packs runs of one value: twice the value, plus 1 if the run's length follows; numbers as LEB128, then base64."""
    packed = bytearray()
    for value, run in groupby(cells):
        times = sum(1 for _ in run)
        packed += varint(2 * value + (times > 1))
        if times > 1:
            packed += varint(times)
    return b2a_base64(packed, newline=False).decode()
