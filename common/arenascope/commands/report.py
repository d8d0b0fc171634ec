"""heap report: where resident memory went, why it stays, what would bring it back."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING, Callable, Iterable, Mapping, NamedTuple, Optional, Sequence

from ..analysis.advice import Advice, find_advice
from ..analysis.causes import Facts, find_causes
from ..analysis.diff import Document
from ..analysis.held_back import LiveBlockKinds, TypeRow
from ..analysis.report import PARTS, ResidentPicture
from ..analysis.report_holders import HeldSums
from ..analysis.trend import Grown, grown_types, growth, what_they_show
from ..analysis.trim import Trim
from ..analysis.verdict import address_space, judge
from ..base.errors import ArenascopeError, HoldEnded, HoldOver, HoldTooShort
from ..base.hold_limits import hold_over
from ..base.model import LEFT_OUT, REPLACED, Statement
from ..blocks.graph.owners import OtherHolders
from ..blocks.graph.report_sums import summed
from ..blocks.types_of_image import types_of
from ..glibc.params import arena_limit
from ..glibc.release_table import alike
from ..present.formats.json import hexadecimal
from ..present.json_documents import report_records as records
from ..present.json_documents.allocator_rows import allocator_shares
from ..present.json_documents.moment_records import GrownType
from ..present.json_documents.record import statement_record
from ..present.screens.advice_sentences import words
from ..present.screens.growth import further_apart, growth_sentence
from ..present.screens.holder_names import sums_of
from ..present.screens.owners import together
from ..present.screens.report import (
    NO_BLOCKS,
    NO_RESIDENCY,
    NOT_HERE,
    Conclusions,
    advice_line,
    cause_line,
    label_of,
    lines,
    notes,
)
from ..present.screens.verdict import cause, space_verdict, verdict
from ..present.screens.ways_to_do import AdviceText
from ..present.shared_text.findings import unnamed_variables
from ..present.shared_text.text import NO_HEAP, Style, unmarked_names
from ..session.before_hold import read_moment
from ..session.parallel_sweeps import likely_chunks
from ..session.problems import depends_on_mp, problems_of
from ..session.resident import read_resident
from ..session.session import Session
from ..session.trims import find_means, trims
from .framework.arguments import RULES, seconds
from .framework.command import WITH_VALUES, Answer, Context, argument, command
from .snapshot import moment_before, take_moment
from .steps import live_copy
from .steps.live_copy import expect_copy, look_at_copy_if_let_go, quick_core_search
from .steps.report_sections import HtmlReport
from .steps.snapshot_file import read
from .types import typed

if TYPE_CHECKING:
    from ..blocks.graph.leads import Owner
    from .steps.live_copy import CopiedImage

STOPPED = "stopped"
"""The problem's id if Ctrl-C ended the answer."""


def without_copy(options: Namespace) -> Optional[Statement]:
    """Why this report must do without a copy, which an earlier look could not make; None: it need not."""
    why: Optional[Statement] = getattr(options, "without_copy", None)
    return why


def looks_into_blocks(options: Namespace) -> bool:
    return bool(options.types or options.owners or options.html) and without_copy(options) is None


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


def takes_copy(options: Namespace) -> bool:
    return looks_into_blocks(options) or counts_containers(options)


def requested_parts(options: Namespace) -> list[str]:
    """Parts of the report that only an option shows."""
    return [name for name in ("types", "owners") if getattr(options, name)]


def once_more(options: Namespace, error: Optional[HoldTooShort] = None) -> HoldEnded:
    """Makes the caller look again, without a copy. `error`: why there is none; None: the user stopped it."""
    if error is None:
        options.without_copy = stopped_before(options)
    else:
        options.without_copy = hold_over(error.at_most, error.foretold, _left_out(options))
    options.types = options.owners = False
    return HoldEnded(error.message if error else STOPPED, error.hint if error else None, again=True)


def stopped_before(options: Namespace) -> Statement:
    """The problem: Ctrl-C came before all that was asked for."""
    return Statement(STOPPED, names=_left_out(options))


def _left_out(options: Namespace) -> Mapping[str, str]:
    *others, last = ["types", "owners", "leaks"] if options.html else requested_parts(options) or ["containers"]
    return {LEFT_OUT: f"{', '.join(others)} and {last}" if others else last}


TYPES = 20
"""How many types the document has."""
BY_ITSELF = 150_000
"""Up to so many chunks of a core are examined without an option: that takes half a second."""


