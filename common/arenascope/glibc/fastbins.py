"""The fastbins of glibc up to 2.42: singly linked lists of small chunks that look in use."""

from __future__ import annotations

from array import array
from typing import Iterator

from ..errors import MemoryReadError
from ..memory import Memory
from ..model import ArenaHeader, Bin, Finding, Lists
from .chunk import SIZE_BITS, reveal
from .layout import Layout
from .reach import Reach


def fastbin_index(layout: Layout, size: int) -> int:
    return (size >> (4 if layout.word == 8 else 3)) - 2


def fastbin_size(layout: Layout, index: int) -> int:
    return (index + 2) << (4 if layout.word == 8 else 3)


def read_fastbins(memory: Memory, layout: Layout, header: ArenaHeader, reach: Reach, findings: list[Finding]) -> Lists:
    """An arena's fastbins."""
    before = len(findings)
    lists = tuple(reach.within(each, findings) for each in walk_fastbins(memory, layout, header, findings))
    return Lists(lists, whole=len(findings) == before)


def walk_fastbins(memory: Memory, layout: Layout, header: ArenaHeader, findings: list[Finding]) -> Iterator[Bin]:
    """The non-empty fastbins of an arena, by index."""
    if not layout.fastbins:
        return
    try:
        heads = memory.words(header.address + layout.arena["fastbinsY"], layout.fastbins)
    except MemoryReadError as error:
        findings.append(Finding(f"fastbins: {error.message}", header.address, header.index))
        return
    for index, head in enumerate(heads):
        if not head:
            continue
        size, before = fastbin_size(layout, index), len(findings)
        addresses = _follow(memory, layout, header, index, head, findings)
        if addresses:
            yield Bin(
                "fast",
                index,
                min_bytes=size,
                max_bytes=size,
                addresses=addresses,
                sizes=array("Q", [size]) * len(addresses),
                whole=len(findings) == before,
            )


def _follow(
    memory: Memory, layout: Layout, header: ArenaHeader, index: int, head: int, findings: list[Finding]
) -> array[int]:
    addresses = array("Q")
    word, mask, to_user, size = layout.word, layout.mask, layout.header, fastbin_size(layout, index)
    safe = layout.behaviour.safe_linking
    limit = max(header.system_mem, header.max_system_mem) // layout.min_size + 1
    chunk = head

    def say(rule: str, what: str, expected: str = "") -> None:
        holder = addresses[-1] if addresses else header.address
        findings.append(
            Finding(f"fastbin {index}: {what}", chunk, arena=header.index, rule=rule, expected=expected, holder=holder)
        )

    # Brent's cycle detection: a mark that moves on at every power of two, met again only in a cycle
    mark, next_mark = 0, 1
    while chunk:
        if (chunk + to_user) & mask:
            say("fast-link", "a link is not a chunk's address")
            break
        try:
            raw, stored = memory.words(chunk + word, 2)
        except MemoryReadError:
            say("fast-link", "a link leads to unreadable memory")
            break
        if raw & ~SIZE_BITS != size:
            say("fast-size", f"a chunk of size {raw & ~SIZE_BITS:#x}, expected {size:#x}", f"size {size:#x}")
            break
        if chunk == mark or len(addresses) > limit:
            seen: set[int] = set()
            chunk = next((each for each in addresses if each in seen or seen.add(each)), chunk)  # type: ignore[func-returns-value]
            say("double-free", "the list runs in a circle", "each chunk once")
            return array("Q", dict.fromkeys(addresses))
        addresses.append(chunk)
        if len(addresses) == next_mark:
            mark, next_mark = chunk, 2 * next_mark
        chunk = reveal(stored, chunk + to_user) if safe else stored
    return addresses
