"""Settles the release of an image that does not tell its own: the newest row that all evidence agrees with."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ...base.heap_model import Statement
from ...glibc import process_layout, release_table
from ...sources.memory import Memory
from ..fitting_layout import row_name
from ..malloc_chunk import masked, reveal
from ..process_layout import NO_TRAIL, CandidateTrail, Layout, from_table
from ..tcache import LIST_LIMIT, chunk_sizes, damaged_bins, read_if_sized, tcache_sizes


def settle_release(
    memory: Memory,
    machine: str,
    layout: Layout,
    caches: Sequence[tuple[int, int]],
    arenas: Sequence[int],
    trail: CandidateTrail = NO_TRAIL,
) -> Layout:
    """Settles an image without a release: the newest row that all evidence agrees with.

    `caches` are the (address, chunk size) of thread caches that were found, `arenas` the addresses of all arenas.
    """
    linked = links_are_safe(memory, [address for address, _ in caches], arenas, layout)
    keyed = True if linked else blocks_bear_keys(memory, [address for address, _ in caches], layout)
    fitting = []
    for release in release_table.shapes():
        row = from_table(release, layout.word, machine, layout.align)
        against: Optional[Statement] = None
        if row.arena != layout.arena:
            against = Statement("another-malloc-state")
        # without a thread's arena nothing shows how large heap_info is
        elif len(arenas) > 1 and row.heap.size != layout.heap.size:
            against = Statement("heap-info-of-another-size", {"bytes": row.heap.size})
        elif caches and not (row.tcache and all(size in chunk_sizes(row.tcache, row) for _, size in caches)):
            against = Statement("caches-of-other-sizes")
        elif linked is not None and row.behaviour.safe_linking != linked:
            against = Statement("links-protected" if linked else "links-not-protected")
        elif keyed is not None and row.behaviour.tcache_key != keyed:
            against = Statement("cached-with-key" if keyed else "cached-without-key")
        else:
            fitting.append(row)
        trail.add("layout", row_name(row), (), [against] if against else ())
    fitting = _with_blocks_in_bins(memory, fitting, [address for address, _ in caches])
    # where mp_ was not found, its form is no more than a guess
    best = next((row for row in fitting if row.params == layout.params), fitting[0] if fitting else layout)
    if best in fitting:
        own = (Statement("mp-as-in-release"),) if best.params == layout.params else ()
        trail.add("layout", row_name(best), (Statement("all-agrees"), *own))
    trail.choose("layout", row_name(best), Statement("another-is-newer"))
    return best._replace(params=layout.params, heap_max=layout.heap_max, checks=layout.checks)


def _with_blocks_in_bins(memory: Memory, rows: list[Layout], caches: Sequence[int]) -> list[Layout]:
    """Chooses among rows whose caches have one size and different forms: those by whose form most lists begin as they
    must."""
    if len({row.tcache for row in rows}) < 2:
        return rows
    shown = [sum(_blocks_in_bins(memory, row, address) for address in caches) for row in rows]
    return [row for row, lists in zip(rows, shown) if lists == max(shown)]


def _blocks_in_bins(memory: Memory, row: Layout, address: int) -> int:
    """Returns how many bins begin with a block of their own size, less those that begin with anything else."""
    cache = read_if_sized(memory, row, row.tcache, address) if row.tcache is not None else None
    shown = 0
    for index, entry in enumerate(cache.entries if cache is not None else ()):
        if entry:
            least, most = tcache_sizes(row, index)
            shown += 1 if least <= masked(memory.try_word(entry - row.word) or 0) <= most else -1
    return shown


def links_are_safe(memory: Memory, caches: Sequence[int], arenas: Sequence[int], layout: Layout) -> Optional[bool]:
    """Tells whether lists end in a protected 0 (safe-linking) or in a plain one; None if no list tells."""
    for entry, to_user in _list_heads(memory, caches, arenas, layout):
        ended = _how_it_ends(memory, layout, entry, to_user)
        if ended is not None:
            return ended
    return None


def _filled_bins(memory: Memory, caches: Sequence[int], layout: Layout) -> Iterator[tuple[int, Sequence[int]]]:
    """Yields (cache, first blocks of its bins), in every form in which nothing there is impossible."""
    for address in caches:
        for form in process_layout.tcache_forms(layout):
            cache = read_if_sized(memory, layout, form, address)
            if cache is not None and not damaged_bins(layout, form, cache):
                yield address, [entry for entry in cache.entries if entry]


def _list_heads(
    memory: Memory, caches: Sequence[int], arenas: Sequence[int], layout: Layout
) -> Iterator[tuple[int, int]]:
    """Yields (first block, what its links lack to be blocks) of every thread-cache bin, then of every fastbin."""
    for _, entries in _filled_bins(memory, caches, layout):
        yield from ((entry, 0) for entry in entries)
    for arena in arenas if layout.fastbins else ():
        heads = memory.words(arena + layout.arena["fastbinsY"], layout.fastbins)
        yield from ((chunk + layout.header, layout.header) for chunk in heads if chunk)


def blocks_bear_keys(memory: Memory, caches: Sequence[int], layout: Layout) -> Optional[bool]:
    """Tells whether blocks in these caches have the cache's address after their link; None if the caches are empty.

    That is so up to 2.33. Since then the key is random, in releases that their links already tell apart.
    """
    told: Optional[bool] = None
    for address, entries in _filled_bins(memory, caches, layout):
        if any(memory.try_word(entry + layout.word) == address for entry in entries):
            return True
        told = False if entries else told
    return told


def _how_it_ends(memory: Memory, layout: Layout, entry: int, to_user: int) -> Optional[bool]:
    """Follows one list by either rule: the wrong one soon leads to something that is no block of the same size."""
    size = memory.try_word(entry - layout.word)
    for safe in (True, False):
        position = entry
        for _ in range(LIST_LIMIT):
            stored = memory.try_word(position)
            if stored is None or memory.try_word(position - layout.word) is None:
                break
            following = reveal(stored, position) if safe else stored
            if not following:
                return safe
            position = following + to_user
            if position & layout.mask or masked(memory.try_word(position - layout.word) or 0) != masked(size or 1):
                break
    return None
