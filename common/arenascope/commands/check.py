"""heap check: every invariant, and each place where one is broken."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from functools import partial
from typing import Annotated, Iterator, Optional, Sequence

from ..base.heap_model import WHAT, Arena, Breach, Finding, Statement, whole
from ..base.progress_bar import Meter, metered
from ..glibc import invariants
from ..glibc.arena import has_heap
from ..glibc.find.inside_malloc import MallocCode, ThreadStacks
from ..glibc.mmapped_chunks import unclaimed
from ..present.json_documents.record import (
    JUDGEMENT,
    Address,
    Document,
    Identity,
    Record,
    Size,
    StatementRecord,
    statement_record,
)
from ..present.json_documents.shared_records import ArenaOrNone
from ..present.shared_text.lines_and_tables import NO_HEAP, Style, count, table
from ..present.shared_text.problem_sentences import breach_words, sentence
from ..session.problems import miscounted, problems_of
from ..session.session import Session
from .framework.command import ARENA, LIMIT, Answer, Context, always, command

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


class BreachRecord(StatementRecord, first=True):
    """A broken invariant."""

    address: Address
    """Where."""
    arena: ArenaOrNone
    rule: Identity
    """Which; of several things that break it the id says which."""
    expected: str
    """What should be there."""
    found: str
    """What is."""
    culprit: Optional[Address]
    """The block in front, which may have been written beyond its end."""
    transient: bool
    """Whether a call in progress explains it."""


class BusyRecord(Record):
    """An arena or a thread at work in malloc."""

    arena: ArenaOrNone
    tid: Optional[int]
    """The thread inside."""
    locked: bool
    """Whether the arena is locked."""


class Checked(Record):
    """How much was checked."""

    arenas: Size
    """Arenas."""
    heaps: Size
    """Heaps."""
    chunks: Size
    """Chunks."""
    bin_entries: Size
    """Chunks in bins."""
    tcache_entries: Size
    """Chunks in thread caches."""


class CheckDocument(Document, command="check"):
    """The answer of check."""

    breaches: Sequence[BreachRecord]
    """Damage first."""
    busy: Sequence[BusyRecord]
    """Malloc at work."""
    checked: Checked
    verdict: str
    """Sound, busy or damaged, in words."""
    judgement: Annotated[StatementRecord, JUDGEMENT]


def with_transients(breaches: Sequence[Breach], busy: Sequence[BusyRecord], one_thread: bool) -> list[Breach]:
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
        self.busy: list[BusyRecord] = []
        self.unread: list[Statement] = []
        """What could not be checked."""
        self.checked = Checked(arenas=0, heaps=0, chunks=0, bin_entries=0, tcache_entries=0)


def audit(session: Session, wanted: Optional[int] = None) -> Audit:
    """Checks the whole process, or arena `wanted` alone."""
    outcome = Audit()
    if not session.started:
        outcome.checked.arenas = len(session.headers)
        return outcome
    try:
        _arenas(session, wanted, outcome)
    except KeyboardInterrupt:
        session.stopped = True
        outcome.unread.append(
            Statement("stopped", {"arenas": outcome.checked.arenas, "chunks": outcome.checked.chunks})
        )
    _findings(session, outcome)
    if wanted is None:
        outcome.breaches += invariants.mmapped_breach(
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
    with session.meter("checking", size) as meter:
        for arena in arenas:
            lists = _bin_check(session, arena)
            twice.update(chunk for chunk in lists.binned if chunk in session.listed)
            if arena.header in asked:
                _arena(session, arena, lists, outcome, meter)
    _lists(session, twice, outcome)


def _bin_check(session: Session, arena: Arena) -> invariants.BinCheck:
    check = invariants.BinCheck(session.memory, session.layout, arena.header, session.reaches[arena.header.index])
    if arena.header.initialised:
        check.run(arena.bins)
    return check


def _arena(session: Session, arena: Arena, lists: invariants.BinCheck, outcome: Audit, meter: Meter) -> None:
    """Checks an arena's lists, header and chunks."""
    outcome.checked.heaps += len(arena.heaps)
    outcome.checked.bin_entries += lists.entries + sum(each.chunks for each in arena.fastbins)
    outcome.breaches += lists.breaches
    outcome.unread += invariants.bins_cut(lists.broken, session.layout, arena.header.index)
    outcome.breaches += invariants.header_breaches(session.layout, arena.header)
    if has_heap(session.layout, arena.header):
        _chunks(session, arena, lists, outcome, meter)
    outcome.checked.arenas += 1


def _chunks(session: Session, arena: Arena, lists: invariants.BinCheck, outcome: Audit, meter: Meter) -> None:
    order = session.listed_order
    parts = [order[bisect_left(order, each.address) : bisect_left(order, each.end)] for each in arena.heaps]
    listed = {chunk: session.listed[chunk] for part in parts for chunk in part}
    whole = all(each.whole for each in lists.broken)
    check = invariants.ChunkCheck(
        session.memory, session.layout, arena.header, lists.binned, listed=listed, lists_whole=whole
    )
    try:
        check.run(metered(session.sweep(arena.header), meter))
        hidden = check.hidden
        if hidden:
            check.find_hidden(hidden, session.sweep(arena.header))
    finally:
        # also of what Ctrl-C interrupted
        outcome.checked.chunks += check.chunks
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
    outcome.checked.tcache_entries = sum(each.chunks for cache in caches for each in cache.bins)
    outcome.breaches += invariants.doubles(session.arenas, caches, twice)
    outcome.breaches += invariants.key_breaches(session.memory, session.layout, caches, _secret(session))


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
            outcome.breaches.append(invariants.list_breach(session.layout, finding, session.arenas_of_chunks))
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


