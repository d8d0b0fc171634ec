"""PostgreSQL's memory contexts: each block by the name of the context that it is of.

A block of an AllocSet begins with its context, the blocks before and after it, and where what is free of it begins and
ends (struct AllocBlockData, since 11 with all five); the first block of a context begins with the context itself. One
that was deleted is kept for the next, without a parent. A block of a Generation context begins with its neighbours, how
large it is, how many pieces it has, and where what is free of it begins and ends (struct GenerationBlock); its context
is in front of its size since 16, and before in the header of each piece.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Optional

from ...base.model import Kind
from .contents import PLAIN
from .module_memory import PAGE_SHIFT, LoadedModules, fits

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
        self._kinds: dict[int, Optional[Kind]] = {}

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        if usable < LEAST:
            return None
        words = struct.unpack("<32Q", head)
        context, before, after, free, end = words[:5]
        if 0 < context & 0xFFFFFFFF < MOST_TAGS:
            return self._kind(user) if user in words[slice(*HEADER_WORDS)] else None
        for form in GENERATION:
            size, first_free, last = words[form.size], words[form.free], words[form.free + 1]
            if fits(size, usable) and user < first_free <= last == user + size:
                linked = self._memory.try_word(before) == self._memory.try_word(context + 8) == user
                return self._kind(words[form.context]) if linked else None
        if not (user < free <= end <= user + usable and fits(end - user, usable)):
            return None
        if before and self._memory.try_word(before + 16) != user:
            return None
        if after and self._memory.try_word(after + 8) != user:
            return None
        return self._kind(context)

    def family(self, most: int) -> dict[int, ContextLinks]:
        """By address all contexts below the first one, at most so many, as MemoryContextStats() goes through them."""
        found: dict[int, ContextLinks] = {}
        waiting = [(0, self._top or 0)]
        while waiting:
            parent, context = waiting.pop()
            while context and context not in found and len(found) < most:
                data = self._memory.try_read(context, 8 * CONTEXT_WORDS) if not context % 8 else None
                if data is None:
                    break
                tag, _, _, above, child, before, after, _, _ = struct.unpack("<9Q", data)
                if not 0 < tag & 0xFFFFFFFF < MOST_TAGS or above != parent:
                    break
                found[context] = ContextLinks(parent, child, before, after)
                waiting.append((context, child))
                context = after
        return found

    def _kind(self, context: int) -> Optional[Kind]:
        if context not in self._kinds:
            self._kinds[context] = self._named(context)
        return self._kinds[context]

    def _named(self, context: int) -> Optional[Kind]:
        data = self._memory.try_read(context, 8 * CONTEXT_WORDS) if not context % 8 else None
        if data is None:
            return None
        tag, _, methods, parent, _, _, _, place, told = struct.unpack("<9Q", data)
        pages = self._ground.pages
        if not 0 < tag & 0xFFFFFFFF < MOST_TAGS or methods >> PAGE_SHIFT not in pages:
            return None
        name = self._ground.string(place, LONGEST_NAME) if place else None
        if name == HASH_TABLE and told:
            name = self._ground.string(told, LONGEST_NAME)
        if not name or name.translate(None, PLAIN):
            return None
        if not parent and context != self._top:
            return FREED
        return Kind(name.decode(), "holder", how=HOW)
