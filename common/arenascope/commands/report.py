"""heap report: where resident memory went, why it stays, what would bring it back."""

from __future__ import annotations

import re
import time
from argparse import Namespace
from array import array
from functools import partial
from typing import Annotated, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..analysis.advice import LOOKS, Advice, find_advice
from ..analysis.causes import WORTH, Facts, address_space, find_causes, judge
from ..analysis.compare_snapshots import JsonObject
from ..analysis.growth import Grown, grown_types, growth, what_they_show
from ..analysis.held_sums import FIRST, FreedNext, HeldSums, LeakRow, MainHolder, PageSharer
from ..analysis.pinning_blocks import LiveBlockKinds
from ..analysis.resident_parts import PARTS, ResidentPicture
from ..analysis.trim_prediction import Trim
from ..base import optional_libraries
from ..base.class_names import type_words
from ..base.errors import ArenascopeError, HoldEnded, HoldOver, HoldTooShort
from ..base.heap_model import HOLD, LEFT_OUT, REPLACED, Allocator, Owner, Statement, hold_over
from ..base.whole_file import write_whole
from ..blocks.declared.container_rows import ContainerRow
from ..blocks.declared.once_per_image import containers_in, waste_in
from ..blocks.declared.waste_rows import WasteRow
from ..blocks.graph.blocks import OwnerPages
from ..blocks.graph.edges import build
from ..blocks.graph.leak_rows import rows_of, with_guesses
from ..blocks.graph.main_holders import JOINTLY, UNREACHED, OtherHolders, find_owners
from ..blocks.graph.pointers_to import ImageSearch
from ..blocks.graph.returns import owned, returns
from ..blocks.graph.unreached import POSSIBLE, UNMARKED, Leaks, Reach, doubts, find_leaks
from ..blocks.heap_strips import HeapStrips, draw, lay_types, page_cells
from ..blocks.type_figures import types_of
from ..engine import Lumps, chosen, describe, is_there, places_of
from ..glibc.malloc_par import arena_limit
from ..glibc.release_table import alike
from ..present import glossary
from ..present.json_documents.record import (
    JUDGEMENT,
    Address,
    Document,
    Record,
    Size,
    StatementRecord,
    statement_record,
)
from ..present.json_documents.shared_records import ALLOCATORS, HOLDS_BACK, BlocksOfType, OtherAllocator, Written
from ..present.json_documents.snapshot_file import read
from ..present.pages.fill_page import filled, title_of
from ..present.screens import report_lines
from ..present.screens.advice_sentences import AdviceText, words
from ..present.screens.finding_lines import FindingRecord, ReportFinding, find_all, worth_saying
from ..present.screens.finding_lines import record as finding_record
from ..present.screens.owner_lines import NO_SUM, HeldMost, HolderNames, LiveBlockSums, sums_of, together, whose
from ..present.screens.report_lines import further_apart, growth_sentence
from ..present.screens.type_lines import NOT_REACHED
from ..present.screens.verdict import cause, space_verdict, verdict
from ..present.shared_text.lines_and_tables import NO_HEAP, Style, duration, unmarked_names
from ..present.shared_text.missing_symbols import unnamed_variables
from ..present.shared_text.problem_sentences import sentence, sentences
from ..session.problems import depends_on_mp, problems_of
from ..session.resident import find_means, read_resident
from ..session.session import Session
from ..session.trims import trims
from .containers import ContainerRecord, live_bytes, missing_containers, note_text
from .containers import row_record as container_record
from .framework import live_copy
from .framework.arguments import RULES, seconds
from .framework.command import WITH_VALUES, Answer, Context, always, argument, command
from .framework.find_command import parse_request
from .framework.live_copy import CopiedImage
from .map import sentences as map_sentences
from .map import strips_of_page
from .snapshot import moment_before, take_moment
from .trend import GrownType
from .types import typed
from .waste import is_unknown

AT_ONCE = ("arenas", "trim", "params", "version")
"""Commands that the report has read most for: they run while the process is held."""
APART = (
    "types --owners --limit 1000",
    "pins --owners",
    "owners --limit 1000",
    "containers --limit 100",
    "leaks --limit 0",
)
"""Commands that walk heaps or follow pointers, each with what it shows."""
KEYED = ("pins", "owners")
"""Commands whose rows show paths, which may have keys: with --with-values these are shown."""
TYPED = (
    ("types", "types"),
    ("pins", "groups"),
    ("pins", "pins"),
    ("owners", "owners"),
    ("containers", "containers"),
    ("leaks", "leaks"),
    ("report", "findings"),
)
"""Rows that have a type, by section."""


class AllocatorShare(OtherAllocator):
    """Another allocator, with its resident memory."""

    resident_bytes: Optional[Size]
    """What its mappings have in memory; null: its mappings are not known."""
    at_most_bytes: Optional[Size]
    """An upper bound of that; null: not known."""


class ResidentPart(Record):
    """A part of resident memory."""

    part: Annotated[str, ("enum", PARTS)]
    """Which."""
    bytes: int
    """So much."""
    label: str
    """What it is, in words."""


class CauseRecord(StatementRecord, first=True):
    """A cause."""

    cause: str
    """What."""
    evidence: str
    """The figures that show it, in words."""


