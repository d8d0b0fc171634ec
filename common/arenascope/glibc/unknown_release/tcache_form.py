"""Derives the form of thread caches in a release that the table does not know: a cache's own chunk tells how large it
is, the sizes of its lists' first blocks tell where `entries` begins, and the lengths of the lists tell where the counts
are and what they count."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

from ...base.errors import MemoryReadError
from ...base.heap_model import Finding
from ...sources.memory import Memory
from ..malloc_chunk import masked
from ..process_layout import Layout, TcacheLayout
from ..tcache import chunk_sizes, read_tcache, walk_tcache

MIN_BINS, MAX_BINS = 16, 1024
"""The number of bins of a cache: 64 to 2.41, 76 since."""
SAMPLE = 8
"""This many of the fullest caches show the form; the walk checks all others against it."""
LARGEST_STRUCT = 64 << 10
LARGEST_BLOCK = 4 << 20
"""No cache keeps larger ones."""


class TcacheForm(NamedTuple):
    """A form of thread cache, and the evidence for it."""

    layout: Layout
    """The layout with this form, and the rule that assigns a block to its bin."""
    lists: int
    """The number of lists whose blocks are of their bins' sizes and as many as the counts say."""
    slots: Optional[int]
    """For 2.42 and later: the sum of count and free slots in every bin."""

    @property
    def shown(self) -> bool:
        """Whether it is more than a block of zeros."""
        return bool(self.lists) or self.slots is not None


def solve(memory: Memory, layout: Layout, caches: Sequence[int]) -> Optional[TcacheForm]:
    """Returns the form that fits these caches, with protected links or with plain ones; None if none does."""
    for safe in (True, False):
        form = _solve(memory, layout._replace(behaviour=layout.behaviour._replace(safe_linking=safe)), caches)
        if form is not None and (form.lists or safe):
            return form
    return None


def _solve(memory: Memory, layout: Layout, caches: Sequence[int]) -> Optional[TcacheForm]:
    caches = sorted(caches, key=lambda address: -len(heads(memory, layout, address)))[:SAMPLE]
    sizes = {masked(memory.try_word(address - layout.word) or 0) for address in caches}
    if not caches or any(size > LARGEST_STRUCT for size in sizes):
        return None
    entries = [heads(memory, layout, address) for address in caches]
    fitting: list[TcacheForm] = []
    for form in _forms(layout, max(sizes)):
        if not all(size in chunk_sizes(form, layout) for size in sizes):
            continue
        if any(
            offset < form.size and not 0 <= offset - form.entries < form.bins * layout.word
            for offsets in entries
            for offset in offsets
        ):
            continue
        fitted = _fit(memory, layout, form, caches)
        fitting += [fitted] if fitted is not None else []
    return max(fitting, key=lambda form: (form.slots is not None, form.lists), default=None)


def settle(memory: Memory, layout: Layout, caches: Sequence[int]) -> Layout:
    """Returns the layout with the form of these caches, and with links as they are stored there."""
    if layout.tcache is None or not caches:
        return layout
    form = solve(memory, layout, caches)
    return form.layout if form is not None else layout._replace(tcache_proven=False)


def heads(memory: Memory, layout: Layout, address: int) -> list[int]:
    """Returns the places in the cache where a word leads to a block."""
    size = masked(memory.try_word(address - layout.word) or 0)
    if size > LARGEST_STRUCT:
        return []
    words = memory.try_words(address, max(size - layout.word, 0) // layout.word) or ()
    return [index * layout.word for index, value in enumerate(words) if leads_to_block(memory, layout, value)]


def leads_to_block(memory: Memory, layout: Layout, user: int) -> bool:
    """Tells whether a chunk of a possible size is at this address, by its own header."""
    if user & layout.mask or user < 1 << 16:
        return False
    size = masked(memory.try_word(user - layout.word) or 0)
    return layout.min_size <= size <= LARGEST_BLOCK and not size & layout.mask


def _forms(layout: Layout, chunk: int) -> Iterator[TcacheLayout]:
    """Yields all forms whose chunk can have this size: known ones first, then by counts before or after the entries."""
    if layout.tcache is not None:
        yield layout.tcache
    word = layout.word
    for slots in (True, False):
        for width in (2, 1, 4):
            for bins in range(MAX_BINS, MIN_BINS - 1, -1):
                size = bins * (width + word)
                if not chunk - 4 * layout.align - 2 * word <= size <= chunk:
                    continue
                front = -(-bins * width // word) * word
                yield TcacheLayout(
                    bins, width, counts=0, counts_free_slots=slots, entries=front, size=front + bins * word
                )
                whole = -(-size // word) * word
                yield TcacheLayout(bins, width, counts=bins * word, counts_free_slots=slots, entries=0, size=whole)


def _fit(memory: Memory, layout: Layout, form: TcacheLayout, caches: Sequence[int]) -> Optional[TcacheForm]:
    """Returns the form, if every list holds blocks of its bin's size and counts agree with lengths in every cache."""
    rules = (True, False) if form.bins > 64 else (layout.behaviour.tcache_logarithmic,)
    for logarithmic in rules:
        behaviour = layout.behaviour._replace(tcache_logarithmic=logarithmic)
        with_form = layout._replace(tcache=form, behaviour=behaviour)
        totals: set[int] = set()
        lists = 0
        for address in caches:
            measured = _lengths(memory, with_form, address)
            if measured is None:
                break
            counts, lengths = measured
            lists += sum(length > 0 for length in lengths)
            totals.update(
                count + length if form.counts_free_slots else count - length for count, length in zip(counts, lengths)
            )
        else:
            if form.counts_free_slots and len(totals) == 1 and 0 not in totals:
                return TcacheForm(with_form, lists, totals.pop())
            if not form.counts_free_slots and totals == {0}:
                return TcacheForm(with_form, lists, None)
    return None


def _lengths(memory: Memory, layout: Layout, address: int) -> Optional[tuple[Sequence[int], list[int]]]:
    """Returns (counts, lengths of the lists); None if a list cannot be followed."""
    assert layout.tcache is not None
    try:
        cache = read_tcache(memory, layout.tcache, address)
    except (MemoryReadError, KeyError):
        return None
    if any(entry & layout.mask for entry in cache.entries):
        return None
    doubts: list[Finding] = []
    without_counts = layout._replace(tcache=layout.tcache._replace(counts_free_slots=True))
    walked = walk_tcache(memory, without_counts, address, None, findings=doubts)
    if not walked.whole or doubts:
        return None
    lengths = [0] * layout.tcache.bins
    for each in walked.bins:
        lengths[each.index] = each.chunks
    return cache.counts, lengths
