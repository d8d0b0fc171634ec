"""JSON records of other allocators, and of several glibcs."""

from __future__ import annotations

from typing import Optional, Sequence

from ...analysis.report import ResidentPicture
from ...base.model import Allocator
from ...glibc.find.several_glibcs import GlibcCopy
from ...session.resident import GlibcShare
from ..formats.json import hexadecimal
from .arena_records import AllocatorShare, GlibcShareRecord, OtherAllocator
from .glibc_records import LibcRecord


def other_allocators(allocators: Sequence[Allocator]) -> list[OtherAllocator]:
    return [OtherAllocator.of(each) for each in allocators]


def share_record(share: Optional[GlibcShare]) -> Optional[GlibcShareRecord]:
    return None if share is None else GlibcShareRecord(glibc_resident_bytes=share.glibc, rss_bytes=share.rss)


def allocator_shares(allocators: Sequence[Allocator], picture: Optional[ResidentPicture]) -> list[AllocatorShare]:
    """The same with what each has in memory: exact where its mappings are known, otherwise an upper bound."""
    made = picture.made if picture else {}
    untold = picture.elsewhere - sum(made.values()) if picture else None
    return [
        AllocatorShare.of(each, resident_bytes=made.get(each.name), at_most_bytes=made.get(each.name, untold))
        for each in allocators
    ]


def copies_of(copies: Sequence[GlibcCopy], chosen: int) -> list[LibcRecord]:
    return [
        LibcRecord(
            libc=number,
            path=copy.libc.path or None,
            version=copy.libc.version,
            main_arena=hexadecimal(copy.main_arena),
            used=copy.used,
            chosen=number == chosen,
        )
        for number, copy in enumerate(copies)
    ]