class AdviceRecord(StatementRecord, first=True):
    """A piece of advice."""

    action: str
    """What."""
    effect_bytes: Optional[Size]
    """What it would have changed here; null: not known."""
    bound: bool
    """Whether that is an upper bound."""
    evidence: str
    """The figures that speak for it, in words."""
    how: Sequence[str]
    """How it is done, the usual way first."""
    cost: Optional[str]
    """What it costs."""
    not_when: Optional[str]
    """When not to."""


class OtherMapping(Record):
    """A mapping that is not malloc's."""

    address: Address
    """Where; in one that malloc's blocks or .bss lie in as well, the largest other part."""
    bytes: Size
    """Resident, and not malloc's."""
    name: str
    """Its path."""
    allocator: Optional[str]
    """Whose it is known to be."""


class TypeOfReport(BlocksOfType):
    """All blocks of a type."""

    resident_bytes: Optional[Size]
    """In memory."""
    holds_back_bytes: Annotated[Optional[Size], HOLDS_BACK]
    retained_bytes: Optional[Size]
    """With all that only blocks of the type lead to; null: not looked at."""


class ReportDocument(Document, command="report"):
    """The answer of report."""

    rss_bytes: Optional[Size]
    """Resident memory, with anonymous pages of hugetlbfs, which the kernel counts apart; null: the image does not tell
    (a core, of the pages of files)."""
    swap_bytes: Optional[Size]
    """What else of it is in swap."""
    parts: Sequence[ResidentPart]
    """They sum to rss_bytes."""
    verdict: str
    """The answer."""
    causes: Sequence[CauseRecord]
    """Why it stays."""
    advice: Sequence[AdviceRecord]
    """What to do, the most helpful first; then what would not help."""
    other_mappings: Sequence[OtherMapping]
    """The largest that are not this malloc's."""
    allocators: Annotated[Sequence[AllocatorShare], ALLOCATORS]
    types: Optional[Sequence[TypeOfReport]]
    """What the live blocks are, what there is most of first, 20 at most; null: not looked at."""
    held: Optional[LiveBlockSums]
    """Whether the blocks in use are held, and by whom; null: not looked at. What is reached, possible, lost and unknown
    sum to live_bytes."""
    findings: Optional[Sequence[FindingRecord]]
    """Memory that the program need not have, where it is much, the largest first; null: not looked at (of a large
    process --owners looks)."""
    containers: Optional[Sequence[ContainerRecord]]
    """The containers that hold most, three at most, as in containers: whether they need it only the program knows;
    null: not looked at."""
    judgement: Annotated[StatementRecord, JUDGEMENT]
    growth: Optional[StatementRecord]
    """With --since or --again: what grew, by two moments."""
    grown: Optional[Sequence[GrownType]]
    """The types that grew between the two, as in trend; null: not told by both."""
    measure: Annotated[Optional[str], ("enum", ("resident", "anonymous", "address-space"))]
    """What the parts measure; null: there are none."""
    html: Optional[Written]
    """The page that was written."""


class ReportSection(NamedTuple):
    """A command's answer, or why there is none."""

    keys: Mapping[str, object]
    problems: Sequence[Statement] = ()


CUT_SHORT = ReportSection({"failed": "stopped before it was looked at whole"})


