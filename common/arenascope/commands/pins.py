"""heap pins: the live blocks that keep the most memory from being returned."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..analysis.arena_usage import total
from ..analysis.pinning_blocks import BlocksOfKind, Gain, LastBlocks, Pin, PinSearch, Ranking, ReleaseStep, bytes_of
from ..analysis.trim_prediction import TrimRules, until_locked
from ..base.heap_model import Statement
from ..base.printable import first_few
from ..base.progress_bar import metered
from ..blocks.type_figures import in_memory, types_of
from ..engine import need_engine
from ..glibc.malloc_par import default_max_fast
from ..glibc.tcache import tcache_index
from ..present.json_documents.record import (
    Address,
    Document,
    Record,
    Size,
    StatementRecord,
    hexadecimal,
    statement_record,
)
from ..present.json_documents.shared_records import HELD_MOST, WRITTEN, BlocksOfType, HolderOfMost, Index, OwnerRecord
from ..present.screens.type_lines import name_of
from ..present.shared_text.lines_and_tables import Column, Style, column_table, count, left_out, next_lines, table
from ..session.problems import problems_of
from ..session.session import Session
from ..session.trims import resident_bytes, thresholds_of, trim_rules
from ..sources.target import text_of
from .framework import live_copy
from .framework.command import ARENA, WITH_VALUES, Answer, Context, always, argument, command, of_heap
from .types import OWNERS, find_held, typed

if TYPE_CHECKING:
    from ..blocks.type_figures import TypeFigures
    from ..present.screens.owner_lines import HeldBy, HeldMost

BY_ITSELF = 256 << 20
"""Up to this size of heaps, types are examined without --types."""


HELD_BY = "Who holds it: as in owners; null without --owners, and where it is not known"


class GainRecord(Record):
    """Memory that would return to the system."""

    releases_bytes: Size
    """What would return to the system."""
    resident_bytes: Optional[int]
    """What of that is in memory."""


class PinGroup(BlocksOfType, GainRecord):
    """All blocks of a type."""

    held_by: Annotated[Optional[HolderOfMost], HELD_MOST]


Ranges = Sequence[
    Annotated[
        tuple[
            Annotated[str, ("enum", ("munmap", "madvise", "brk")), "By which call"],
            Annotated[Address, "Its start"],
            Annotated[int, "Its bytes"],
        ],
        "A range",
    ]
]


class Returned(Record):
    """Memory that would return to the system, range by range."""

    ranges: Ranges = ()
    """With --ranges: what would return."""
    already: Ranges = ()
    """With --ranges: what of that would return without freeing anything."""


class PinRecord(Returned, first=True):
    """A block in use."""

    address: Address
    """Its header."""
    bytes: Size
    """Its size."""
    arena: Index
    reason: Annotated[str, ("enum", ("top", "between"))]
    """Whether it ends where a top begins, or lies between free pieces."""
    releases_bytes: Size
    """What would return to the system."""
    symbol: Optional[str]
    """What its first word points to."""
    type: Optional[str]
    """The class whose table of virtual functions that is; null: it is none."""
    held_by: Annotated[Optional[OwnerRecord], HELD_BY]
    expression: Annotated[Optional[str], WRITTEN]
    by: Annotated[str, ("enum", ("free", "trim"))]
    """What would give it back."""
    user_address: Address
    """What malloc returned."""
    resident_bytes: Optional[int]
    """What of that is in memory."""
    note: Optional[str]
    """What comes before."""
    note_records: Sequence[StatementRecord]
    """The same, apart from its words."""


class PinSums(GainRecord, first=True):
    """The best block of each arena, summed."""

    blocks: Size
    """How many."""
    bytes: Size
    """Their bytes."""


class TailRecord(Returned, first=True):
    """The last blocks of an arena."""

    arena: Index
    blocks: Size
    """How many."""
    bytes: Size
    """Their bytes."""
    lowest: Address
    """The lowest."""
    releases_bytes: Size
    """What would return to the system."""
    resident_bytes: Optional[int]
    """What of that is in memory."""


class Pending(Record):
    """Memory of an arena that the next free() returns in any case."""

    arena: Index
    bytes: int
    """So much."""


class PinsDocument(Document, command="pins"):
    """The answer of pins."""

    groups: Optional[Sequence[PinGroup]]
    """Types of which all blocks together keep more than they are, what keeps most besides first; none where a single
    block does; null: not looked at, as the heaps are large and --types was not given."""
    pins: Sequence[PinRecord]
    """Those that hold back the most first."""
    left_out: Size
    """How many more there are."""
    own_left_out: Size
    """How many would mainly give back their own pages."""
    one_per_arena: PinSums
    together: Sequence[TailRecord]
    """The last blocks of an arena, all freed."""
    pending: Sequence[Pending]
    """What is returned anyway at the next free() of 64 KiB."""


@command(
    "what would return",
    "pins --arena 1",
    arguments=(
        argument("--types", action="store_true", help="also rank types, even if the heaps are large"),
        OWNERS,
        argument("--own", action="store_true", help="also blocks that mainly keep their own pages"),
        argument("--ranges", action="store_true", help="with --json: the ranges that would be released"),
        ARENA,
        argument("--limit", type=int, default=20, metavar="N", help="show N rows at most (0: all)"),
        WITH_VALUES,
    ),
    copies=always,
    whole=lambda options: bool(options.owners or options.types),
)
def pins_command(context: Context) -> Answer:
    """Rank the blocks in use that keep the most memory from being returned.

    For each block beside free memory: what its free() would give back at once (the break moves, heaps are unmapped or
    shrunk, by the present trim_threshold and top_pad), or what malloc_trim(0) would give back in addition after it.
    Each figure is for that block alone, once it is really free: thread caches and fastbins may keep it first. Blocks
    that would mainly give back their own pages are left out; --own shows them. Where no single block keeps much, types
    whose blocks together keep much come first (see types). In the shell a live process is copied, and runs on
    meanwhile.
    """
    need_engine()
    options = context.options
    looked = live_copy.looked(context) if options.owners else None
    session = context.session
    # do not hold a process to name blocks that nobody asked about
    waits = context.door.lets_go and session.target.kind == "live"
    context.check_arena(options.arena)
    ranking = Ranking(options.limit if options.limit > 0 else None, options.own)
    pending: dict[int, int] = {}
    groups: Optional[Sequence[BlocksOfKind]] = None
    types: Optional[TypeFigures] = None
    problems: list[Statement] = looked.problems if looked is not None else []
    if session.started:
        rules = trim_rules(session)
        if rules.brk is None:
            problems.append(Statement("brk-not-found-for-pins"))
        present = in_memory(session, options.arena)
        try:
            _search_all(session, options.arena, rules, ranking, pending=pending)
            if ranking.one_tells and not options.types:
                groups = []
            elif not session.target.image.redacted and (
                options.types or (not waits and sum(heap.bytes for heap in present) <= BY_ITSELF)
            ):
                types = types_of(session, options.arena, present)
                groups = types.seen.groups
        except KeyboardInterrupt:
            session.stopped = True
        if session.stopped:
            groups = None
            problems.append(Statement("stopped", {"arenas": len(pending)}))
    held = find_held(context, looked)
    of_groups = held.kinds(types.live) if held is not None and types is not None and groups else {}
    pins = [
        ShownPin(
            pin,
            _resident(session, pin.gain),
            _symbol(session, pin),
            _notes(session, pin),
            held_by=held.block(pin.address + session.layout.header) if held is not None else None,
        )
        for pin in ranking.pins
    ]
    together = [(each, _resident(session, each.gain)) for each in ranking.together]
    sums = _sums(session, ranking)
    found = PinsDocument(
        groups=None
        if groups is None
        else [
            typed(PinGroup, each.row, each.held, held_by=holder and holder.owner)
            for each in groups
            for holder in (of_groups.get(each.row.index),)
        ],
        pins=[_pin(session, pin, options.ranges) for pin in pins],
        left_out=ranking.count - len(pins),
        own_left_out=ranking.own_left_out,
        one_per_arena=sums,
        together=[
            TailRecord.of(each, each.gain, resident_bytes=resident, **_ranges(each.gain, options.ranges))
            for each, resident in together
        ],
        pending=[Pending(arena=index, bytes=size) for index, size in pending.items() if size],
    )
    problems = [*problems_of(session), *problems]
    redacted = session.target.image.redacted
    known = () if redacted else groups
    text = lines(
        context, Pins(ranking, pins, sums, together, pending, known, of_groups), owners=held is None and not redacted
    )
    # the blocks' holders in words, for a page
    kinds = [of_groups.get(each.row.index) for each in groups or ()]
    beside = {
        "who_groups": [each.who if each is not None else "" for each in kinds],
        "who_pins": [each.held_by.who if each.held_by is not None else "" for each in pins],
    }
    return Answer(found, of_heap(session, text), problems, beside=beside)


def _search_all(
    session: Session, only: Optional[int], rules: TrimRules, ranking: Ranking, pending: dict[int, int]
) -> None:
    """Walks the arenas. `pending` receives how much the next free() of any block would return in each."""
    session.measure_residency()
    headers = [header for header in session.headers if only in (None, header.index)]
    bytes_in_all = sum(part.bytes for header in headers for part in session.heaps[header.index])
    with session.meter("sweeping", bytes_in_all) as meter:
        for header in headers:
            search = PinSearch(header, rules, thresholds_of(session, header, rules), ranking)
            for heap in session.heaps[header.index]:
                pieces = metered(session.sweep(header, heap), meter)
                search.walk(heap, pieces, session.listed)
            search.finish()
            pending[header.index] = bytes_of(search.pending)


def _resident(session: Session, gain: Gain) -> Optional[int]:
    """How much RSS would fall. madvise stops at locked pages; the other calls do not."""
    if session.residency is None:
        return None
    parts = []
    for steps in (gain.gone, gain.already):
        plain = [step.range for step in steps if step.how != "madvise"]
        advised = until_locked((step.range for step in steps if step.how == "madvise"), session.locked)
        parts.append(resident_bytes(session, [*plain, *advised]))
    gone, already = parts
    return None if gone is None or already is None else gone - already


def _sums(session: Session, ranking: Ranking) -> PinSums:
    """Sums of the best pin of each arena: arenas share no pages."""
    best = list(ranking.best.values())
    return PinSums(
        blocks=len(best),
        bytes=sum(pin.gain.bytes for pin in best),
        releases_bytes=sum(pin.gain.releases for pin in best),
        resident_bytes=total(_resident(session, pin.gain) for pin in best) if session.residency else None,
    )


def _pin(session: Session, shown: ShownPin, with_ranges: bool) -> PinRecord:
    pin, path = shown.pin, shown.held_by.path if shown.held_by is not None else None
    return PinRecord.of(
        pin,
        shown,
        pin.gain,
        held_by=shown.held_by and shown.held_by.owner,
        expression=path and path.in_documents,
        user_address=pin.address + session.layout.header,
        note_records=[statement_record(each, note_text(each)) for each in shown.notes],
        **_ranges(pin.gain, with_ranges),
    )


def _ranges(gain: Gain, wanted: bool) -> dict[str, object]:
    def steps(steps: tuple[ReleaseStep, ...]) -> list[list[object]]:
        return [[how, hexadecimal(range.address), range.bytes] for how, range in steps]

    return {"ranges": steps(gain.gone), "already": steps(gain.already)} if wanted else {}


def _symbol(session: Session, pin: Pin) -> Optional[str]:
    """The symbol that the first word points to: a vtable tells the class."""
    word = session.memory.try_word(pin.address + session.layout.header)
    return text_of(session.target.describe(word)) if word else None


def _cached(session: Session, index: int, slots: int) -> Statement:
    """Whether thread caches have room for one more block of that bin."""
    caches = session.thread_caches
    full = sum(any(each.index == index and each.chunks >= slots for each in cache.bins) for cache in caches)
    if not full or not session.caches_known:
        return Statement("cached-first", {"slots": slots})
    kind = "caches-full" if full == len(caches) else "cached-unless-full"
    return Statement(kind, {"slots": slots, "full": full, "threads": len(caches)})


def _notes(session: Session, pin: Pin) -> list[Statement]:
    """Says in order what happens to the block first when it is freed."""
    layout, params = session.layout, session.params
    for cache in session.thread_caches:
        if cache.address == pin.address + layout.header:
            return [Statement("own-thread-cache", {"tid": cache.tid})]
    notes = []
    size = pin.gain.bytes
    slots = params.get("tcache_count") if params and layout.tcache else None
    if params and slots:
        largest, bins = params.get("tcache_max_bytes") or 0, params.get("tcache_bins") or 0
        if size < largest if layout.behaviour.tcache_logarithmic else tcache_index(layout, size) < bins:
            notes.append(_cached(session, tcache_index(layout, size), slots))
    if layout.fastbins and size <= (default_max_fast(layout) if session.max_fast is None else session.max_fast):
        notes.append(Statement("in-fastbin-first"))
    return notes


HEADERS = (
    "block",
    "blocks",
    "size",
    "arena",
    "would return",
    "resident",
    "by",
    "held by",
    "what it keeps",
    "first word",
)
_VTABLE = re.compile(r"vtable for (.+)\+\d+")


class ShownPin(NamedTuple):
    """A pin, with what only the memory image can tell of it."""

    pin: Pin
    resident: Optional[int]
    symbol: Optional[str]
    notes: Sequence[Statement]
    held_by: Optional[HeldBy] = None

    @property
    def type(self) -> Optional[str]:
        """The class whose vtable the first word points to."""
        of_class = _VTABLE.fullmatch(self.symbol or "")
        return of_class[1] if of_class else None

    @property
    def note(self) -> Optional[str]:
        return ", then ".join(map(note_text, self.notes)) or None


NOTES = {
    "own-thread-cache": "is glibc's own: the cache of thread {tid}, which goes when that ends",
    "cached-first": "free() puts it into the calling thread's cache first, which keeps up to {slots} of its size",
    "cached-unless-full": "free() puts it into the calling thread's cache first, unless that is full of its size "
    "({slots}): those of {full} of {threads} threads are",
    "caches-full": "no thread's cache has room for it: {slots} of its size are in each",
    "in-fastbin-first": "it lies in a fastbin until malloc_trim, or a free() that leaves 64 KiB free, merges it",
}
"""Why a block is not free right after free(), by id."""


def note_text(said: Statement) -> str:
    return NOTES[said.id].format(**said.figures)


ALIKE = "blocks: so many are alike, of which the first is named; would return: each of them, by itself"
ELEMENT, ANY_ELEMENT = re.compile(r"\[\d+\]"), "[…]"
GROUPS = 5
"""How many types are shown."""
TOGETHER = 3
"""How many arenas' last blocks are described."""


