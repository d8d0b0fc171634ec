"""PostgreSQL's memory contexts: each block by the name of the context that it is of.

A block of an AllocSet begins with its context, the blocks before and after it, and where what is free of it begins and
ends (struct AllocBlockData, since 11 with all five); the first block of a context begins with the context itself. One
that was deleted is kept for the next, without a parent. A block of a Generation context begins with its neighbours, how
large it is, how many pieces it has, and where what is free of it begins and ends (struct GenerationBlock); its context
is in front of its size since 16, and before in the header of each piece.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from ...base.heap_model import Kind
from .module_memory import PAGE_SHIFT, LoadedModules
from .selection import LOW, PLAIN, USABLE, USER, Condition, Found, Selection, Value, any_of

HOW = "its memory context's name"
FREED = Kind("freed memory context", "holder", how="a context's words, without a parent")
MOST_TAGS = 2000
LEAST, LONGEST_NAME = 256, 64
HEADER_WORDS = (16, 32)
"""Between these words of a context its first block begins, which has its address."""
CONTEXT_WORDS = 9
"""Its tag, what it has in all, its methods, parent, first child, siblings before and after, name, what it is for."""


class Generation(NamedTuple):
    """The words of a block of such a context that come after its neighbours."""

    context: int
    size: int
    free: int
    """Where that begins; where it ends comes next."""


GENERATION = (Generation(8, 2, 4), Generation(2, 3, 5))
"""Before 16, where a piece begins with its size and its block, and since."""
LINKS = {"parent": 24, "before": 40, "after": 48}
"""Where a context has what Member calls so."""
HASH_TABLE = b"dynahash"
"""Contexts of this name are called by what they are for, as in PostgreSQL's own list."""


class ContextLinks(NamedTuple):
    """Of a tree of contexts, with those around it; 0: there is none."""

    parent: int
    child: int
    """The first."""
    before: int
    after: int


class Postgres:
    """The contexts of one process."""

    def __init__(self, ground: LoadedModules) -> None:
        self._ground = ground
        self._memory = ground.memory
        program = ground.modules.program
        names = ("AllocSetContextCreateInternal", "TopMemoryContext")
        found = ground.modules.exported(program, names) if program is not None else {}
        self.runs = len(found) == len(names)
        self._top = self._memory.try_word(found["TopMemoryContext"]) if self.runs else None

    def kinds(self, blocks: Selection) -> Found:
        context, before, after, free, end = map(USER.word, range(5))
        is_large, is_context = USABLE >= LEAST, (context & LOW).between(1, MOST_TAGS)
        has_itself = any_of(USER.word(place) == USER for place in range(*HEADER_WORDS))
        yield from self._named(blocks, USER, is_large & is_context & has_itself)
        is_other = is_large & ~is_context
        for form in GENERATION:
            size, first_free, last = USER.word(form.size), USER.word(form.free), USER.word(form.free + 1)
            is_form = size.fits() & (first_free > USER) & (first_free <= last) & (last == USER + size)
            linked = (before.word() == USER) & (context.word(1) == USER)
            yield from self._named(blocks, USER.word(form.context), is_other & is_form & linked)
            is_other = is_other & ~is_form
        is_set = (free > USER) & (free <= end) & (end <= USER + USABLE) & (end - USER).fits()
        linked = ((before == 0) | (before.word(2) == USER)) & ((after == 0) | (after.word(1) == USER))
        yield from self._named(blocks, context, is_other & is_set & linked)

    def _named(self, blocks: Selection, context: Value, condition: Condition) -> Found:
        for address, some in blocks.grouped(context, blocks.where(condition)):
            kind = self._kind(address)
            if kind is not None:
                yield some, kind

    def family(self, most: int) -> dict[int, ContextLinks]:
        """By address all contexts below the first one, at most so many, as MemoryContextStats() goes through them."""
        found: dict[int, ContextLinks] = {}
        waiting = [(0, self._top or 0)]
        while waiting:
            parent, context = waiting.pop()
            while context and context not in found and len(found) < most:
                words = self._context(context)
                if words is None or words[3] != parent:
                    break
                child, before, after = words[4:7]
                found[context] = ContextLinks(parent, child, before, after)
                waiting.append((context, child))
                context = after
        return found

    def _context(self, address: int) -> Optional[tuple[int, ...]]:
        """The words of the context there; None: there is none."""
        words = self._memory.try_words(address, CONTEXT_WORDS) if not address % 8 else None
        return words if words is not None and 0 < words[0] & 0xFFFFFFFF < MOST_TAGS else None

    def _kind(self, context: int) -> Optional[Kind]:
        words = self._context(context)
        if words is None:
            return None
        _, _, methods, parent, _, _, _, place, told = words
        if methods >> PAGE_SHIFT not in self._ground.pages:
            return None
        name = self._ground.string(place, LONGEST_NAME) if place else None
        if name == HASH_TABLE and told:
            name = self._ground.string(told, LONGEST_NAME)
        if not name or name.translate(None, PLAIN):
            return None
        if not parent and context != self._top:
            return FREED
        return Kind(name.decode(), "holder", how=HOW)