class HtmlReport:
    """Gathers what a page shows. Create it before a process is held."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sections: dict[str, ReportSection] = {}
        more = " --with-values" if context.options.with_values else ""
        self._apart = [f"{asked}{more if asked.partition(' ')[0] in KEYED else ''}" for asked in APART]
        for asked in (*AT_ONCE, *self._apart):
            parse_request(asked)
        for name in optional_libraries.NAMES:
            optional_libraries.where(name)

    def read_at_once(self) -> None:
        """Runs the commands of AT_ONCE, while the process is held."""
        session = self._context.session
        name = next((each.name for each in session.target_threads if each.tid == session.target.pid), None)
        self._sections["process"] = ReportSection({"name": name})
        for name in AT_ONCE:
            self._sections[name] = _section_of(self._context, name)

    def answer(
        self,
        report: ReportDocument,
        concluded: report_lines.Conclusions,
        problems: list[Statement],
        looked: Optional[CopiedImage] = None,
        *,
        without_copy: Optional[Statement] = None,
    ) -> Answer:
        """The report's answer, after the page was written for --html. `looked`: the image in which pointers were
        followed; `without_copy`: why there is no copy if one is needed."""
        context = self._context
        path, style = context.options.html, context.style
        if without_copy is None:
            self._read_apart(looked)
        else:
            failed = ReportSection({"failed": sentence(without_copy)})
            self._sections.update({asked.partition(" ")[0]: failed for asked in (*self._apart, "map")})
        if CUT_SHORT in self._sections.values():
            context.session.stopped = True
            whole = sum(each != CUT_SHORT for each in self._sections.values())
            problems.append(Statement("stopped", {"parts": whole}))
        for section in self._sections.values():
            problems += [each for each in section.problems if each not in problems]
        # release first: a debugger may hold the process still
        context.door.release()
        shown = {**self._facts(concluded), **self._documents(report), "problems": sentences(problems)}
        data = filled("report", shown, title_of("heap report", shown))
        write_whole(path, data)
        head = [concluded.verdict, *_holder(concluded, style)]
        text = [*map(style.bold, head), f"{path}: {style.size(len(data))} written"]
        report.html = Written(file=path, bytes=len(data))
        return Answer(report, text, problems)

    def _read_apart(self, looked: Optional[CopiedImage]) -> None:
        session = looked.session if looked is not None else self._context.session
        beside = Context(self._context.door, self._context.options, session, copies=self._context.copies)
        for asked in self._apart:
            self._sections[asked.partition(" ")[0]] = _section_of(beside, asked)
        owners = self._sections["owners"]
        rows = owners.keys.get("owners")
        if looked is not None and isinstance(rows, list):
            owned_by = [Owner(row["kind"], row["name"], row["tid"], row["stale"]) for row in rows]
            names = [whose(looked.search, each) for each in owned_by]
            self._sections["owners"] = owners._replace(keys={**owners.keys, "whose": names, "no_sum": NO_SUM})
        self._sections["map"] = _section(beside, lambda: _map(beside))

    def _facts(self, concluded: report_lines.Conclusions) -> dict[str, object]:
        """Facts shown in addition to the documents."""
        located, target, door = self._context.session.located, self._context.target, self._context.door
        style = self._context.style
        held = concluded.held
        return {
            "pid": target.pid,
            "kind": target.kind,
            "glibc": located.version,
            "located_by": located.located_by,
            "taken": time.time() if target.kind == "live" else None,
            "held": door.held_seconds,
            "door": list(door.describe()),
            "holder": list(_holder(concluded, style)),
            "notes": list(concluded.notes),
            "told": [
                each
                for each, found in enumerate(concluded.found or ())
                if found in report_lines.worth_saying(concluded)
            ],
            "no_sum": report_lines.NO_SUM,
            "effects": [report_lines.effect_of(*each) for each in concluded.advice],
            "jointly": [each.called if report_lines.worth_telling(held, each.bytes) else None for each in held.jointly]
            if held is not None
            else [],
            "turns": [each.called for each in held.in_turn] if held is not None else [],
            "shared_pages": list(report_lines.pages_line(style, held)) if held is not None else [],
            "words": [[word.names, _typed_here(word.meaning, style)] for word in glossary.words()],
            "ways": [said.ways for _, said in concluded.advice],
        }

    def _documents(self, report: ReportDocument) -> dict[str, object]:
        documents = {"report": report.own(), **{each: section.keys for each, section in self._sections.items()}}
        map_keys = self._sections["map"].keys
        # the script that draws strips looks for these
        return {"heaps": [], "types": [], **map_keys, "called": _short_names(documents), "documents": documents}


def _short_names(documents: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Short names of types that documents spell in full."""
    found = {}
    for section, key in TYPED:
        rows = documents[section].get(key)
        types = [row.get("type") for row in rows] if isinstance(rows, list) else []
        found.update({each: type_words(each) for each in types if isinstance(each, str)})
    return {name: short for name, short in found.items() if short != name}


def _holder(concluded: report_lines.Conclusions, style: Style) -> Iterator[str]:
    """Who holds most of what is in use, if that matters."""
    held = concluded.held
    if held is not None and report_lines.facts_matter(concluded, held.live):
        yield from (f"Of what is in use, {line}." for line in report_lines.holds_most(style, held, 1))


def _typed_here(meaning: str, style: Style) -> str:
    """A glossary word's meaning, with commands as this door's user types them."""
    return re.sub("`heap ([^`]+)`", lambda found: f"`{_typed(found[1], style)}`", meaning)


def _typed(words: str, style: Style) -> str:
    return style.applied(words) if "--apply" in words else style.typed(words)


def _section_of(context: Context, words: str) -> ReportSection:
    def ask() -> ReportSection:
        answer = parse_request(words).answered(context)
        return ReportSection({**answer.document.own(), **answer.beside}, answer.problems)

    return _section(context, ask)


def _section(context: Context, ask: Callable[[], ReportSection]) -> ReportSection:
    if context.session.stopped:
        return CUT_SHORT
    try:
        return ask()
    except ArenascopeError as error:
        return ReportSection({"failed": str(error)})
    except KeyboardInterrupt:
        context.session.stopped = True
        return CUT_SHORT


def _map(context: Context) -> ReportSection:
    """The strips of every heap, with the types that hold back most memory."""
    session, picture = context.session, HeapStrips()
    types = None
    if session.started:
        draw(session, None, page_cells([heap for heaps in session.heaps.values() for heap in heaps]), picture)
        if not (session.stopped or session.target.image.redacted):
            types = lay_types(types_of(session), picture)
    said = map_sentences(context.style, session, picture.strips)
    keys = {"sentence": "; ".join(said), **strips_of_page(session, picture, types)}
    return ReportSection(keys, [*picture.problems, *problems_of(session)])


STOPPED = "stopped"
"""The problem's id if Ctrl-C ended the answer."""


def without_copy(options: Namespace) -> Optional[Statement]:
    """Why this report must do without a copy, which an earlier look could not make; None: it need not."""
    why: Optional[Statement] = getattr(options, "without_copy", None)
    return why


def counts_containers(options: Namespace) -> bool:
    """Whether containers are counted at both moments: the snapshot has them, or both looks have types."""
    if without_copy(options) is not None:
        return False
    if options.since is None:
        return options.again is not None and bool(options.types)
    try:
        return "containers" in read(options.since)
    except ArenascopeError:
        return False  # the command itself reports it


