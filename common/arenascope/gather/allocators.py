"""Allocators beside glibc's and several glibcs: as JSON, and the share that each has of what is in memory."""

from __future__ import annotations

from typing import Optional, Sequence

from ..analysis.report import Picture
from ..glibc.find.copies import Copy
from ..model import Allocator, Statement
from ..render.json import address
from ..session import Session
from .block_parts import pages_of


def allocators_json(allocators: Sequence[Allocator]) -> list[dict[str, object]]:
    return [
        {
            "name": each.name,
            "how": each.how,
            "replaces_malloc": each.replaces_malloc,
            "shadowed_by": each.shadowed_by,
            "instead": each.instead,
        }
        for each in allocators
    ]


def allocator_shares(allocators: Sequence[Allocator], picture: Optional[Picture]) -> list[dict[str, object]]:
    """The same with what each has in memory: exact where its mappings are known, otherwise an upper bound."""
    made = picture.made if picture else {}
    untold = picture.elsewhere - sum(made.values()) if picture else None
    return [
        {
            **row,
            "resident_bytes": made.get(each.name),
            "at_most_bytes": made.get(each.name, untold),
        }
        for row, each in zip(allocators_json(allocators), allocators)
    ]


def copies_json(copies: Sequence[Copy], chosen: int) -> list[dict[str, object]]:
    return [
        {
            "libc": number,
            "path": copy.libc.path or None,
            "version": copy.libc.version,
            "main_arena": address(copy.main_arena),
            "used": copy.used,
            "chosen": number == chosen,
        }
        for number, copy in enumerate(copies)
    ]


def replaced(session: Session) -> Optional[Statement]:
    """The problem that malloc does not lead to the arenas."""
    others = [each for each in session.located.allocators if each.replaces_malloc]
    if not others:
        return None
    names = " and ".join(f"{each.name} ({each.how})" for each in others)
    return Statement("malloc-replaced", names={"allocators": names})


Share = dict[str, Optional[int]]
"""Bytes by name."""


def share_json(session: Session, walk: bool = True) -> Optional[Share]:
    """How much of what is in memory is glibc's; None where there is no other allocator to share it with."""
    if not session.located.allocators:
        return None
    return {"glibc_resident_bytes": resident_of_glibc(session, walk), "rss_bytes": resident_of_process(session)}


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
