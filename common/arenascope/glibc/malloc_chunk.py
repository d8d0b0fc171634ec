"""Parses struct malloc_chunk: the size word and its flags, the link encodings, and singly linked lists."""

from __future__ import annotations

from array import array
from typing import Mapping, NamedTuple, Optional

from ..base.errors import MemoryReadError
from ..base.heap_model import Bin, Finding, Statement
from ..engine import FollowedList, ListStart
from ..sources.memory import Memory
from .process_layout import Layout

PREV_INUSE = 1
IS_MMAPPED = 2
NON_MAIN_ARENA = 4
SIZE_BITS = 7

SAFE_LINK_SHIFT = 12
"""PROTECT_PTR (2.32): a link is stored XORed with its own address shifted by a page, whatever the page size."""


def masked(size_word: int) -> int:
    """Computes chunksize()."""
    return size_word & ~SIZE_BITS


def reveal(stored: int, field_address: int) -> int:
    """Decodes a protected link by REVEAL_PTR; it was read at field_address."""
    return stored ^ (field_address >> SAFE_LINK_SHIFT)


class ChunkSizes(NamedTuple):
    """The chunk sizes that a list may hold."""

    least: int
    most: int


class OneWay(NamedTuple):
    """A singly linked list: a fastbin, or a bin of a thread cache."""

    index: int  # type: ignore[assignment]  # tuple.index is of no use here
    rule: str
    """"fast" or "tcache": its breaches are of the rules RULE-link and RULE-size."""
    to_user: int
    """The distance from a link's target to the block's first byte: 0 if links lead to blocks, a header's size if to
    chunks."""
    least: int
    """The sizes of chunks that belong there."""
    most: int
    limit: int
    """A longer list must be a cycle."""
    holder: int
    """The structure that holds its head."""
    arena: Optional[int]

    def start(self, layout: Layout, head: int) -> ListStart:
        """Returns what the engine must know to follow it."""
        back = layout.header - self.to_user
        return ListStart(0, head - back, 0, self.least, self.most, limit=self.limit, inside=back)

    def follow(
        self,
        memory: Memory,
        layout: Layout,
        head: int,
        findings: list[Finding],
        followed: Optional[FollowedList] = None,
    ) -> Bin:
        """Follows its chunks up to its end, or to the first error, unless it was followed before."""
        if followed is not None:
            return Bin(self.rule, self.index, self.least, self.most, *followed)
        chunks, sizes = array("Q"), array("Q")
        safe, mask, node, to_user = layout.behaviour.safe_linking, layout.mask, memory.node, self.to_user
        back, least, most, limit = layout.header - to_user, self.least, self.most, self.limit
        link, before = head, len(findings)

        def say(rule: str, what: str, names: Mapping[str, str] = {}) -> None:
            holder = chunks[-1] if chunks else self.holder
            said = Statement(what, {"bin": self.index}, {"list": self.rule, **names})
            findings.append(Finding(said, link, arena=self.arena, rule=rule, holder=holder))

        # Brent's cycle detection: a mark that moves on at every power of two, met again only in a cycle
        mark, next_mark = 0, 1
        while link:
            if (link + to_user) & mask:
                say(f"{self.rule}-link", "link-misaligned")
                break
            if link == mark or len(chunks) > limit:
                once = len(dict.fromkeys(chunks))
                # the walk is in a cycle: the last chunk leads to the first one met again
                link = chunks[once] + back if once < len(chunks) else link
                del chunks[once:], sizes[once:]
                say("double-free", "list-circle")
                break
            try:
                raw, stored, _ = node(link - back)
            except MemoryReadError:
                say(f"{self.rule}-link", "link-unreadable")
                break
            size = raw & ~SIZE_BITS
            if not least <= size <= most:
                names = {"size": f"{size:#x}", "expected": f"{least:#x}"}
                say(f"{self.rule}-size", "size-of-another-list", names)
                break
            chunks.append(link - back)
            sizes.append(size)
            if len(chunks) == next_mark:
                mark, next_mark = link, 2 * next_mark
            link = reveal(stored, link + to_user) if safe else stored
        whole = len(findings) == before
        return Bin(self.rule, self.index, least, most, addresses=chunks, sizes=sizes, whole=whole)