CONTAINERS = 3
"""And how many containers."""


def may_look_unasked(options: Namespace) -> bool:
    """Whether blocks are looked at without an option, if that is cheap. Of one subject of many, and of a second moment,
    they are not: these looks are to be short."""
    is_short = options.quick or options.since is not None or options.again is not None
    return not (is_short or getattr(options, "one_of_many", False) or without_copy(options) is not None)


def is_unasked(options: Namespace) -> bool:
    """Whether a process is copied without an option."""
    return bool(getattr(options, "unasked", False))


def settle(options: Namespace, pid: int) -> None:
    allowed = getattr(options, "hold_at_most", None) or HOLD
    options.unasked = may_look_unasked(options) and live_copy.is_worth_a_copy(pid, allowed)


def takes_copy(options: Namespace) -> bool:
    looks_into_blocks = options.types or options.owners or options.html or is_unasked(options)
    return (bool(looks_into_blocks) and without_copy(options) is None) or counts_containers(options)


def requested_parts(options: Namespace) -> list[str]:
    """Parts of the report that only an option shows."""
    return [name for name in ("types", "owners") if getattr(options, name)]


def once_more(options: Namespace, error: Optional[HoldTooShort] = None) -> HoldEnded:
    """Makes the caller look again, without a copy. `error`: why there is none; None: the user stopped it."""
    if error is None:
        options.without_copy = stopped_before(options)
    elif is_unasked(options) and not requested_parts(options):
        options.quick = True
    else:
        options.without_copy = hold_over(error.at_most, _left_out(options))
    options.types = options.owners = options.unasked = False
    return HoldEnded(error.message if error else STOPPED, error.hint if error else None, again=True)


def stopped_before(options: Namespace) -> Statement:
    """The problem: Ctrl-C came before all that was asked for."""
    return Statement(STOPPED, names=_left_out(options))


def _left_out(options: Namespace) -> Mapping[str, str]:
    unasked = ["types", "owners"] if is_unasked(options) else ["containers"]
    *others, last = ["types", "owners", "leaks"] if options.html else requested_parts(options) or unasked
    return {LEFT_OUT: f"{', '.join(others)} and {last}" if others else last}


TYPES = FINDINGS = 20
"""How many types and findings the document has."""


@command(
    "where memory is",
    "report",
    arguments=(
        argument("--full", action="store_true", help="all parts; for each step its cost and all ways to take it"),
        argument("--types", action="store_true", help="show what the blocks are, also of a large process"),
        argument(
            "--owners",
            action="store_true",
            help="show who holds the blocks, and what of them is not needed, also of a large process",
        ),
        argument(
            "--quick", action="store_true", help="look at free lists alone: a shorter hold, nothing about blocks in use"
        ),
        argument("--html", metavar="FILE", help="write one self-contained page, with types, owners and leaks"),
        argument(
            "--since",
            metavar="FILE",
            help="show what grew since this snapshot; of one made with --types, which types and which container",
        ),
        argument(
            "--again",
            type=seconds,
            metavar="TIME",
            help="look twice, this far apart (2m; a number alone: seconds), and show what grew (shell); with "
            "--types, which types and which container",
        ),
        WITH_VALUES,
        RULES,
    ),
    lists=lambda options: not takes_copy(options),
    mappings=always,
    copies=takes_copy,
    whole=takes_copy,
    settle=settle,
)
def report_command(context: Context) -> Answer:
    """Say where resident memory went, what of it is not needed and why, and what would bring it back.

    The parts sum to RSS; all is read while the process is stopped. First comes what the program need not have: room
    that containers do not use, objects that are no longer listed, what is lost, free memory that blocks pin. For that
    the shell copies a process of at most 2 GiB and lets it run on; of a larger one --owners does it. Each cause and
    each step to take comes with figures of this process. The effect of a step is what it would have freed here: exact
    for malloc_trim and the tops, a bound otherwise.
    """
    try:
        return _report(context)
    except HoldTooShort as error:
        if not takes_copy(context.options):
            raise
        raise once_more(context.options, error) from None


class _Blocks(NamedTuple):
    """Findings about single blocks; None if nobody looked."""

    looked: Optional[CopiedImage] = None
    """The image in which pointers were followed."""
    seen: Optional[LiveBlockKinds] = None
    """Types of live blocks, with the memory that they hold back."""
    waste: Optional[Sequence[WasteRow]] = None
    """What of them is not needed."""
    containers: Sequence[ContainerRow] = ()
    """Those that hold most."""
    retained: Mapping[int, int] = {}
    """Bytes that a type's blocks keep, by its index."""
    held_by: Mapping[int, HeldMost] = {}
    """Who holds most of them."""


class _Growth(NamedTuple):
    """The growth between two moments; empty if there is only one."""

    sentence: Optional[Statement] = None
    types: Optional[list[Grown]] = None


