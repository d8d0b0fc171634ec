"""What the blocks of a search are by the program's debug information, followed once."""

from __future__ import annotations

from typing import Iterable, Optional

from ...base.block_kinds import Kind
from ..graph.refs import Search
from .named_blocks import NamedBlocks
from .start import named_blocks

HOW = "debug information"


def declared_in(search: Search) -> Optional[NamedBlocks]:
    """None where nobody can tell types."""
    source = search.session.target.types
    if source is None or not len(search.blocks):
        return None
    return search.memo.get(NamedBlocks) or search.memo.keep(named_blocks(search.session, source, search.blocks, ()))


def declared_kinds(search: Search, numbers: Iterable[int]) -> dict[int, Kind]:
    """Of those blocks that have a type by declaration."""
    named = declared_in(search)
    kinds: dict[int, Kind] = {}
    for number in numbers if named is not None else ():
        kind = kind_of(named, number) if named is not None else None
        if kind is not None:
            kinds[number] = kind
    return kinds


def kind_of(named: NamedBlocks, number: int) -> Optional[Kind]:
    name = named.name_of(number)
    return None if name is None else Kind(name.text, "declared", certain=named.is_certain(number), how=HOW)
