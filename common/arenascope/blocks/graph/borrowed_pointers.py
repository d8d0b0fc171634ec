"""Which pointers of libraries and the kernel are borrowed: the program gave them, to have them handed back.

Locals of `main` and of the functions that threads start with last as long as the program or the thread. Such a local,
or a variable of the program, owns what a library's variable or the kernel leads to as well, if nearly all that it leads
to follows from there. Compilers keep some locals in registers, which the functions below save on their own frames.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple, Optional, Sequence

from ...sources.elf.unwind import UnwoundFrame
from ...sources.target import RegionIndex, Span
from ..recognise.module_memory import ground_of
from .blocks import DEEP, EDGE_SHIFT, STALE
from .edges import Graph
from .leads import RANKS, SYSTEM, Lead, Leads, MainHolders, MappedFiles, TypedVariables
from .pointers_to import ImageSearch

OUTERMOST = 3
"""Of a thread's functions so many count: `main` is often no more than the call of a function that has its locals."""
ONE_IN_ASKED_FOR = 100
"""What leads to less than 1/100 of all bytes is not asked for."""
MOST, MOST_LOCALS = 8, 64
"""So many variables are asked for, and locals."""
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


def claims_of(search: ImageSearch, graph: Graph, stated: Leads) -> Claims:
    """`stated`: each of the graph's seeds."""
    frames, program = StartFrames(search), ground_of(search.session).modules.program
    path = program.path if program is not None else None
    files, typed = MappedFiles(search), TypedVariables(search)
    locals, variables, others = list[int](), list[int](), list[int]()
    for number, (seed, lead) in enumerate(zip(graph.seeds, stated.leads)):
        owner = stated.owners[lead.owner]
        if owner.stale is not None or lead.rank == RANKS.index("cookie"):
            continue
        if owner.kind == "stack" and seed.address and frames.has(owner.tid, seed.address):
            if owner.is_local or typed.leads_to(seed.edge >> EDGE_SHIFT) is None:
                locals.append(number)
        elif owner.kind == "global":
            (variables if files.path_at(seed.address) == path else others).append(number)
        elif owner.kind == "kernel":
            others.append(number)
    return Claims(locals, variables, others)


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
    below, least = graph.table.below(found.parents, blocks.sizes), blocks.bytes // ONE_IN_ASKED_FOR
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
        size = blocks.bytes_of(graph.table.mark([block], marks, 1))
        for other, theirs in given.items() if size > least else ():
            if marks[other] and other not in follows:
                follows[other] = blocks.bytes_of(graph.table.mark([other], bytearray(len(blocks)), 1))
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
            found.setdefault(edge >> EDGE_SHIFT, []).append(number)
    return found


def in_better_order(graph: Graph, stated: Leads, found: MainHolders, claims: Claims) -> Optional[Leads]:
    """The same with leads of locals that own something in front, and those that were borrowed behind; None: there are
    none, or all are there already."""
    leads, stack = [*stated.leads], RANKS.index("stack")
    taken = borrowed(graph, leads, found, claims)
    if all(leads[each].rank == stack for each in taken.others):
        return None
    for number in taken.owning:
        leads[number] = leads[number]._replace(rank=0)
    for number in taken.others:
        leads[number] = leads[number]._replace(rank=stack)
    return stated._replace(leads=leads)