class Pins(NamedTuple):
    """What was found, for the screen."""

    ranking: Ranking
    shown: Sequence[ShownPin]
    sums: PinSums
    together: Sequence[tuple[LastBlocks, Optional[int]]]
    """With what of it is in memory."""
    pending: Mapping[int, int]
    groups: Optional[Sequence[BlocksOfKind]]
    """None: nobody looked."""
    held_by: Mapping[int, HeldMost]
    """The main holder of a type's blocks, by the type's number."""


def lines(context: Context, found: Pins, *, owners: bool) -> Iterator[str]:
    """`owners`: --owners was not asked for but could be."""
    style, header = context.style, context.session.layout.header
    ranking, pins, sums, together, pending, groups, held_by = found
    if groups:
        yield from group_lines(style, groups, held_by)
        yield ""
        yield f"one by one: {_sentence(style, sums)}"
    else:
        yield style.bold(_sentence(style, sums))
    ordered = sorted(together, key=lambda pair: -pair[0].gain.releases)
    for each, resident in ordered[:TOGETHER]:
        yield (
            f"arena {each.arena}: its last {each.blocks} blocks ({style.size(each.gain.bytes)}, from "
            f"{each.lowest + header:#x} on) would give back {_both(style, each.gain.releases, resident)}, "
            "once all of them are freed, without a trim"
        )
    if len(ordered) > TOGETHER:
        yield style.dim(f"so for {count(len(ordered) - TOGETHER, 'more arena')}: --json has them all")
    for index, size in pending.items():
        if size:
            yield (
                f"arena {index}: {style.size(size)} are returned anyway, at the next free() in it that makes a free "
                "chunk of 64 KiB"
            )
    if pins:
        yield ""
        if ranking.count > len(pins):
            yield (
                f"{count(ranking.count, 'block')} keep free memory from being returned, each by itself "
                f"{style.size(pins[0].pin.gain.releases)} at most; the {len(pins):,} that keep the most:"
            )
        rows = _rows(style, pins, header)
        yield from table(
            style,
            HEADERS,
            rows,
            left=(0, 6, 7, 8, 9),
            names=(7, 9),
            optional=("blocks", "held by", "first word"),
            expendable=("first word", "resident", "by"),
        )
        yield from left_out(style, ranking.count - len(pins), "block")
        if len(rows) < len(pins):
            yield style.dim(ALIKE)
        yield ""
        yield from _note_texts(style, pins, header)
    if ranking.own_left_out:
        yield style.dim(
            f"{count(ranking.own_left_out, 'block')} beside free memory would mainly give back "
            f"{'its' if ranking.own_left_out == 1 else 'their'} own pages: --own shows them"
        )
    if pins:
        ask = [] if groups is not None else [f"{style.typed('pins --types')} (what all blocks of a type keep)"]
        if owners:
            ask.append(f"{style.typed('pins --owners')} (who holds them)")
        ask.append(style.typed(f"chunk {pins[0].pin.address + header:#x}"))
        if any(each.pin.by == "free" for each in pins):
            # a trim can run while these blocks stay only if free() alone would return them
            ask.append(f"{style.typed('trim')} (what a trim returns while they stay)")
        yield from next_lines(style, *ask)


