"""Allocators beside glibc's: whether they replace malloc, and the share that glibc's has of what is in memory."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ..analysis.usage import total
from ..base.model import REPLACED, Statement
from .resident import pages_of
from .session import Session


def replaced(session: Session) -> Optional[Statement]:
    """The problem that malloc does not lead to glibc's heap: how much that holds, and whom to ask instead."""
    others = [each for each in session.located.allocators if each.replaces_malloc]
    if not others:
        return None
    names = " and ".join(f"{each.name} ({each.how})" for each in others)
    ask = "; ".join(f"{each.name}: {each.instead}" for each in others)
    return Statement(REPLACED, {"glibc_bytes": _heap_bytes(session)}, {"allocators": names, "ask": ask})


def _heap_bytes(session: Session) -> Optional[int]:
    """What glibc's malloc has from the system, free or in use."""
    if not session.started:
        return 0
    mapped = session.params.values.get("mmapped_mem") if session.params else None
    return total([mapped, *(header.system_mem for header in session.headers)], session.all_arenas)


class Share(NamedTuple):
    """How much is in memory: glibc's, and in all."""

    glibc: Optional[int]
    rss: Optional[int]


def share_of(session: Session, walk: bool = True) -> Optional[Share]:
    """How much of what is in memory is glibc's; None where there is no other allocator to share it with."""
    if not session.located.allocators:
        return None
    return Share(resident_of_glibc(session, walk), resident_of_process(session))


def resident_of_glibc(session: Session, walk: bool = True) -> Optional[int]:
    """What the arenas and the blocks served by mmap have in memory, where that is known exactly."""
    if session.residency is None:
        return None
    pages = list(session.resident.values()) if session.started else []
    blocks = session.params.values["n_mmaps"] if session.params else None
    if blocks is None or any(each is None for each in pages) or (blocks and not walk):
        return None
    resident = sum(each.resident for each in pages if each is not None)
    if not blocks:
        return resident
    # what another allocator has mapped can look like a block of malloc's
    if len(session.mmapped) != blocks:
        return None
    for here in pages_of(session, session.mmapped):
        if here is None:
            return None
        resident += here.resident
    return resident


def resident_of_process(session: Session) -> Optional[int]:
    """RSS; None where the image does not tell (a core, of the pages of files)."""
    use = session.target.image.memory_use()
    if use is not None:
        return use.rss
    sizes = [each.rss for each in session.target.image.mapping_use() or ()]
    return sum(size for size in sizes if size is not None) if sizes and None not in sizes else None
