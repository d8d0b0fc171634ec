"""Checks every invariant of one process image against memory, for `heap check`."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from functools import partial
from itertools import islice
from typing import Callable, Iterable, Iterator, NamedTuple, Optional, Sequence, Union

from ..base.model import Arena, ArenaHeader, Breach, Finding, Piece, Statement
from ..base.worker_pool import Meter, Unseen, metered, share_out
from ..glibc.arena import has_heap
from ..glibc.check import (
    BinCheck,
    CheckedSums,
    ChunkCheck,
    Rescued,
    bins_cut,
    doubles,
    header_breaches,
    key_breaches,
    list_breach,
    mmapped_breach,
)
from ..glibc.find.inside_malloc import MallocCode, ThreadStacks
from ..glibc.mmapped import unclaimed
from ..sources.target import Span
from .session import HeapPart, Session, swept

PASSING = frozenset(
    [
        "prev-inuse",
        "prev-size",
        "size",
        "size-min",
        "size-bounds",
        "size-alignment",
        "bin-link",
        "bin-size",
        "bin-order",
        "bin-skip-list",
        "binmap",
        "adjacent-free",
        "overlap",
        "beside-top",
        "top",
        "top-end",
        "system-mem",
        "sbrk-base",
        "heap-size",
    ]
)
"""The rules that malloc and free break for a moment: a chunk taken out of its bin and still marked free, a half-made
link, a remainder in a list while the chunk it was cut from still has its old size (_int_malloc), a size of one or a top
not yet written, system_mem or heap_info.size not yet up to date."""
FLAG = "non-main-arena"
"""The flag set a moment before or after a chunk is taken out of its bin (_int_malloc): in no chunk of main_arena."""
BUSY_LIMIT = 6
"""One interrupted call leaves at most this many breaches in an arena: more are damage."""
OUTSIDE = frozenset(["tcache-count", "mmapped-count"])
"""The rules about structures that change without an arena's lock."""


class Busy(NamedTuple):
    """A malloc at work when the process was stopped: a locked arena, a thread inside, or both."""

    arena: Optional[int]
    tid: Optional[int]
    locked: bool


def with_transients(breaches: Sequence[Breach], busy: Sequence[Busy], one_thread: bool) -> list[Breach]:
    """Marks the breaches that a call in progress explains. A program with one thread takes no lock, whatever arena it
    is in."""
    inside = any(each.tid is not None for each in busy)
    everywhere = one_thread and inside
    locked = {each.arena for each in busy if each.locked}
    per_arena = Counter(breach.arena for breach in breaches)

    def passes(breach: Breach) -> bool:
        if breach.rule in OUTSIDE:
            return inside
        at_work = everywhere or breach.arena in locked
        passing = breach.rule in PASSING or (breach.rule == FLAG and breach.arena != 0)
        return at_work and passing and per_arena[breach.arena] <= BUSY_LIMIT

    return [breach._replace(transient=True) if passes(breach) else breach for breach in breaches]


IN_DETAIL = ("bin-link", "size")
"""Rules whose findings are examined again, more closely."""
LISTS = ("fast-link", "fast-size", "tcache-link", "tcache-size", "tcache-count", "double-free")


class Audit:
    """The results of a check: counts, breaches, and what could not be checked."""

    def __init__(self) -> None:
        self.breaches: list[Breach] = []
        self.busy: list[Busy] = []
        self.unread: list[Statement] = []
        """What could not be checked."""
        self.arenas = 0
        self.heaps = 0
        self.chunks = 0
        self.bin_entries = 0
        self.tcache_entries = 0


def audit(session: Session, wanted: Optional[int] = None) -> Audit:
    """Checks the whole process, or arena `wanted` alone."""
    outcome = Audit()
    if not session.started:
        outcome.arenas = len(session.headers)
        return outcome
    try:
        _arenas(session, wanted, outcome)
    except KeyboardInterrupt:
        session.stopped = True
        outcome.unread.append(Statement("stopped", {"arenas": outcome.arenas, "chunks": outcome.chunks}))
    _findings(session, outcome)
    if wanted is None:
        outcome.breaches += mmapped_breach(
            session.layout, session.params, session.mmapped, unclaimed=partial(_unclaimed, session)
        )
    # two walkers can meet one wrong word
    once = {(each.address, each.arena, each.rule, each.culprit): each for each in reversed(outcome.breaches)}
    outcome.breaches = [each for each in once.values() if wanted is None or each.arena in (None, wanted)]
    outcome.busy = find_busy(session)
    outcome.breaches = with_transients(outcome.breaches, outcome.busy, len(session.thread_words) == 1)
    outcome.breaches.sort(key=lambda each: (each.transient, each.address, each.rule))
    return outcome


