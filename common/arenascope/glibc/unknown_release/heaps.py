"""heap_info by relations: ar_ptr names the arena, size reaches to the end of top, prev leads to the first heap."""

from __future__ import annotations

from collections import Counter
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...sources.memory import Memory
from ..process_layout import Layout, Struct
from ..unknown_release.evidence import PAGE, Raw, Top, majority, not_less, told_apart

WORDS_LIMIT = 64
"""No heap_info is longer (5 words at most so far)."""
HEAPS_LIMIT = 65536


class Heaps(NamedTuple):
    """What the heaps of the threads' arenas show."""

    heap_max: int
    struct: Struct
    sums: Mapping[int, int]
    """By the arenas' place in the ring: what their heaps sum to, which system_mem must be."""


class _Own(NamedTuple):
    """One thread arena: its first heap's words and those of the heap that its top lies in."""

    raw: Raw
    first: tuple[int, tuple[int, ...]]
    newest: tuple[int, tuple[int, ...]]
    end: int


def derive_heaps(memory: Memory, layout: Layout, raws: Sequence[Raw], tops: Mapping[int, Top]) -> Optional[Heaps]:
    """None where no heap_info fits what most arenas show."""
    others = [raw for raw in raws if raw.place]
    if not others:
        return Heaps(layout.heap_max, layout.heap, {})
    sizes = [layout.heap_max, *(1 << bits for bits in range(16, 34 if layout.word == 8 else 29))]
    for heap_max in dict.fromkeys(sizes):
        size, _ = Counter(raw.address & (heap_max - 1) for raw in others).most_common(1)[0]
        if not 4 * layout.word <= size <= WORDS_LIMIT * layout.word:
            continue
        owned = [own for raw in others for own in _own(memory, raw, tops.get(raw.place), heap_max, size=size)]
        form = _struct(memory, owned, heap_max, size) if 2 * len(owned) > len(others) else None
        if form is not None:
            return form
    return None


def _own(memory: Memory, raw: Raw, top: Optional[Top], heap_max: int, size: int) -> Iterator[_Own]:
    """Nothing where this arena's heaps cannot be read like this."""
    first = raw.address & ~(heap_max - 1)
    if top is None or not top.address or raw.address - first != size:
        return
    newest = top.address & ~(heap_max - 1)
    words = _words(memory, first, size), _words(memory, newest, size)
    if words[0] and words[1]:
        yield _Own(raw, (first, words[0]), (newest, words[1]), top.end)


def _words(memory: Memory, heap: int, size: int) -> tuple[int, ...]:
    return memory.try_words(heap, size // memory.pointer_size) or ()


def _struct(memory: Memory, owned: Sequence[_Own], heap_max: int, size: int) -> Optional[Heaps]:
    places = range(size // memory.pointer_size)
    ar_ptr = _best(places, lambda k: [own.first[1][k] == own.newest[1][k] == own.raw.address for own in owned])
    end = _best(places, lambda k: [own.newest[1][k] == own.end - own.newest[0] for own in owned])
    if ar_ptr is None or end is None:
        return None
    rest = [k for k in (ar_ptr + 1, *places) if k in places and k not in (ar_ptr, end)]
    chained = [own for own in owned if own.first[0] != own.newest[0]]
    prev = _best(rest, lambda k: [_chain(memory, own, k, heap_max, size=size) is not None for own in chained or owned])
    if prev is None:
        return None
    chains = {own.raw.place: _chain(memory, own, prev, heap_max, size=size) for own in owned}
    heaps = [heap for chain in chains.values() for heap in chain or ()]
    sizes = {n: words[end] for n, words in enumerate(heaps)}
    rest = [k for k in (end + 1, *places) if k in places and k not in (ar_ptr, end, prev)]
    access = [(k, {n: words[k] for n, words in enumerate(heaps)}) for k in dict.fromkeys(rest)]
    access = [
        (k, values)
        for k, values in access
        if not_less(values, sizes, heap_max) and majority(values[n] >= sizes[n] for n in sizes)
    ]
    mprotect = told_apart(access)
    if mprotect is None:
        return None
    word = memory.pointer_size
    offsets = {"ar_ptr": ar_ptr * word, "prev": prev * word, "size": end * word, "mprotect_size": mprotect * word}
    sums = {
        index: sum(words[end] for words in chain)
        for index, chain in chains.items()
        if chain and all(not words[end] % PAGE and words[end] <= heap_max for words in chain)
    }
    return Heaps(heap_max, Struct(offsets, size), sums)


def _best(places: Sequence[int], votes: Callable[[int], Sequence[bool]]) -> Optional[int]:
    """The place with the most votes, the first of equals; None without a majority."""
    cast = {place: votes(place) for place in places}
    return max((place for place in cast if majority(cast[place])), key=lambda place: sum(cast[place]), default=None)


def _chain(memory: Memory, own: _Own, prev: int, heap_max: int, size: int) -> Optional[list[tuple[int, ...]]]:
    """The heaps from the newest back to the first, if the word at this place links them."""
    chain: list[tuple[int, ...]] = []
    seen: set[int] = set()
    heap, words = own.newest
    while heap not in seen and len(chain) < HEAPS_LIMIT:
        seen.add(heap)
        chain.append(words)
        if heap == own.first[0]:
            return chain if not words[prev] else None
        heap = words[prev]
        words = _words(memory, heap, size) if heap and not heap & (heap_max - 1) else ()
        if not words:
            return None
    return None
