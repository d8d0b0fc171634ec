"""The page of `heap owners --html`."""

from __future__ import annotations

from typing import Mapping, Sequence

from ...blocks.graph.holder_tree import Node
from .fill_page import filled, title_of


def page(facts: Mapping[str, object], nodes: Sequence[Node]) -> bytes:
    """Of each node what the script of the template takes."""
    rows = [
        (each.name, each.kind, each.above, each.retained_blocks, each.retained_bytes, each.resident, each.returns)
        for each in nodes
    ]
    return filled("owners", {**facts, "nodes": rows}, title_of("whose memory it is", facts))