def group_lines(style: Style, groups: Sequence[BlocksOfKind], held_by: Mapping[int, HeldMost]) -> Iterator[str]:
    """The answer in a sentence, and a row for each type."""
    first = groups[0]
    row, held = first.row, first.held

    def holder(group: BlocksOfKind) -> str:
        return held_by[group.row.index].words if group.row.index in held_by else ""

    what = f"freeing all {count(row.blocks, 'block')} of {name_of(row.kind)} ({style.size(row.bytes)})"
    whose = f"; held by {holder(first)}" if holder(first) else ""
    yield style.bold(f"{what} would give back {_both(style, held.releases, held.resident)} that no trim does{whose}")
    yield ""
    columns = (
        Column("type", lambda group: name_of(group.row.kind), name=True),
        Column("blocks", lambda group: f"{group.row.blocks:,}"),
        Column("bytes", lambda group: style.size(group.row.bytes)),
        Column("would return", lambda group: style.size(group.held.releases)),
        Column("resident", lambda group: style.size(group.held.resident)),
        Column("held by", holder, name=True, optional=True),
    )
    yield from column_table(style, columns, groups[:GROUPS], expendable=("resident",))
    if len(groups) > GROUPS:
        more = count(len(groups) - GROUPS, "more type")
        yield style.dim(f"… {more}; {style.typed('types --by holds-back')} shows all")


