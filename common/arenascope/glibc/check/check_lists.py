"""Checks the singly linked lists: fastbins and thread caches. Their walkers' findings tell where each breaks."""

from __future__ import annotations

from collections import Counter
from typing import AbstractSet, Iterator, NamedTuple, Optional, Sequence

from ...base.errors import MemoryReadError
from ...base.model import Arena, Breach, Finding, Statement, ThreadCache
from ...sources.memory import Memory
from ..arena import ArenaIndexes
from ..process_layout import Layout

LINKS = ("fast-link", "tcache-link")
SIZES = ("fast-size", "tcache-size")


def list_breach(layout: Layout, finding: Finding, owners: ArenaIndexes) -> Breach:
    """Converts a finding of a walker of fastbins or thread caches."""
    chunk = finding.address or 0
    if finding.arena is None and finding.rule != "tcache-count":
        # thread caches link blocks, not chunks
        chunk -= layout.header
    rule = finding.rule
    if rule in SIZES and owners.around(chunk) is None:
        rule = LINKS[SIZES.index(rule)]
    if rule in LINKS:
        names = {**finding.what.names, "leads_to": f"{chunk:#x}"}
        return Breach(finding.holder or chunk, finding.arena, rule, finding.what._replace(names=names))
    return Breach(chunk, finding.arena, rule, finding.what)


class _Listed(NamedTuple):
    """A list that names a chunk: an arena's fastbins, or a thread's cache."""

    kind: str
    bin: int
    arena: Optional[int]
    tid: Optional[int]
    addresses: Sequence[int]

    def figures(self, prefix: str = "") -> dict[str, int]:
        """The list's place, without what does not apply."""
        places = {"bin": self.bin, "arena": self.arena, "tid": self.tid}
        return {prefix + name: value for name, value in places.items() if value is not None}


def doubles(arenas: Sequence[Arena], caches: Sequence[ThreadCache], binned: AbstractSet[int]) -> Iterator[Breach]:
    """Finds chunks that are in two lists at once: freed twice."""
    seen: dict[int, _Listed] = {}
    lists = [
        _Listed("fast", each.index, arena.header.index, None, addresses=each.addresses)
        for arena in arenas
        for each in arena.fastbins
    ]
    lists += [
        _Listed("tcache", each.index, None, cache.tid, addresses=each.addresses)
        for cache in caches
        for each in cache.bins
    ]
    for listed in lists:
        for chunk in listed.addresses:
            other = seen.get(chunk)
            if other or chunk in binned:
                figures = {**listed.figures(), **(other.figures("other_") if other else {})}
                names = {"list": listed.kind, "other_list": other.kind if other else "bin"}
                yield Breach(chunk, listed.arena, "double-free", Statement("in-two-lists", figures, names))
            seen[chunk] = listed


def key_breaches(
    memory: Memory, layout: Layout, caches: Sequence[ThreadCache], secret: Optional[int]
) -> Iterator[Breach]:
    """Checks tcache_entry.key: the cache's own address up to 2.33, then one random number for the whole process.

    `secret` is that number, if known; otherwise the entries themselves tell it.
    """
    if not layout.behaviour.tcache_key:
        return
    keys: dict[int, tuple[int, int]] = {}
    for cache in caches:
        for each in cache.bins:
            for chunk in each.addresses:
                try:
                    keys[chunk] = (memory.word(chunk + layout.header + layout.word), cache.address or 0)
                except MemoryReadError:
                    continue
    own = sum(key == cache for key, cache in keys.values())
    usual, times = Counter(key for key, _ in keys.values()).most_common(1)[0] if keys else (0, 0)
    if not secret and (2 * max(own, times) <= len(keys) or (own < times and not usual)):
        return
    for chunk, (key, owner) in keys.items():
        expected = secret or (owner if own >= times else usual)
        if key != expected:
            names = {"expected": f"{expected:#x}", "key": f"{key:#x}"}
            yield Breach(chunk, None, "tcache-key", Statement("tcache-key", names=names))
