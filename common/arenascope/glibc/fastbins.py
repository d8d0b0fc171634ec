"""The fastbins of glibc up to 2.42: singly linked lists of small chunks that look in use."""

from __future__ import annotations

from typing import Iterator

from ..base.errors import MemoryReadError, Unread
from ..base.model import ArenaHeader, Bin, Finding, Lists, cannot_read
from ..sources.memory import Memory
from .arena import Reach
from .chunk import OneWay
from .process_layout import Layout


def fastbin_index(layout: Layout, size: int) -> int:
    return (size >> (4 if layout.word == 8 else 3)) - 2


def fastbin_size(layout: Layout, index: int) -> int:
    return (index + 2) << (4 if layout.word == 8 else 3)


def read_fastbins(memory: Memory, layout: Layout, header: ArenaHeader, reach: Reach, findings: list[Finding]) -> Lists:
    """An arena's fastbins."""
    before = len(findings)
    try:
        lists = tuple(reach.within(each, findings) for each in walk_fastbins(memory, layout, header, findings))
    except Unread:
        return Lists(whole=False)
    return Lists(lists, whole=len(findings) == before)


def walk_fastbins(memory: Memory, layout: Layout, header: ArenaHeader, findings: list[Finding]) -> Iterator[Bin]:
    """The non-empty fastbins of an arena, by index."""
    if not layout.fastbins:
        return
    try:
        heads = memory.words(header.address + layout.arena["fastbinsY"], layout.fastbins)
    except MemoryReadError as error:
        findings.append(
            Finding(cannot_read("fastbins-unreadable", error.address, error.size), header.address, header.index)
        )
        return
    limit = header.peak // layout.min_size + 1
    for index, head in enumerate(heads):
        if not head:
            continue
        size = fastbin_size(layout, index)
        links = OneWay(
            index,
            rule="fast",
            to_user=layout.header,
            least=size,
            most=size,
            limit=limit,
            holder=header.address,
            arena=header.index,
        )
        followed = links.follow(memory, layout, head, findings)
        if followed.addresses:
            yield followed