def _sentence(style: Style, sums: PinSums) -> str:
    if not sums.blocks:
        return "nothing is pinned: no single block in use keeps free memory from being returned"
    where = "one block" if sums.blocks == 1 else f"one block in each of {sums.blocks} arenas"
    return (
        f"freeing {where} ({style.size(sums.bytes)}) would give back "
        f"{_both(style, sums.releases_bytes, sums.resident_bytes)}"
    )


def _both(style: Style, released: int, resident: Optional[int]) -> str:
    if resident is None:
        return f"{style.size(released)} of address space (how much is resident is not known)"
    of_it = "" if resident == released else f" ({style.size(resident)} of it resident)"
    return style.size(released) + of_it


def _rows(style: Style, pins: Sequence[ShownPin], header: int) -> list[list[str]]:
    """The rows. Pins that differ only in block, size or element number share one."""
    alike: dict[tuple[str, ...], list[ShownPin]] = {}
    for shown in pins:
        alike.setdefault(tuple(ELEMENT.sub(ANY_ELEMENT, each) for each in _cells(style, shown)), []).append(shown)
    return [
        [
            f"{group[0].pin.address + header:#x}",
            f"{len(group)}" if len(alike) < len(pins) else "",
            _sizes(style, [shown.pin.gain.bytes for shown in group]),
            *(_cells(style, group[0]) if len(group) == 1 else cells),
        ]
        for cells, group in alike.items()
    ]


