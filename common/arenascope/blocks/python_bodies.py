"""What objects of CPython, Ruby and Perl keep apart: named by these, which lie beside malloc, or in its blocks."""

from __future__ import annotations

from typing import Callable, Iterable, Iterator, NamedTuple, Sequence

from ..base.count_work import Meter
from ..base.model import Kind
from ..glibc.mmapped import without
from ..session.session import Session
from ..sources.target import Region, Span
from .block_index import Index
from .pointer_finder import FastFinder, finder_of, library
from .recognise.python import DEQUE_BLOCK, DEQUE_NEXT, DICT_KEYS, TO_KEYS, Python
from .recognise.well_known_programs import RuntimeKeeper

PIECE = 1 << 20
"""Looked through at once: no pool of pymalloc's lies across its end."""
MOST_BYTES = 16 << 30
HOLDER = 4096
"""So much of a block of objects that keep others."""
OBJECT = 512
"""So much of an object that is a block: what its type has a place for lies in front."""


Hits = Callable[[Sequence[int]], Iterable[int]]


class ObjectWord(NamedTuple):
    """A word of an object."""

    address: int
    words: Sequence[int]
    """Of all that was read with it."""
    block: int
    """Where its block begins among these."""
    at: int
    """And where it is."""


def name_bodies(
    session: Session, index: Index, keeper: RuntimeKeeper, kinds: Sequence[Kind]
) -> Iterator[tuple[int, Kind]]:
    """What to call blocks of which nothing certain is known, by their addresses."""
    weak = {number for number in range(len(kinds)) if index.is_weak(number)}
    starts = [user for user, _, _ in index.of_kinds(weak)] + list(index.mapped_of_kinds(weak))
    known = sorted(user + front for user in starts for front in (0, *index.fronts))
    if not known:
        return
    parts = list(_arenas(session)) if keeper.apart else []
    size = sum(end - start for start, end in parts)
    holders = {number for number, kind in enumerate(kinds) if kind.name in keeper.holders}
    blocks = [(user, min(usable, HOLDER)) for user, usable, _ in index.of_kinds(holders)]
    farthest = max(keeper.past)
    ends = [each + farthest for each in known] if farthest else known
    numpy = library(size + sum(bytes for _, bytes in blocks))
    finder = finder_of(numpy, known, ends, [Span(known[0], ends[-1])], word=session.layout.word)
    with session.meter("looking into objects", size) as meter:
        for _, words in _pieces(session, parts):
            for at, _ in finder.hits(words):
                usable = index.usable(words[at])
                told = keeper.kept_by(words, at, usable) if usable is not None else None
                if told is not None:
                    yield words[at], told
                    if told.name == DEQUE_BLOCK:
                        yield from _next_ones(session, index, words[at], told)
            meter.advance(len(words) * session.layout.word)
    for user, looked_at in blocks:
        data = index.read(user, looked_at // session.layout.word * session.layout.word)
        words = session.memory.as_words(data or b"")
        for at, _ in finder.hits(words):
            for start in (words[at] - past for past in keeper.past):
                room = index.usable(start)
                told = keeper.kept_by(words, at, room) if room is not None else None
                if told is not None and told.certain:
                    yield start, told
                    if told.name == DEQUE_BLOCK:
                        yield from _next_ones(session, index, start, told)


def name_keys_of_objects(
    session: Session, index: Index, python: Python, kinds: Sequence[Kind]
) -> Iterator[tuple[int, Kind]]:
    """Tables of keys of what objects have as their __dict__, by the type of these. Other dicts say nothing."""
    tables = {number for number, kind in enumerate(kinds) if kind == DICT_KEYS}
    known = sorted([*(user for user, _, _ in index.of_kinds(tables)), *index.mapped_of_kinds(tables)])
    if not known:
        return
    own = {number for number, kind in enumerate(kinds) if kind.kind == "python"} - tables
    arenas = list(_arenas(session))
    size = sum(end - start for start, end in arenas)
    numpy, word = library(size), session.layout.word

    def pointers(into: Sequence[int], hits: Hits, meter: Meter) -> Iterator[ObjectWord]:
        """Those in objects, which lie in arenas or are blocks. `hits` finds them in an arena."""
        for start, words in _pieces(session, arenas):
            for at in hits(words):
                block = python.block_of(words, start, at)
                if block is not None:
                    yield ObjectWord(start + at * word, words, block, at)
            meter.advance(len(words) * word)
        leads = set(into)
        for user, usable, _ in index.of_kinds(own):
            words = index.words(user, min(usable, OBJECT) // word) or ()
            yield from (ObjectWord(user + at * word, words, 0, at) for at, value in enumerate(words) if value in leads)

    with session.meter("looking for Python's dicts", 2 * size) as meter:
        finder = finder_of(numpy, known, known, [Span(known[0], known[-1])], word=word)
        dicts = {
            each.address - TO_KEYS * word: each.words[each.at]
            for each in pointers(known, lambda words: (at for at, _ in finder.hits(words)), meter)
            if python.is_dict_of(each.words, each.block, each.at)
        }

        def hits_of_dicts(words: Sequence[int]) -> Iterable[int]:
            # among dicts lies all that pointers lead to: a search by their bytes would find every pointer
            return (at for at, value in enumerate(words) if value in dicts)

        starts = sorted(dicts)
        fast = FastFinder(numpy, starts, starts, word) if numpy is not None and starts else None
        hits = hits_of_dicts if fast is None else lambda words: (at for at, _ in fast.hits(words))
        told: dict[int, Kind] = {}
        doubtful = set()
        for each in pointers(starts, hits, meter):
            kind = python.keys_of(each.words, each.block, each.at)
            if kind is not None and told.setdefault(each.words[each.at], kind) != kind:
                doubtful.add(each.words[each.at])
    for start, kind in told.items():
        if start not in doubtful:
            yield dicts[start], kind


def _next_ones(session: Session, index: Index, user: int, kind: Kind) -> Iterator[tuple[int, Kind]]:
    """The other blocks of a deque; each is named before the next is looked for."""
    while True:
        following = index.words(user + DEQUE_NEXT * session.layout.word, 1)
        if following is None or index.usable(following[0]) is None:
            return
        (user,) = following
        yield user, kind


def _arenas(session: Session) -> Iterator[tuple[int, int]]:
    """Where these lie: anonymous memory of the program's own that is not malloc's."""
    taken = sorted(
        [
            *((heap.address, heap.end) for each in session.heaps.values() for heap in each),
            *((block.base, block.base + block.bytes) for block in session.mmapped),
        ]
    )
    pointers = [thread.stack_pointer for thread in session.target_threads if thread.stack_pointer]
    left = MOST_BYTES
    for region in session.regions:
        if _may_be(region) and not any(region.contains(pointer) for pointer in pointers):
            for start, end in without(region, taken):
                if 0 < end - start <= left:
                    left -= end - start
                    yield start, end


def _may_be(region: Region) -> bool:
    return not region.path and region.writable and region.readable and region.present and not region.shared


def _pieces(session: Session, parts: Sequence[tuple[int, int]]) -> Iterator[tuple[int, Sequence[int]]]:
    """Each with its address."""
    memory = session.memory
    for start, end in parts:
        at = start
        while at < end:
            # up to the next place where an arena can begin
            size = min(end, at // PIECE * PIECE + PIECE) - at
            data = memory.try_read(at, size)
            if data is not None:
                yield at, memory.as_words(data)
            at += size