def _arenas(session: Session, wanted: Optional[int], outcome: Audit) -> None:
    twice: set[int] = set()
    arenas = session.arenas
    session.heed_ctrl_c()
    asked = [arena.header for arena in arenas if wanted in (None, arena.header.index)]
    size = sum(header.system_mem for header in asked)
    processes = session.processes_for(size)
    with session.meter("checking", size) as meter:
        if processes > 1:
            _by_several(session, arenas, asked, twice, outcome=outcome, processes=processes, meter=meter)
        else:
            for arena in arenas:
                check = _bin_check(session, arena)
                twice.update(chunk for chunk in check.binned if chunk in session.listed)
                if arena.header in asked:
                    spans = _spans(session, arena.header)
                    chunks = _chunk_check(session, arena.header, spans, check.binned, broken=check.broken)
                    pieces = metered(session.sweep(arena.header, feet=True), meter)
                    _arena(session, arena, check, outcome, chunks=chunks, run=partial(chunks.run, pieces))
    _lists(session, twice, outcome)


def _bin_check(session: Session, arena: Arena) -> BinCheck:
    check = BinCheck(session.memory, session.layout, arena.header, session.reaches[arena.header.index])
    if arena.header.initialised:
        check.run(arena.bins)
    return check


class _Lists(NamedTuple):
    """The results of a BinCheck, to be sent."""

    breaches: Sequence[Breach]
    broken: Sequence[Rescued]
    binned: array[int]
    """In address order."""
    twice: Sequence[int]

    @property
    def entries(self) -> int:
        return len(self.binned)


def _by_several(
    session: Session,
    arenas: Sequence[Arena],
    asked: Sequence[ArenaHeader],
    twice: set[int],
    outcome: Audit,
    processes: int,
    meter: Meter,
) -> None:
    """Checks with several processes: first the lists of all arenas, then the chunks of the arenas asked for."""
    listed = session.listed

    def check_lists(arena: Arena, _: Meter) -> _Lists:
        check = _bin_check(session, arena)
        binned = array("Q", sorted(check.binned))
        return _Lists(check.breaches, check.broken, binned, [chunk for chunk in binned if chunk in listed])

    sizes = [arena.header.system_mem for arena in arenas]
    with share_out(arenas, sizes, check_lists, processes, meter=Unseen()) as checked:
        lists = {arena.header.index: each for arena, each in zip(arenas, checked)}
    for each in lists.values():
        twice.update(each.twice)

    def look(part: HeapPart, pieces: Iterator[Piece]) -> CheckedSums:
        start, end = part.stretch
        known = lists[part.header.index]
        inside = known.binned[bisect_left(known.binned, start) : bisect_left(known.binned, end)]
        check = _chunk_check(session, part.header, [part.stretch], dict.fromkeys(inside, False), broken=known.broken)
        check.run(pieces)
        return check.sums()

    there = [header for header in asked if has_heap(session.layout, header)]
    with swept(session, there, look, processes, meter=meter, feet=True) as heaps:
        for arena in arenas:
            if arena.header in asked:
                known, spans = lists[arena.header.index], _spans(session, arena.header)
                chunks = _chunk_check(session, arena.header, spans, {}, broken=known.broken)
                chunks.unmet = _in_no_heap(known.binned, spans)
                run = partial(_gather, chunks, islice(heaps, len(spans)))
                _arena(session, arena, known, outcome, chunks=chunks, run=run)


def _arena(
    session: Session,
    arena: Arena,
    lists: Union[BinCheck, _Lists],
    outcome: Audit,
    *,
    chunks: ChunkCheck,
    run: Callable[[], None],
) -> None:
    """Checks an arena: `run` checks its chunks, and `chunks` holds the findings."""
    outcome.heaps += len(arena.heaps)
    outcome.bin_entries += lists.entries + sum(each.chunks for each in arena.fastbins)
    outcome.breaches += lists.breaches
    outcome.unread += bins_cut(lists.broken, session.layout, arena.header.index)
    outcome.breaches += header_breaches(session.layout, arena.header)
    if has_heap(session.layout, arena.header):
        _chunks(session, arena, chunks, run, outcome=outcome)
    outcome.arenas += 1


def _chunk_check(
    session: Session,
    header: ArenaHeader,
    within: Iterable[Span],
    binned: dict[int, bool],
    broken: Sequence[Rescued],
) -> ChunkCheck:
    order = session.listed_order
    parts = [order[bisect_left(order, start) : bisect_left(order, end)] for start, end in within]
    listed = {chunk: session.listed[chunk] for part in parts for chunk in part}
    return ChunkCheck(
        session.memory, session.layout, header, binned, listed=listed, lists_whole=all(each.whole for each in broken)
    )