@command(
    "where memory is",
    "Say where resident memory went, why it stays, and what would bring it back.",
    "report",
    "The parts sum to RSS; all is read while the process is stopped. Each cause and each advice comes with figures of "
    "this process. The effect of an advice is what it would have freed here: exact for malloc_trim and the tops, a "
    "bound otherwise.",
    arguments=(
        argument("--full", action="store_true", help="all parts; for each advice its cost and all ways to apply it"),
        argument("--types", action="store_true", help="also show what the blocks are; copies all memory"),
        argument("--owners", action="store_true", help="also show who holds the blocks; copies all memory"),
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
    reads=read_moment,
    whole=looks_into_blocks,
)
def report_command(context: Context) -> Answer:
    try:
        return _report(context)
    except HoldTooShort as error:
        if not takes_copy(context.options):
            raise
        raise once_more(context.options, error) from None


class _Blocks(NamedTuple):
    """What was found out about single blocks; None if nobody looked."""

    looked: Optional[CopiedImage] = None
    """The image in which pointers were followed."""
    seen: Optional[LiveBlockKinds] = None
    """Types of live blocks, with the memory that they hold back."""


class _Growth(NamedTuple):
    """What grew between two moments; empty if there is only one."""

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
        concluded = _conclusions(context, facts, grown)
    return _answer(context, picture, concluded, page, blocks.looked)


def _moment_before(context: Context) -> Optional[Document]:
    """The moment to compare with. If a copy will be needed, room for it is made before."""
    options = context.options
    if takes_copy(options):
        expect_copy(context)
    if options.since is None and options.again is None:
        return None
    return moment_before(context, counts_containers(options))


def _look_closer(context: Context, page: Optional[HtmlReport]) -> _Blocks:
    """Reads single blocks; only after residency was read."""
    if page is not None:
        page.read_at_once()
    looked = _looked(context)
    return _Blocks(looked, types_of(context.session).seen if _wants_types(context) else None)


def _with_blocks(context: Context, facts: Facts, blocks: _Blocks) -> Facts:
    looked = blocks.looked
    held = _held(context, looked) if looked is not None else None
    return facts._replace(
        seen=blocks.seen,
        held=held,
        without_symbols=_without_symbols(context, looked, held) if looked is not None and held is not None else (),
        redacted=context.session.target.image.redacted,
    )


def _conclusions(context: Context, facts: Facts, grown: _Growth) -> Conclusions:
    options, say = context.options, Style().size
    judgement, causes = judge(facts), [(each, cause(each, say)) for each in find_causes(facts)]
    advice = [(each, words(each, facts, say)) for each in find_advice(facts)]
    beside = [*notes(facts.picture, in_a_call=_in_a_call(context, facts.picture))]
    beside += further_apart(options.again, grown.sentence)
    if not context.session.started:
        beside += map(NO_BLOCKS.format, requested_parts(options))
    said = verdict(judgement, say, compared=facts.growth is not None)
    return Conclusions(
        judgement, said, causes, advice, notes=beside, growth=grown.sentence, types_grown=grown.types, facts=facts
    )


def _looked_at(context: Context) -> Session:
    """The session to read. If the report needs a copy, a live process of the shell's is copied and let go; the copy is
    read."""
    if takes_copy(context.options):
        try:
            look_at_copy_if_let_go(context)
        except HoldOver as over:
            raise over.ended from None
        except KeyboardInterrupt:
            if context.seen is None:
                raise  # nothing was held yet: an ordinary Ctrl-C
            raise once_more(context.options) from None
    return context.session


def _looked(context: Context) -> Optional[CopiedImage]:
    """The image in which pointers are followed. With --owners it is a copy in the shell. A small core is searched
    without an option."""
    session, options = context.session, context.options
    # with --html go on: the page says why a part is missing
    if session.stopped or without_copy(options) is not None or not (session.started or options.html):
        return None
    if options.owners or (options.html and not session.target.image.redacted):
        return live_copy.looked(context)
    return quick_core_search(context) if context.target.kind == "core" else None


def _held(context: Context, looked: CopiedImage) -> Optional[HeldSums]:
    def words(owners: Sequence[Owner]) -> str:
        return together(looked.search, OtherHolders(owners, whole=True))

    try:
        return summed(looked.search, looked.lost, words, asked=bool(context.options.owners or context.options.html))
    except KeyboardInterrupt:
        context.session.stopped = True
        return None


def _without_symbols(context: Context, looked: CopiedImage, held: HeldSums) -> Sequence[Statement]:
    return unnamed_variables(context.target, looked.session.target, [(each.name, each.bytes) for each in held.keepers])


def _wants_types(context: Context) -> bool:
    """Whether to name types. For a core people get them without an option, but documents do not: these are the same for
    a process and its core."""
    session, options = context.session, context.options
    if not session.started or session.stopped or without_copy(options) is not None:
        return False
    if options.html and not session.target.image.redacted:
        return True
    by_itself = context.target.kind == "core" and not options.json and not session.target.image.redacted
    return bool(options.types) or (by_itself and likely_chunks(session, BY_ITSELF) <= BY_ITSELF)


def _without_mappings(context: Context, plans: Sequence[Trim], grown: _Growth) -> Conclusions:
    """Conclusions without mappings (a remote stub): only malloc's own figures are known."""
    session, lacking = context.session, [*map(NOT_HERE.format, requested_parts(context.options))]
    if not session.started:
        return Conclusions(Statement("no-heap", text=NO_HEAP), NO_HEAP, notes=lacking, growth=grown.sentence)
    space = address_space(plans, session.usages)
    said = space_verdict(space, Style().size)
    return Conclusions(space, said, notes=[NO_RESIDENCY, *lacking], growth=grown.sentence)


def _in_a_call(context: Context, picture: ResidentPicture) -> bool:
    """Whether something could not be read because a thread was inside malloc."""
    session = context.session
    live = context.target.kind == "live" and session.started
    return not picture.whole and live and any(each.mutex for each in session.headers)


def _growth(context: Context, before: Optional[Document]) -> _Growth:
    """What grew; types only if both moments have them."""
    if before is None:
        return _Growth()
    after = take_moment(context, counts_containers(context.options))
    grown = growth(before, after)
    return _Growth(grown, grown_types([before, after]) if what_they_show(grown) else None)


def _answer(
    context: Context,
    picture: Optional[ResidentPicture],
    concluded: Conclusions,
    page: Optional[HtmlReport],
    looked: Optional[CopiedImage],
) -> Answer:
    lacking, stopped = without_copy(context.options), context.session.stopped
    if stopped and lacking is None and page is None and requested_parts(context.options):
        lacking = stopped_before(context.options)
    problems = [*([lacking] if lacking is not None else []), *problems_of(context.session)]
    context.session.stopped |= lacking is not None and lacking.id == STOPPED
    if page is not None:
        context.style = context.style.elsewhere
    found = _found(context, picture, concluded)
    if page is not None:
        return page.answer(found, concluded, problems, looked, without_copy=lacking)
    text: Iterable[str] = [concluded.verdict]
    if picture or context.session.started or concluded.growth:
        named, options = not context.session.target.image.redacted, context.options
        text = lines(context.style, picture, concluded, full=options.full, named=named, asked=requested_parts(options))
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


def _found(context: Context, picture: Optional[ResidentPicture], concluded: Conclusions) -> records.ReportDocument:
    seen = concluded.facts.seen if concluded.facts else None
    grown = concluded.growth
    return records.ReportDocument(
        rss_bytes=picture.rss if picture else None,
        swap_bytes=picture.swapped if picture else None,
        parts=[
            records.ResidentPart(part=name, bytes=picture.parts[name], label=label_of(picture, name))
            for name in (PARTS if picture else ())
            if picture and name in picture.parts
        ],
        verdict=concluded.verdict,
        causes=[
            records.CauseRecord.of(
                statement_record(said._replace(names=unmarked_names(said.names)), cause_line((what, evidence))),
                cause=what,
                evidence=evidence,
            )
            for said, (what, evidence) in concluded.causes
        ],
        advice=[_advice(context, each, said) for each, said in concluded.advice],
        other_mappings=[
            records.OtherMapping.of(each, address=hexadecimal(each.region.start), allocator=each.maker or None)
            for each in (picture.others if picture else ())
        ],
        allocators=allocator_shares(context.session.located.allocators, picture),
        types=None if seen is None else [_type(row) for row in seen.rows[:TYPES]],
        held=_sums(concluded.facts.held) if concluded.facts and concluded.facts.held else None,
        judgement=statement_record(concluded.judgement, concluded.verdict),
        growth=grown and statement_record(grown, growth_sentence(grown)),
        grown=None if concluded.types_grown is None else [GrownType.of(each) for each in concluded.types_grown],
        measure=picture.measure if picture else None,
        html=None,
    )


def _advice(context: Context, advice: Advice, said: AdviceText) -> records.AdviceRecord:
    words = advice_line(Style(), advice, said)
    return records.AdviceRecord.of(
        statement_record(Statement(advice.id, advice.figures, unmarked_names(advice.names)), words),
        action=said.action,
        effect_bytes=advice.effect,
        bound=advice.bound,
        evidence=said.evidence,
        how=list(said.how(context.style)),
        cost=said.cost or None,
        not_when=said.not_when or None,
    )


def _sums(held: HeldSums) -> records.LiveBlockSums:
    """Sums of live blocks, as the document has them."""
    return sums_of(held)


def _type(row: TypeRow) -> records.TypeOfReport:
    return typed(records.TypeOfReport, row, resident_bytes=row.resident, holds_back_bytes=row.holds_back)
