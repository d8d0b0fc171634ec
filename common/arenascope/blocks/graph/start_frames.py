"""Locals of `main` and of the functions that threads start with: they last as long as the program or the thread.

Compilers keep some of them in registers, which the functions below save on their own frames. Such a local owns what a
library's variable or the kernel leads to as well: these were given a pointer by the program, to hand it back.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Optional, Sequence

from ...sources.elf.unwind import UnwoundFrame
from ...sources.target import RegionIndex, Span
from .blocks import DEEP, FLAGS, STALE

if TYPE_CHECKING:
    from .edges import Graph
    from .leads import Lead, MainHolders
    from .refs import ImageSearch

SYSTEM = re.compile(r"(ld|ld-linux.*|libc|libstdc\+\+|libgcc_s|libpthread|libdl|libm|librt)[-.].*")
"""Libraries of which the variables keep what the program's own do: lists of streams, of what is loaded."""
OUTERMOST = 3
"""Of a thread's functions so many count: `main` is often no more than the call of a function that has its locals."""
LEAST = 100
"""What leads to less than such a part of all bytes is not asked for."""
MOST, MOST_LOCALS, ROUNDS = 8, 64, 4
"""So many variables are asked for, and locals, so many times."""
NEARLY_ALL = 0.9


class _Frames(NamedTuple):
    span: Span
    saved: frozenset[int]
    """Where the functions below keep registers of theirs."""


class StartFrames:
    """Those of one image."""

    def __init__(self, search: ImageSearch) -> None:
        self._names = search.names
        self._file = RegionIndex([each for each in search.session.regions if each.is_file]).find
        self._known: dict[int, Optional[_Frames]] = {}

    def has(self, tid: Optional[int], address: int) -> bool:
        """Whether a local of one of them lies at this place of the thread's stack."""
        if tid is None:
            return False
        if tid not in self._known:
            self._known[tid] = self._found(self._names.frames_of(tid))
        found = self._known[tid]
        return found is not None and (found.span.start <= address < found.span.end or address in found.saved)

    def _found(self, frames: Sequence[UnwoundFrame]) -> Optional[_Frames]:
        """`frames`: the innermost first."""
        paths = [self._path(each.pc) for each in frames]
        systems = [SYSTEM.fullmatch(each.rpartition("/")[2]) is not None for each in paths]
        last = len(frames) - 1
        if last > 0 and systems[last - 1] and not systems[last]:
            last -= 1  # _start is the program's
        outer = last
        while last >= 0 and systems[last]:
            last -= 1
        if last < 0 or last == outer or not paths[last]:
            return None
        first = last
        while first > 0 and last - first + 1 < OUTERMOST and paths[first - 1] == paths[last]:
            first -= 1
        span = Span(frames[first].stack_pointer, frames[last + 1].stack_pointer)
        saved = frozenset(address for each in frames[first : last + 1] for address in each.saved)
        return _Frames(span, saved)

    def _path(self, pc: int) -> str:
        region = self._file(pc)
        return region.path if region is not None else ""


class Claims(NamedTuple):
    """The numbers of leads."""

    locals: Sequence[int]
    variables: Sequence[int]
    """The program's."""
    others: Sequence[int]
    """Of other files' variables, and of what the kernel has."""


class Borrowed(NamedTuple):
    """The numbers of leads."""

    owning: Sequence[int]
    """Of locals, and of the program's variables."""
    others: Sequence[int]
    """Of those who have their pointers from them."""


def borrowed(graph: Graph, leads: Sequence[Lead], found: MainHolders, claims: Claims) -> Borrowed:
    """Others lead to what a local or a variable of the program leads to as well, and nearly all that follows from that
    one follows from there."""
    blocks = graph.blocks
    given = _by_block(leads, claims.others)
    if not given or not (claims.locals or claims.variables):
        return Borrowed((), ())
    below, least = graph.table.below(found.parents, blocks.sizes), blocks.bytes // LEAST
    given = {block: each for block, each in given.items() if below[block] > least}
    if not given:
        return Borrowed((), ())
    variables = _by_block(leads, claims.variables)
    likely = list(islice(_by_block(leads, claims.locals).items(), MOST_LOCALS))
    likely += sorted(variables.items(), key=lambda each: -below[each[0]])[:MOST]
    follows: dict[int, int] = {}
    owning, others = list[int](), dict[int, None]()
    for block, numbers in likely:
        marks = bytearray(len(blocks))
        size = blocks.bytes_of(graph.mark([block], marks, 1))
        for other, theirs in given.items() if size > least else ():
            if marks[other] and other not in follows:
                follows[other] = blocks.bytes_of(graph.mark([other], bytearray(len(blocks)), 1))
            if marks[other] and follows[other] >= NEARLY_ALL * size:
                owning += numbers
                others.update(dict.fromkeys(theirs))
    return Borrowed(owning, [*others])


def _by_block(leads: Sequence[Lead], numbers: Sequence[int]) -> dict[int, list[int]]:
    """Those that lead to a block's start, or near to it, by that block."""
    found: dict[int, list[int]] = {}
    for number in numbers:
        edge = leads[number].edge
        if not edge & (DEEP | STALE):
            found.setdefault(edge >> FLAGS, []).append(number)
    return found