def _in_no_heap(binned: Sequence[int], spans: Sequence[Span]) -> set[int]:
    """Finds listed chunks in no heap; the sweep reports all others that it did not meet."""
    inside = [range(bisect_left(binned, start), bisect_left(binned, end)) for start, end in spans]
    if sum(map(len, inside)) == len(binned):
        return set()
    places = {index for each in inside for index in each}
    return {chunk for at, chunk in enumerate(binned) if at not in places}


def _gather(check: ChunkCheck, heaps: Iterable[Sequence[CheckedSums]]) -> None:
    for parts in heaps:
        for each in parts:
            check.absorb(each)


def _spans(session: Session, header: ArenaHeader) -> Sequence[Span]:
    return [Span(heap.address, heap.end) for heap in session.heaps[header.index]]


def _chunks(session: Session, arena: Arena, check: ChunkCheck, run: Callable[[], None], outcome: Audit) -> None:
    try:
        run()
        hidden = check.hidden
        if hidden:
            check.find_hidden(hidden, session.sweep(arena.header))
    finally:
        # also of what Ctrl-C interrupted
        outcome.chunks += check.chunks
        outcome.breaches += check.breaches
    index = arena.header.index
    outcome.unread += [
        Statement("headers-unread", {"arena": index, "bytes": gap.bytes}, {"address": f"{gap.address:#x}"})
        for gap in check.unread
    ]
    if check.loose:
        outcome.unread.append(Statement("bins-unread", {"arena": index, "chunks": check.loose}))


def _lists(session: Session, twice: set[int], outcome: Audit) -> None:
    """Checks the lists; `twice`: chunks in a bin that are also in a cache or a fastbin."""
    caches = session.thread_caches
    outcome.tcache_entries = sum(each.chunks for cache in caches for each in cache.bins)
    outcome.breaches += doubles(session.arenas, caches, twice)
    outcome.breaches += key_breaches(session.memory, session.layout, caches, _secret(session))


def _secret(session: Session) -> Optional[int]:
    """Returns tcache_key, if the symbol is this libc's."""
    symbol = session.target.symbol("tcache_key")
    if symbol is None or not any(region.contains(symbol.address) for region in session.located.libc.data):
        return None
    return session.memory.try_word(symbol.address)


def _findings(session: Session, outcome: Audit) -> None:
    """Converts the walkers' findings: a breach if a rule is broken, otherwise something that is not known."""
    for finding in session.findings:
        if finding.rule in IN_DETAIL:
            continue
        if not finding.rule or _is_missing(session, finding):
            outcome.unread.append(finding.statement)
        elif finding.rule in LISTS:
            outcome.breaches.append(list_breach(session.layout, finding, session.owners))
        else:
            outcome.breaches.append(Breach(finding.address or 0, finding.arena, finding.rule, finding.what))


def _is_missing(session: Session, finding: Finding) -> bool:
    """Tells whether a link leads to memory that the process had and this image lacks."""
    address = finding.address
    if address is None or session.memory.try_word(address) is not None:
        return False
    return bool(session.target.image.shortage()) or any(region.contains(address) for region in session.regions)


def _unclaimed(session: Session) -> list[int]:
    """Returns the size of each stretch that may hold unrecognised mmapped blocks; empty if some are missing from the
    image."""
    whole = (
        not session.target.image.shortage()
        and not session.located.others
        and all(region.present for region in session.regions if region.writable)
    )
    arenas = [heap for heaps in session.heaps.values() for heap in heaps]
    return unclaimed(session.regions, arenas, session.mmapped) if whole else []


def find_busy(session: Session) -> list[Busy]:
    """Finds arenas that are locked, and threads in malloc or in what it called, or interrupted there by a signal."""
    target = session.target
    code = MallocCode(target, session.memory, session.located.libc, session.regions)
    stacks = ThreadStacks(session.memory, target.machine, session.regions, code, pid=target.pid)
    arenas = {header.address: header.index for header in session.headers}
    inside = {
        words.thread.tid: arenas.get(words.arena or 0)
        for words in session.thread_words
        if stacks.in_malloc(words.thread)
    }
    busy = []
    for header in session.headers:
        if header.mutex:
            tid = next((tid for tid, index in inside.items() if index == header.index), None)
            busy.append(Busy(header.index, tid, True))
    told = {each.tid for each in busy}
    return busy + [Busy(index, tid, False) for tid, index in inside.items() if tid not in told]