def _sizes(style: Style, sizes: Sequence[int]) -> str:
    least, most = style.size(min(sizes)), style.size(max(sizes))
    return least if least == most else f"{least} to {most}"


def _cells(style: Style, shown: ShownPin) -> list[str]:
    """The cells of a pin, all but its block and size."""
    pin = shown.pin
    return [
        f"{pin.arena} main" if pin.arena == 0 else str(pin.arena),
        style.size(pin.gain.releases),
        style.size(shown.resident),
        "free()" if pin.by == "free" else "a trim after it",
        shown.held_by.on_screen if shown.held_by is not None else "",
        _reason(pin),
        shown.type or shown.symbol or "",
    ]


def _reason(pin: Pin) -> str:
    if pin.reason == "between":
        return "pages that it shares with free pieces"
    gone, already = ([step.how for step in steps] for steps in (pin.gain.gone, pin.gain.already))
    unmapped = gone.count("munmap") - already.count("munmap")
    if unmapped:
        return f"{count(unmapped, 'whole heap')}: last block below top"
    return "the break: last block below top" if pin.arena == 0 else "last block below top"


def _note_texts(style: Style, pins: Sequence[ShownPin], header: int) -> Iterator[str]:
    """Each note once, with the blocks that it is about."""
    blocks: dict[str, list[int]] = {}
    for shown in pins:
        if shown.note:
            blocks.setdefault(shown.note, []).append(shown.pin.address + header)
    for note, addresses in blocks.items():
        yield style.dim(f"{first_few([f'{each:#x}' for each in addresses], 3)}: {note}")
