"""The page of `heap owners --html`."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence

from ...base.records import NamedTuple
from .fill_page import filled, title_of


class Row(NamedTuple):
    """A node of the tree, as the script of the template takes it."""

    name: str
    kind: str
    above: int
    """Which row; -1: none. It comes before."""
    blocks: int
    """What it retains."""
    bytes: int
    resident: Optional[int]
    returns: Optional[int]


def page(facts: Mapping[str, object], nodes: Sequence[Row]) -> bytes:
    return filled("owners", {**facts, "nodes": nodes}, title_of("whose memory it is", facts))