def _report(context: Context) -> Answer:
    """Makes the report.

    The order keeps the reader's own traces out of the figures. Reading memory can map zero pages, so page tables and
    smaps are read first, and single blocks last. Figures are computed once all is read, as the process may run on by
    then.
    """
    before = _moment_before(context)
    page = HtmlReport(context) if context.options.html else None
    session = _looked_at(context)
    plans = trims(session)
    context.means = find_means(session, context.target)
    if page is not None:
        context.style = context.style.elsewhere
    facts_of = _facts_but_for_a_picture(session, plans)
    resident = read_resident(session, plans)
    blocks = _Blocks()
    if before is None and (resident is not None or page is not None):
        blocks = _look_closer(context, page)
    picture = resident.picture() if resident is not None else None
    grown = _growth(context, before)
    if before is not None:
        # compare the two moments before reading any blocks
        blocks = _look_closer(context, page)
    if picture is None:
        concluded = _without_mappings(context, plans, grown)
    else:
        facts = _with_blocks(context, facts_of(picture), blocks)
        facts = facts._replace(growth=what_they_show(grown.sentence), tells_types_that_grow=bool(grown.types))
        live = live_bytes(blocks.looked.search) if blocks.looked is not None else 0
        found = find_all(blocks.waste or (), facts, live) if blocks.looked is not None else None
        concluded = _conclusions(context, facts, grown, found, live)
        if blocks.looked is None and may_look_unasked(context.options):
            concluded = concluded._replace(notes=[*concluded.notes, *_not_looked(context, picture)])
    if blocks.looked is not None:
        concluded = concluded._replace(waste=blocks.waste, found=concluded.found or (), containers=blocks.containers)
        concluded = concluded._replace(retained=blocks.retained, held_by=blocks.held_by)
        concluded = concluded._replace(notes=[*concluded.notes, *_unknown_types(context, blocks)])
    return _answer(context, picture, concluded, page, blocks.looked)


def _unknown_types(context: Context, blocks: _Blocks) -> Iterator[str]:
    """Why nothing is told of what the program does with its blocks, or not all of Python's objects are known."""
    if blocks.looked is None or context.session.stopped:
        return
    search, nothing = blocks.looked.search, not (blocks.waste or blocks.containers)
    for each in missing_containers(context, search, is_unknown(search)):
        if each.id == NOT_REACHED or (nothing and each.id != "locals-not-known"):
            yield note_text(each)


def _not_looked(context: Context, picture: ResidentPicture) -> Iterator[str]:
    """Why blocks were not looked at unasked, and what that takes."""
    session = context.session
    if not session.started or session.stopped or session.target.image.redacted:
        return
    if not is_there():
        yield report_lines.NO_ENGINE.format(describe().problem)
    else:
        cost, style = live_copy.cost_of_search(session, picture.known), context.style
        yield report_lines.NOT_LOOKED.format(
            style.typed("report --owners"), duration(max(1.0, cost.seconds)), style.size(cost.bytes)
        )


def _moment_before(context: Context) -> Optional[JsonObject]:
    """The moment to compare with. If a copy will be needed, room for it is made before."""
    options = context.options
    if options.since is None and options.again is None:
        return None
    return moment_before(context, counts_containers(options))


def _look_closer(context: Context, page: Optional[HtmlReport]) -> _Blocks:
    """Reads single blocks; only after residency was read."""
    if page is not None:
        page.read_at_once()
    looked = _looked(context)
    seen = types_of(context.session).seen if _wants_types(context, looked) else None
    blocks = _Blocks(looked, seen)
    if looked is None:
        return blocks
    try:
        blocks = blocks._replace(waste=waste_in(looked.search), containers=containers_in(looked.search)[:CONTAINERS])
        if seen is None:
            return blocks
        names = HolderNames(looked.search, looked.lost, context.user_data)
        live = types_of(context.session).live
        return blocks._replace(retained=names.retained(live), held_by=names.kinds(live))
    except KeyboardInterrupt:
        context.session.stopped = True
        return blocks


def _with_blocks(context: Context, facts: Facts, blocks: _Blocks) -> Facts:
    looked = blocks.looked
    held = _held(context, looked) if looked is not None else None
    unnamed: Sequence[Statement] = ()
    if looked is not None and held is not None:
        keepers = [(each.owner.name, each.bytes) for each in held.keepers]
        unnamed = unnamed_variables(context.target, looked.session.target, keepers)
        held = held._replace(cycles=sum(each.unused for each in blocks.waste or () if each.reason == "cycle"))
    return facts._replace(
        seen=blocks.seen,
        held=held,
        without_symbols=unnamed,
        redacted=context.session.target.image.redacted,
    )


def _conclusions(
    context: Context, facts: Facts, grown: _Growth, found: Optional[Sequence[ReportFinding]], live: int
) -> report_lines.Conclusions:
    """`live`: bytes of all blocks, if these were looked at."""
    judgement, causes = judge(facts), [(each, cause(each)) for each in find_causes(facts)]
    advice = [(each, words(each, facts, context.style)) for each in find_advice(facts)]
    beside = [*report_lines.notes(facts.picture, in_a_call=_in_a_call(context, facts.picture))]
    beside += further_apart(context.options.again, grown.sentence)
    if not context.session.started:
        beside += map(report_lines.NO_BLOCKS.format, requested_parts(context.options))
    told = worth_saying(found or (), live)
    if told:
        # what is known to be too much need not be seen to grow
        advice.sort(key=lambda each: each[0].id in LOOKS)
    has_waste = any(each.waste is not None for each in told)
    said = verdict(judgement, compared=facts.growth is not None, has_waste=has_waste)
    return report_lines.Conclusions(
        judgement,
        said,
        causes,
        advice,
        notes=beside,
        growth=grown.sentence,
        types_grown=grown.types,
        facts=facts,
        found=found,
        live=live,
    )