def find_busy(session: Session) -> list[BusyRecord]:
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
            busy.append(BusyRecord(arena=header.index, tid=tid, locked=True))
    told = {each.tid for each in busy}
    return busy + [BusyRecord(arena=index, tid=tid, locked=False) for tid, index in inside.items() if tid not in told]


BROKEN = 1


@command(
    "chunk by chunk",
    "check",
    arguments=(ARENA, LIMIT),
    copies=always,
)
def check_command(context: Context) -> Answer:
    """Check chunks, bins, thread caches, heaps and arenas against all of malloc's rules.

    Each row is a breach: its address, what was expected there and what was found. What a malloc or free in progress may
    leave for a moment does not count as damage, where an arena is locked or a thread is inside malloc. In the shell a
    live process is copied, and runs on meanwhile; the exit status is 1 if there is damage.
    """
    session = context.session
    context.check_arena(context.options.arena)
    outcome = audit(session, context.options.arena)
    damage = [each for each in outcome.breaches if not each.transient]
    # what walkers found is in the breaches or in outcome.unread; fewer blocks than mp_ counts are no breach
    counted = miscounted(session) if any(each.rule == "mmapped-count" for each in outcome.breaches) else []
    others = [each for each in problems_of(session) if WHAT not in each.names and each not in counted]
    problems = list({sentence(each): each for each in [*others, *outcome.unread]}.values())
    judgement = judge(outcome, damage, problems) if session.started else Statement("no-heap", text=NO_HEAP)
    verdict = judgement.text or _verdict(judgement)
    found = CheckDocument(
        breaches=[_record(each) for each in outcome.breaches],
        busy=outcome.busy,
        checked=outcome.checked,
        verdict=verdict,
        judgement=statement_record(judgement, verdict),
    )
    return Answer(found, _lines(context, outcome, damage, verdict), problems, BROKEN if damage else 0)


def _record(breach: Breach) -> BreachRecord:
    words = breach_words(breach)
    return BreachRecord.of(statement_record(breach.what, words.sentence), words, breach)


def _lines(context: Context, outcome: Audit, damage: Sequence[Breach], verdict: str) -> Iterator[str]:
    style, session = context.style, context.session
    if not session.started:
        yield verdict
        return
    yield style.bold(verdict)
    for each in outcome.busy:
        yield _who(session, each)
    if not outcome.breaches:
        return
    yield ""
    rows = [
        [
            f"{each.address:#x}",
            "-" if each.arena is None else str(each.arena),
            each.rule + (" (in transition)" if each.transient else ""),
            *breach_words(each),
        ]
        for each in outcome.breaches
    ]
    headers, limit = ("address", "arena", "rule", "expected", "found"), context.options.limit
    yield from table(style, headers, rows, left=(0, 1, 2, 3, 4), limit=limit, what="breach", many="breaches")
    yield ""
    yield from _hints(style, damage)


def judge(outcome: Audit, damage: Sequence[Breach], problems: Sequence[Statement]) -> Statement:
    checked = outcome.checked
    figures: dict[str, Optional[float]] = {
        "arenas": checked.arenas,
        "chunks": checked.chunks,
        "list_entries": checked.bin_entries + checked.tcache_entries,
        "breaches": len(damage),
        "passing": len(outcome.breaches) - len(damage),
    }
    if damage:
        return Statement("damaged", figures, {"lowest": f"{min(breach.address for breach in damage):#x}"})
    return Statement("busy" if outcome.breaches else "no-breach-in-part" if problems else "sound", figures)


def _verdict(said: Statement) -> str:
    figures = whole(said.figures)
    checked = (
        f"{count(figures['arenas'], 'arena')}, {count(figures['chunks'], 'chunk')}, "
        f"{count(figures['list_entries'], 'list entry', 'list entries')} checked"
    )
    if said.id == "damaged":
        breaches = count(figures["breaches"], "breach", "breaches")
        return f"damaged: {breaches}, the lowest at {said.names['lowest']}; {checked}"
    if said.id == "busy":
        return f"busy: a malloc or free in progress explains all that is not in order; {checked}"
    if said.id == "no-breach-in-part":
        return f"no breach in what could be read: {checked}"
    return f"sound: {checked}"


def _who(session: Session, busy: BusyRecord) -> str:
    name = next((cache.name for cache in session.thread_owners if cache.tid == busy.tid), None)
    thread = f"thread {busy.tid}" + (f" ({name})" if name else "")
    where = f"arena {busy.arena}" if busy.arena is not None else "no arena yet"
    if not busy.locked:
        return f"busy: {thread}, {where}, is inside malloc"
    return f"busy: {where} is locked by {thread}" if busy.tid is not None else f"busy: {where} is locked"


def _hints(style: Style, breaches: Sequence[Breach]) -> Iterator[str]:
    if not breaches:
        yield style.dim(f"next: let the process run for a moment, then {style.typed('check')}")
        return
    first = breaches[0]
    culprit: Optional[Breach] = next((each for each in breaches if each.culprit is not None), None)
    if culprit is not None and culprit.culprit is not None:
        yield (
            f"an overflow of the block in front may have overwritten the header at {culprit.address:#x}: "
            f"{style.typed(f'chunk {culprit.culprit:#x}')}"
        )
    yield style.dim(f"next: {style.typed(f'chunk {first.address:#x}')}, {style.typed('bins')}")
