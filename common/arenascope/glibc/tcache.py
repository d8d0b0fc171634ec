"""Reads struct tcache_perthread_struct: the chunks a thread keeps for itself. They look in use to everything else."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Iterable, Mapping, NamedTuple, Optional, Sequence

from ..base.errors import MemoryReadError
from ..base.heap_model import Finding, Lists, Statement, cannot_read
from ..engine import FollowedList, ListStart
from ..sources.memory import Memory
from .malloc_chunk import ChunkSizes, OneWay, masked
from .process_layout import Layout, TcacheLayout

SMALL_BINS = 64
"""TCACHE_SMALL_BINS; up to 2.41 all of TCACHE_MAX_BINS."""
LIST_LIMIT = 65536
"""counts is a uint16_t, so glibc makes no longer list."""


def tcache_index(layout: Layout, size: int) -> int:
    """Computes csize2tidx()."""
    if not layout.behaviour.tcache_logarithmic:
        return (size - layout.min_size + layout.mask) // layout.align
    index = (size - layout.min_size) // layout.align
    if index < SMALL_BINS:
        return index
    return SMALL_BINS + size.bit_length() - _max_small(layout).bit_length()


def tcache_sizes(layout: Layout, index: int) -> ChunkSizes:
    """Returns the chunk sizes of a bin."""
    if index < SMALL_BINS or not layout.behaviour.tcache_logarithmic:
        size = layout.min_size + index * layout.align
        return ChunkSizes(size, size)
    bits = _max_small(layout).bit_length() + index - SMALL_BINS
    least = max(1 << (bits - 1), _max_small(layout) + layout.align)
    return ChunkSizes(least, (1 << bits) - layout.align)


def _max_small(layout: Layout) -> int:
    return layout.min_size + (SMALL_BINS - 1) * layout.align


def chunk_sizes(form: TcacheLayout, layout: Layout) -> tuple[int, ...]:
    """Returns the possible sizes of a tcache_perthread_struct's chunk (2.43 has a path that pads it twice).

    _int_malloc includes a remainder that would be less than MINSIZE.
    """
    once = (form.size + layout.word + layout.mask) & ~layout.mask
    twice = (once + layout.word + layout.mask) & ~layout.mask
    sizes = (once, twice) if form.counts_free_slots else (once,)
    more = range(0, layout.min_size, layout.align)
    return tuple(dict.fromkeys(size + each for size in sizes for each in more))


class TcacheWords(NamedTuple):
    """The arrays of tcache_perthread_struct, both indexed by bin."""

    counts: Sequence[int]
    """num_slots since 2.42."""
    entries: Sequence[int]


def read_if_sized(memory: Memory, layout: Layout, form: TcacheLayout, address: int) -> Optional[TcacheWords]:
    """Reads the same as read_tcache, if a block of the right size is there."""
    if not has_tcache_size(memory, layout, form, address):
        return None
    try:
        return read_tcache(memory, form, address)
    except MemoryReadError:
        return None


def damaged_bins(layout: Layout, form: TcacheLayout, cache: TcacheWords) -> int:
    """Counts impossible bins: a head that is no block's address, or one beside a count that says otherwise."""
    mask, slots = layout.mask, form.counts_free_slots
    pairs = zip(cache.counts, cache.entries)
    return sum(entry & mask != 0 or (not slots and (count > 0) != (entry != 0)) for count, entry in pairs)


def has_tcache_size(memory: Memory, layout: Layout, form: TcacheLayout, address: int) -> bool:
    """Tells whether a block of the right size is at `address`: true of a damaged or half-changed cache, too."""
    if address & layout.mask or address < layout.header:
        return False
    return masked(memory.try_word(address - layout.word) or 0) in chunk_sizes(form, layout)


def read_tcache(memory: Memory, form: TcacheLayout, address: int) -> TcacheWords:
    data = memory.read(address, form.size)
    code = {1: "B", 2: "H", 4: "I"}[form.count_bytes]
    counts = struct.unpack_from(f"{memory.mark}{form.bins}{code}", data, form.counts)
    return TcacheWords(counts, struct.unpack_from(f"{memory.mark}{form.bins}{memory.code}", data, form.entries))


def cache_starts(memory: Memory, layout: Layout, caches: Iterable[int]) -> dict[int, ListStart]:
    """Returns the non-empty bins of the caches at these addresses, by where their heads lie."""
    starts: dict[int, ListStart] = {}
    form = layout.tcache
    if form is None or not layout.tcache_proven:
        return starts
    for address in caches:
        with suppress(MemoryReadError):
            for index, user in enumerate(read_tcache(memory, form, address).entries):
                if user > layout.header:
                    slot = address + form.entries + index * layout.word
                    starts[slot] = _list_of(layout, address, index).start(layout, user)
    return starts


def _list_of(layout: Layout, cache: int, index: int) -> OneWay:
    """What is known of the list in one bin of the cache at this address."""
    least, most = tcache_sizes(layout, index)
    return OneWay(index, "tcache", 0, least, most=most, limit=LIST_LIMIT, holder=cache, arena=None)


def walk_tcache(
    memory: Memory,
    layout: Layout,
    address: int,
    slots: Optional[int],
    findings: list[Finding],
    followed: Mapping[int, FollowedList] = {},
) -> Lists:
    """Returns the non-empty bins of the cache at `address`; `slots` is mp_.tcache_count if known. `followed` are those
    that were followed before, by where their heads lie."""
    form = layout.tcache
    assert form is not None
    if not layout.tcache_proven:
        findings.append(Finding(Statement("tcache-form"), address, unknown="tcache-form"))
        return Lists(whole=False)
    try:
        cache = read_tcache(memory, form, address)
    except MemoryReadError as error:
        findings.append(Finding(cannot_read("cache-unreadable", error.address, error.size), address))
        return Lists(whole=False)
    bins = []
    whole = True
    for index, (count, entry) in enumerate(zip(cache.counts, cache.entries)):
        expected: Optional[int] = count
        if form.counts_free_slots:
            expected = slots - count if slots is not None else None
        if not entry and not expected:
            continue  # empty, as nearly all are
        slot, links = address + form.entries + index * layout.word, _list_of(layout, address, index)
        walked = links.follow(memory, layout, entry, findings, followed.get(slot))
        chunks = walked.chunks
        if expected is not None and expected != chunks:
            # malloc and free change the list before the count, so one more or less only means "busy"
            walked = walked._replace(whole=walked.whole and abs(expected - chunks) <= 1)
            differs = Statement("tcache-count", {"bin": index, "chunks": chunks, "counted": expected})
            findings.append(Finding(differs, address, rule="tcache-count"))
        whole = whole and walked.whole
        if chunks:
            bins.append(walked)
    return Lists(tuple(bins), whole)