def _looked_at(context: Context) -> Session:
    """The session to read. If the report needs a copy, a live process of the shell's is copied and let go; the copy is
    read."""
    if takes_copy(context.options):
        try:
            _ = context.session
        except HoldOver as over:
            raise over.ended from None
        except KeyboardInterrupt:
            if context.seen is None:
                raise  # nothing was held yet: an ordinary Ctrl-C
            raise once_more(context.options) from None
    return context.session


def _looked(context: Context) -> Optional[CopiedImage]:
    """The image in which pointers are followed: in the shell a copy, of a large process only with --owners."""
    session, options = context.session, context.options
    # with --html go on: the page says why a part is missing
    if session.stopped or without_copy(options) is not None or not (session.started or options.html):
        return None
    if options.owners or (options.html and not session.target.image.redacted):
        return live_copy.looked(context)
    if not may_look_unasked(options):
        return None
    if context.door.name == "shell" and context.target.kind == "live" and not is_unasked(options):
        return None
    return live_copy.unasked_search(context)


def _held(context: Context, looked: CopiedImage) -> Optional[HeldSums]:
    try:
        return summed(looked.search, looked.lost, asked=bool(context.options.owners or context.options.html))
    except KeyboardInterrupt:
        context.session.stopped = True
        return None


def _wants_types(context: Context, looked: Optional[CopiedImage]) -> bool:
    session, options = context.session, context.options
    if not session.started or session.stopped or without_copy(options) is not None:
        return False
    return looked is not None or bool(options.types or (options.html and not session.target.image.redacted))


def _without_mappings(context: Context, plans: Sequence[Trim], grown: _Growth) -> report_lines.Conclusions:
    """Conclusions without mappings (a remote stub): only malloc's own figures are known."""
    session, lacking = context.session, [*map(report_lines.NOT_HERE.format, requested_parts(context.options))]
    if not session.started:
        return report_lines.Conclusions(
            Statement("no-heap", text=NO_HEAP), NO_HEAP, notes=lacking, growth=grown.sentence
        )
    space = address_space(plans, session.usages)
    said = space_verdict(space)
    return report_lines.Conclusions(space, said, notes=[report_lines.NO_RESIDENCY, *lacking], growth=grown.sentence)


def _in_a_call(context: Context, picture: ResidentPicture) -> bool:
    """Whether something could not be read because a thread was inside malloc."""
    session = context.session
    live = context.target.kind == "live" and session.started
    return not picture.whole and live and any(each.mutex for each in session.headers)


def _growth(context: Context, before: Optional[JsonObject]) -> _Growth:
    """Compares two moments; types only if both have them."""
    if before is None:
        return _Growth()
    after = take_moment(context, counts_containers(context.options))
    grown = growth(before, after)
    return _Growth(grown, grown_types([before, after]) if what_they_show(grown) else None)


def _answer(
    context: Context,
    picture: Optional[ResidentPicture],
    concluded: report_lines.Conclusions,
    page: Optional[HtmlReport],
    looked: Optional[CopiedImage],
) -> Answer:
    lacking, stopped = without_copy(context.options), context.session.stopped
    if stopped and lacking is None and page is None and requested_parts(context.options):
        lacking = stopped_before(context.options)
    problems = [*([lacking] if lacking is not None else []), *problems_of(context.session)]
    context.session.stopped |= lacking is not None and lacking.id == STOPPED
    found = _found(context, picture, concluded)
    if page is not None:
        return page.answer(found, concluded, problems, looked, without_copy=lacking)
    text: Iterable[str] = [concluded.verdict]
    if picture or context.session.started or concluded.growth:
        named, options = not context.session.target.image.redacted, context.options
        text = report_lines.lines(
            context.style, picture, concluded, full=options.full, named=named, asked=requested_parts(options)
        )
    # the problem is left out: the first sentence names the allocator that serves malloc
    return Answer(found, text, problems, told=[REPLACED] if picture is not None else [])


THRESHOLDS = ("trim_threshold", "mmap_threshold", "top_pad")
"""Members of mp_ that causes and advice depend on."""


def _facts_but_for_a_picture(session: Session, plans: Sequence[Trim]) -> Callable[[ResidentPicture], Facts]:
    """All facts except the picture. They are read now, as the process may be let go before the picture is made."""
    depends_on_mp(session, "arena_max", *THRESHOLDS)
    release, params = session.located.version, session.params
    return partial(
        Facts,
        params=params if params and set(THRESHOLDS) <= params.values.keys() else None,
        page=session.target.page_size,
        usages=session.usages if session.started else (),
        threads=len(session.target_threads),
        limit=arena_limit(session.params, session.layout, session.target).arenas,
        started=session.started,
        calls=sum(len(trim.plan.madvise or ()) for trim in plans),
        tunables=session.layout.behaviour.glibc_tunables,
        release=release or alike(session.layout.release),
        allocators=session.located.allocators,
    )


