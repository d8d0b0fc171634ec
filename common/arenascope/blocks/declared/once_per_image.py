"""What blocks are by the program's debug information: found once for all that ask of one image."""

from __future__ import annotations

from typing import Mapping, Optional

from ...base.model import Kind
from ...session.session import Session
from ..graph.blocks import live_blocks
from ..graph.refs import ImageSearch
from ..graph.roots import find_roots
from ..recognise.module_memory import ground_of
from .container_rows import ContainerRow, container_rows
from .memory_reader import MemoryReader
from .named_blocks import NamedBlocks
from .trace_from_variables import named_blocks
from .values import Values


def declared_blocks(session: Session) -> Optional[NamedBlocks]:
    """Of all live blocks; None where nobody can tell types."""
    if session.target.types is None or not session.started:
        return None
    found = session.block_results.named
    if found is None:
        blocks = live_blocks(session)
        found = declared_in(ImageSearch(session, blocks, find_roots(session, blocks)))
    return found


def declared_in(search: ImageSearch) -> Optional[NamedBlocks]:
    """Of those of a search."""
    session, blocks = search.session, search.blocks
    if session.target.types is None or not len(blocks):
        return None
    found = session.block_results.named
    if found is None or found.blocks.starts != blocks.starts:
        found = session.block_results.named = named_blocks(search, session.target.types, ground_of(session))
    return found


def values_in(search: ImageSearch) -> Optional[Values]:
    """What reads keys and members of these blocks; None where nobody can tell types."""
    named = declared_in(search)
    return values_of(search.session, named) if named is not None else None


def values_of(session: Session, named: NamedBlocks) -> Optional[Values]:
    """The same of blocks that have been named."""
    found = session.block_results.values
    if found is None and named.layouts is not None:
        ground = ground_of(session)
        reader = MemoryReader(session, named.blocks, ground)
        found = session.block_results.values = Values(reader, ground.constants, named.layouts, session.memory.mark)
    return found


def declared_kinds(search: ImageSearch, before: Mapping[int, Optional[Kind]]) -> dict[int, Kind]:
    """Of those blocks whose declaration says more than what was known before."""
    named = declared_in(search)
    kinds: dict[int, Kind] = {}
    for number, known in before.items() if named is not None else ():
        kind = named.kind(number) if named is not None and named.is_better(number, known) else None
        if kind is not None:
            kinds[number] = kind
    return kinds


def containers_in(search: ImageSearch) -> list[ContainerRow]:
    """None are known where nobody can tell types."""
    named = declared_in(search)
    return containers_of(search.session, named) if named is not None else []


def containers_of(session: Session, named: NamedBlocks) -> list[ContainerRow]:
    """Of blocks that have been named."""
    return container_rows(named, MemoryReader(session, named.blocks, ground_of(session)))
