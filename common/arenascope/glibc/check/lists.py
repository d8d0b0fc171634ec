"""Invariants of the singly linked lists: fastbins and thread caches. Their walkers' findings say where each breaks."""

from __future__ import annotations

from collections import Counter
from typing import AbstractSet, Callable, Iterator, Optional, Sequence

from ...errors import MemoryReadError
from ...memory import Memory
from ...model import Arena, Breach, Finding, ThreadCache
from ..layout import Layout

LINKS = ("fast-link", "tcache-link")
SIZES = ("fast-size", "tcache-size")


def list_breach(layout: Layout, finding: Finding, words: str, holds: Callable[[int], bool]) -> Breach:
    """What a walker of fastbins or thread caches found, in `words`; `holds` tells whether an arena has that address."""
    chunk = finding.address or 0
    if finding.arena is None and finding.rule != "tcache-count":
        # thread caches link blocks, not chunks
        chunk -= layout.header
    rule = finding.rule
    if rule in SIZES and not holds(chunk):
        rule = LINKS[SIZES.index(rule)]
    if rule in LINKS:
        return Breach(
            finding.holder or chunk,
            finding.arena,
            rule,
            "a link to the next chunk of the list",
            f"{words} ({chunk:#x})",
        )
    return Breach(chunk, finding.arena, rule, finding.expected, words)


def doubles(arenas: Sequence[Arena], caches: Sequence[ThreadCache], binned: AbstractSet[int]) -> Iterator[Breach]:
    """Chunks that are in two lists at once: freed twice."""
    seen: dict[int, str] = {}
    lists = [
        (f"fastbin {each.index} of arena {arena.header.index}", arena.header.index, each.addresses)
        for arena in arenas
        for each in arena.fastbins
    ]
    lists += [
        (f"the cache of thread {cache.tid}, bin {each.index}", None, each.addresses)  # type: ignore[misc]
        for cache in caches
        for each in cache.bins
    ]
    for name, index, addresses in lists:
        for chunk in addresses:
            other = seen.get(chunk) or ("a bin" if chunk in binned else None)
            if other:
                yield Breach(chunk, index, "double-free", "one list for each chunk", f"{other}, and {name}")
            seen[chunk] = name


def key_breaches(
    memory: Memory, layout: Layout, caches: Sequence[ThreadCache], secret: Optional[int]
) -> Iterator[Breach]:
    """tcache_entry.key: the cache's own address up to 2.33, then one random number for the whole process.

    `secret` is that number, where it is known; else the entries themselves say what it is.
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
    most, times = Counter(key for key, _ in keys.values()).most_common(1)[0] if keys else (0, 0)
    if not secret and (2 * max(own, times) <= len(keys) or (own < times and not most)):
        return
    for chunk, (key, owner) in keys.items():
        expected = secret or (owner if own >= times else most)
        if key != expected:
            yield Breach(chunk, None, "tcache-key", f"key {expected:#x}, as free() left it", f"{key:#x}")