def _found(context: Context, picture: Optional[ResidentPicture], concluded: report_lines.Conclusions) -> ReportDocument:
    seen = concluded.facts.seen if concluded.facts else None
    grown = concluded.growth
    return ReportDocument(
        rss_bytes=picture.rss if picture else None,
        swap_bytes=picture.swapped if picture else None,
        parts=[
            ResidentPart(part=name, bytes=picture.parts[name], label=report_lines.label_of(picture, name))
            for name in (PARTS if picture else ())
            if picture and name in picture.parts
        ],
        verdict=concluded.verdict,
        causes=[
            CauseRecord.of(
                statement_record(
                    said._replace(names=unmarked_names(said.names)), report_lines.cause_line((what, evidence))
                ),
                cause=what,
                evidence=evidence,
            )
            for said, (what, evidence) in concluded.causes
        ],
        advice=[_advice(each, said) for each, said in concluded.advice],
        other_mappings=[
            OtherMapping.of(each, address=each.region.start, allocator=each.maker or None)
            for each in (picture.others if picture else ())
        ],
        allocators=_allocators(context.session.located.allocators, picture),
        types=None
        if seen is None
        else [typed(TypeOfReport, row, retained_bytes=concluded.retained.get(row.index)) for row in seen.rows[:TYPES]],
        held=concluded.held and sums_of(concluded.held),
        judgement=statement_record(concluded.judgement, concluded.verdict),
        findings=None
        if concluded.found is None
        else [finding_record(each, concluded.live) for each in concluded.found[:FINDINGS]],
        containers=None if concluded.waste is None else [container_record(each) for each in concluded.containers],
        growth=grown and statement_record(grown, growth_sentence(grown)),
        grown=None if concluded.types_grown is None else [GrownType.of(each) for each in concluded.types_grown],
        measure=picture.measure if picture else None,
        html=None,
    )


def _allocators(allocators: Sequence[Allocator], picture: Optional[ResidentPicture]) -> list[AllocatorShare]:
    """Other allocators with what each has in memory: exact where its mappings are known, otherwise an upper bound."""
    made = picture.made if picture else {}
    untold = picture.elsewhere - sum(made.values()) if picture else None
    return [
        AllocatorShare.of(each, resident_bytes=made.get(each.name), at_most_bytes=made.get(each.name, untold))
        for each in allocators
    ]


def _advice(advice: Advice, said: AdviceText) -> AdviceRecord:
    line = report_lines.advice_line(Style(), advice, said)
    return AdviceRecord.of(
        statement_record(Statement(advice.id, advice.figures, unmarked_names(advice.names)), line),
        said,
        advice,
        how=said.how,
        cost=said.cost or None,
        not_when=said.not_when or None,
    )


class PageSharing(NamedTuple):
    """A group that shares pages with others."""

    place: int
    more: int
    """Bytes that leave memory only if it is freed as well as the others."""
    returns: int
    """Bytes that leave memory in all."""


def pages_of_sets(
    search: ImageSearch, alone: Sequence[int], jointly: int, nobody: Optional[int]
) -> Optional[Sequence[OwnerPages]]:
    """What groups of blocks have in memory, by the set of groups that have something on a page (a bit for each). The
    groups are: what each of some holdings has alone, by their numbers; what each of the first joint owners holds; what
    nobody holds. None if it is not known what is in memory."""
    owners = find_owners(search)
    count = len(alone) + jointly + 1
    rest = array("i", [1 << count])
    of_one = rest * (1 + max((each.number for each in owners.holdings), default=0))
    for place, number in enumerate(alone):
        of_one[number] = 1 << place
    if nobody is not None:
        of_one[nobody] = 1 << count - 1
    of_several = rest * (JOINTLY + len(owners.jointly))
    for at in range(jointly):
        of_several[JOINTLY + at] = 1 << len(alone) + at
    whose = chosen(owners.whose, owners.sharing, of_one, of_several)
    # all that is set stays so beside nobody's
    return returns(search, whose, 2 << count, "sets")


class PagesFreed:
    """What leaves memory if groups of blocks are freed: each alone, and one after the other."""

    def __init__(self, kept: Sequence[OwnerPages], groups: Sequence[MainHolder]) -> None:
        """`kept`: see pages_of_sets; the last group is what nobody holds."""
        self._kept, self._groups = kept, groups
        self._returning = {who: each.returns for who, each in enumerate(kept) if who and each.returns}
        """Bytes that leave memory only once all of a set of groups are freed, by the set."""
        # of some that hold together it is not known which blocks are theirs alone
        self._held = [place for place in range(len(groups) - 1) if self._of(place).resident]
        self._every = sum(1 << place for place in self._held)
        self.returns = self._together(self._every)

    def _of(self, place: int) -> OwnerPages:
        """What the group has in memory, and what would leave if it alone were freed."""
        return self._kept[1 << place]

    def _together(self, places: int) -> int:
        """Bytes that leave memory if all groups of a set are freed (a bit for each)."""
        return sum(size for who, size in self._returning.items() if who & places == who)

    def _beside(self, place: int) -> Iterator[PageSharing]:
        """Adds groups to this one, always the one that brings most with those added before."""
        groups, rest = 1 << place, self._every & ~(1 << place)
        while rest:
            found = [self._with(groups, other) for other in range(rest.bit_length()) if rest >> other & 1]
            most = max(found, key=lambda each: each.more)
            yield most
            groups, rest = groups | 1 << most.place, rest & ~(1 << most.place)

    def _with(self, groups: int, other: int) -> PageSharing:
        returned = self._together(groups | 1 << other)
        return PageSharing(other, returned - self._together(groups) - self._together(1 << other), returned)

    def owners(self) -> Iterator[MainHolder]:
        """The owners, each with what freeing it alone returns, and the owner that it shares most pages with."""
        for place, each in enumerate(self._groups[:-1]):
            kept, most = self._of(place), next(self._beside(place), None)
            if not kept.resident and len(each.owners) > 1:
                yield each
                continue
            beside = PageSharer(self._groups[most.place].called, most.more, most.returns) if most is not None else None
            yield each._replace(returns=kept.returns, resident=kept.resident, beside=beside)

    def in_turn(self) -> Iterator[FreedNext]:
        """Groups in the order in which to free them: always the one that brings most next; what nobody holds comes
        last."""
        if not self._held:
            return
        first = max(self._held, key=lambda place: self._of(place).returns)
        yield self._turn(first, self._of(first).returns)
        for each in self._beside(first):
            yield self._turn(each.place, each.returns)
        nobody = len(self._groups) - 1
        if self._of(nobody).resident:
            yield self._turn(nobody, self._together(self._every | 1 << nobody))

    def _turn(self, place: int, so_far: int) -> FreedNext:
        group, alone = self._groups[place], self._of(place).returns
        holds_up = self.returns - self._together(self._every & ~(1 << place))
        return FreedNext(group.owners, group.alone, group.called, alone=alone, returns=so_far, holds_up=holds_up)


NOBODYS = "what nobody holds"
ASKED = 6
"""For how many owners the report works out whose pages they share. An owner that holds little can be in the way."""


def summed(search: ImageSearch, lost: int, asked: bool) -> HeldSums:
    """`lost`: bytes of a process that could not be copied; `asked`: the owners are asked for themselves, not only with
    something else."""
    blocks = search.blocks
    marks = Reach(search, build(search)).marks
    unreached: Sequence[int] = places_of(UNMARKED, marks)
    inside: Sequence[int] = places_of(POSSIBLE, marks)
    leaks: Optional[Leaks] = None
    if unreached or next(build(search).stale.unused(), None) is not None:
        leaks = find_leaks(search, lost)
        unreached, inside = leaks.definite.blocks(), leaks.possible.blocks()
    nowhere, possible = blocks.bytes_of(unreached), blocks.bytes_of(inside)
    doubted = bool(leaks.doubts if leaks is not None else doubts(search.session, search.roots, blocks, lost))
    known = leaks is not None and not doubted
    lost_blocks = len(unreached) if known else 0
    lost_rows = _lost_rows(search, leaks.definite, "definite") if leaks is not None and lost_blocks else ()
    unused = leaks.unused if leaks is not None and not doubted else None
    perhaps_rows = _lost_rows(search, unused, "possible") if unused is not None else ()

    def called(owners: Sequence[Owner]) -> str:
        return together(search, OtherHolders(owners, whole=True))

    owners = find_owners(search)
    holders = [each for each in owners.holdings if each.owner.kind != UNREACHED]
    named = holders[:ASKED]
    keepers = [
        MainHolder([each.owner], each.bytes, each.alone_bytes, called([each.owner]), each.alone_blocks)
        for each in named
    ]
    jointly = [MainHolder(each.owners, each.bytes, each.bytes, called(each.owners)) for each in owners.jointly]
    freed: Optional[PagesFreed] = None
    if asked and max((each.alone for each in (*keepers, *jointly)), default=0) >= WORTH:
        nobody = next((each.number for each in owners.holdings if each.owner.kind == UNREACHED and lost_blocks), None)
        kept = pages_of_sets(search, [each.number for each in named], len(jointly), nobody)
        if kept is not None:
            freed = PagesFreed(kept, [*keepers, *jointly, MainHolder((), nowhere, nowhere, NOBODYS)])
            told = [*freed.owners()]
            keepers, jointly = told[: len(named)], told[len(named) :]
    return HeldSums(
        live=blocks.bytes,
        reached=blocks.bytes - nowhere - possible,
        possible=possible,
        lost=nowhere if known else 0,
        unknown=0 if known else nowhere,
        lost_blocks=lost_blocks,
        doubted=doubted,
        keepers=keepers,
        others=sum(each.bytes for each in holders[FIRST:]),
        jointly=jointly,
        in_turn=[*freed.in_turn()] if freed is not None else (),
        held_returns=freed.returns if freed is not None else 0,
        lost_rows=lost_rows,
        perhaps_rows=perhaps_rows,
        perhaps=blocks.bytes_of(unused.blocks()) if unused is not None else 0,
        returns=_returned(search) if asked and lost_blocks else None,
    )


def _lost_rows(search: ImageSearch, lost: Lumps, strength: str) -> Sequence[LeakRow]:
    return with_guesses(search, lost, rows_of(search, lost, strength))


def _returned(search: ImageSearch) -> Optional[int]:
    """Bytes that leave memory if all lost blocks are freed."""
    whose = owned(search)
    nobodys = [each for each in whose.owners.holdings if each.owner.kind == UNREACHED]
    if whose.kept is None or not nobodys:
        return None
    return whose.kept[nobodys[0].number].returns
