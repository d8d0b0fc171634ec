"""heap diff: what changed between two snapshots, or between one and now."""

from __future__ import annotations

from argparse import Namespace
from typing import Annotated, Iterator, Optional, Sequence

from ..analysis.compare_snapshots import CONTAINER, OF_FILES, Diff, FigureChange, JsonObject, allocators_of, compare
from ..base.class_names import type_words
from ..base.errors import ArenascopeError
from ..base.heap_model import Statement
from ..present.json_documents.record import JUDGEMENT, Document, Record, StatementRecord, statement_record
from ..present.json_documents.shared_records import OWNER_KINDS
from ..present.json_documents.snapshot_file import read
from ..present.screens import report_lines
from ..present.screens.report_lines import LABELS
from ..present.screens.verdict import outside_malloc_lines
from ..present.shared_text.lines_and_tables import Style, signed, table
from ..present.shared_text.problem_sentences import sentence
from ..session.problems import problems_of
from .framework.command import Answer, Context, always, argument, command
from .snapshot import look_limit, take

TREND = 64 << 10
SHORT = {
    "live": "in use",
    "mmapped": "in mmapped blocks",
    "tcache": "in thread caches",
    "returnable": "free for a trim to return",
    "thread_tops": "free in tops of thread arenas",
    "main_top": "free in the main arena's top",
    "scraps": "stranded",
    "unread": "in arenas that could not be read",
    "files": "program, libraries and files",
    "other": "other anonymous memory",
    "kernel": "the kernel's own",
}
"""Short names of the parts of resident memory, for sentences. (The table has the full names.)"""
TABLES = {
    "owners": "owner",
    "parts": "part",
    "arenas": "arena",
    "used": "used",
    "bins": "bin",
    "sizes": "size",
    "types": "type",
    "containers": CONTAINER,
}
"""Tables in their order, with the kind of figure that each shows."""


class ChangeRecord(Record):
    """A figure before and after."""

    name: str
    """Whose."""
    before: Optional[int]
    """Before; null: not known."""
    after: Optional[int]
    """After."""
    change: Optional[int]
    """By how much it changed."""
    per_hour: Optional[int]
    """The same per hour; null where the time is not known."""


class OwnedChange(ChangeRecord):
    """The figures of an owner, before and after."""

    name: str
    """The owner; of threads' stacks, registers and variables all threads' together."""
    before: int
    """Before."""
    after: int
    """After."""
    change: int
    """By how much it changed."""
    kind: Annotated[str, ("enum", OWNER_KINDS)]
    """What it is."""
    type: Optional[str]
    """The type that changed most of what it holds; null: not known."""


class DiffDocument(Document, command="diff"):
    """The answer of diff."""

    seconds: Optional[float]
    """Between the two; null: not known."""
    rss_bytes: ChangeRecord
    parts: Sequence[ChangeRecord]
    """Parts of resident memory."""
    arenas: Sequence[ChangeRecord]
    """Arenas, by what they took."""
    used: Sequence[ChangeRecord]
    """Arenas, by what the program holds."""
    bins: Sequence[ChangeRecord]
    """Lists of free chunks."""
    sizes: Sequence[ChangeRecord]
    """Sizes of blocks in use, where both have them."""
    types: Sequence[ChangeRecord]
    """Types of blocks in use, where both have them."""
    containers: Sequence[ChangeRecord]
    """Elements of containers by the way to them, where both have them; first those that hold more."""
    owners: Optional[Sequence[OwnedChange]]
    """What grew and stays first, then what threads are working on, then what shrank; null: not known of both."""
    verdict: str
    """What changed, in words."""
    judgement: Annotated[StatementRecord, JUDGEMENT]


def _no_chunks(options: Namespace) -> bool:
    """Whether the present moment needs no more than the lists of free chunks."""
    return options.after is None and not _has(options, "chunks", "types", "owners")


def _has(options: Namespace, *names: str) -> bool:
    try:
        return not read(options.before).keys().isdisjoint(names)
    except ArenascopeError:
        return False  # the command itself reports it


@command(
    "changes over time",
    "diff before.json",
    arguments=(
        argument("before", metavar="A", help="the earlier snapshot"),
        argument("after", metavar="B", nargs="?", help="the later one; without it, now"),
        argument("--limit", type=int, default=8, metavar="N", help="show N rows of each table at most (0: all)"),
    ),
    optional_subject=True,
    lists=_no_chunks,
    mappings=always,
    copies=lambda options: options.after is None and not _no_chunks(options),
    whole=lambda options: options.after is None and _has(options, "types", "owners"),
)
def diff_command(context: Context) -> Answer:
    """Show what changed between two snapshots, or between one and now.

    Growth by part of resident memory, by arena, by list of free chunks and (of snapshots made with --sizes, --types or
    --owners) by size, type or owner of block and by container, the largest change first, with rates where both tell
    when they were taken. Of owners what matters comes first: what one has more of that stays; then what threads are
    working on.
    """
    before = read(context.options.before)
    problems: list[Statement] = []
    if context.options.after is not None:
        after = read(context.options.after)
    else:
        sizes, types, owners = (name in before for name in ("chunks", "types", "owners"))
        limit = look_limit(context)
        after = take(context, sizes=sizes, types=types, owners=owners, limit=limit)
        problems = [*limit.problems, *problems_of(context.session)]
    for name, document in (("the earlier", before), ("the later", after)):
        known = [sentence(each) for each in problems]
        problems += [
            Statement("snapshot-problem", names={"snapshot": name}, text=f"{name} snapshot: {each}")
            for each in document.get("problems") or ()
            if each not in known
        ]
    diff = compare(before, after)
    judgement, verdict = _judge(diff), _sentence(context.style, diff)
    found = DiffDocument.of(
        diff,
        rss_bytes=_record(diff, diff.rss),
        **{name: [_record(diff, each) for each in getattr(diff, name)] for name in TABLES if name != "owners"},
        owners=None if diff.owners is None else [_record(diff, each) for each in diff.owners],
        verdict=verdict,
        judgement=statement_record(judgement, verdict),
    )
    return Answer(found, _lines(context, diff, after), problems)


def _judge(diff: Diff) -> Statement:
    change = diff.rss.change
    figures: dict[str, Optional[float]] = {
        "seconds": diff.seconds,
        "before_bytes": diff.rss.before,
        "after_bytes": diff.rss.after,
        "change_bytes": change,
        "exchanged": int(diff.exchanged),
        "one_process": None if diff.one_process is None else int(diff.one_process),
    }
    return Statement("unknown" if change is None else "grew" if change > 0 else "fell" if change else "same", figures)


def _record(diff: Diff, change: FigureChange) -> ChangeRecord:
    per_hour = diff.per_hour(change.change)
    per_hour = None if per_hour is None else round(per_hour)
    if change.kind is None:
        return ChangeRecord.of(change, per_hour=per_hour)
    return OwnedChange.of(change, per_hour=per_hour, type=change.mostly)


def _lines(context: Context, diff: Diff, after: JsonObject) -> Iterator[str]:
    style = context.style
    yield style.bold(_sentence(style, diff))
    if diff.one_process is not False:
        yield from outside_malloc_lines(allocators_of(after), {each.name: each.change for each in diff.parts})
    why_not = _no_rates(diff)
    rates = why_not is None
    for name, by in TABLES.items():
        changes: Optional[Sequence[FigureChange]] = getattr(diff, name)
        if not changes:
            continue
        yield ""
        rows = [
            [
                _named(each, name),
                *(report_lines.amount_cell(style, by, each_of) for each_of in (each.before, each.after)),
                report_lines.change_cell(style, by, each.change),
                *([_rate(style, diff, each, by)] if rates else []),
            ]
            for each in changes
        ]
        rate = "per minute" if by == CONTAINER else "per hour"
        headers = (report_lines.TITLES[by], "before", "after", "change", *([rate] if rates else []))
        yield from table(style, headers, rows, names=(0,), limit=context.options.limit)
    if not any(getattr(diff, name) for name in TABLES):
        yield "nothing else changed"
    elif why_not is not None:
        yield ""
        yield style.dim(why_not)


def _named(change: FigureChange, table: str) -> str:
    if table == "parts":
        return LABELS.get(change.name, change.name)
    if table == "types":
        return type_words(change.name)
    return change.name if change.mostly is None else f"{change.name}: {type_words(change.mostly)}"


def _sentence(style: Style, diff: Diff) -> str:
    if diff.one_process is False:
        return f"these are two processes, not two moments of one: {_changed(style, diff, 'from one to the other')}"
    when = "between the two" if diff.seconds is None else f"in {report_lines.interval_words(diff.seconds)}"
    order = " (the second was taken first: they are compared in the order of time)" if diff.exchanged else ""
    return _changed(style, diff, when) + order


def _changed(style: Style, diff: Diff, when: str) -> str:
    change = diff.rss.change
    if change is None:
        return f"{when}: how resident memory changed is not known{_kept(style, diff)}{_filled(diff)}"
    # a few pages come and go in many parts: these are named only if no part changed more
    large = [each for each in diff.parts if abs(each.change or 0) >= TREND] or diff.parts
    moved = ", ".join(f"{SHORT.get(each.name, each.name)} {signed(style, each.change)}" for each in large[:3])
    tail = f": {moved}" if moved else ""
    tail += _kept(style, diff) + _filled(diff)
    if not change:
        return f"{when} RSS stayed at {style.size(diff.rss.after)}{tail}"
    verb = "grew" if change > 0 else "fell"
    return f"{when} RSS {verb} by {style.size(abs(change))}, to {style.size(diff.rss.after)}{tail}"


def _kept(style: Style, diff: Diff) -> str:
    """The owner that grew most and keeps what it has."""
    first = next((each for each in diff.owners or () if each.stays), None)
    if first is None:
        return ""
    rate, seconds = "", diff.seconds or 0.0
    if first.before and seconds >= report_lines.LONG_ENOUGH and diff.one_process is not False:
        rate = f" ({100 * (first.change or 0) / first.before * 60 / seconds:.1f} % a minute)"
    return f"; what is kept grew most in {first.name}, {signed(style, first.change)}{rate}"


def _filled(diff: Diff) -> str:
    first = diff.filled
    if first is None:
        return ""
    rate = ""
    if diff.seconds is not None and diff.seconds >= report_lines.LONG_ENOUGH:
        rate = f" ({(first.change or 0) * 60 / diff.seconds:+,.0f} a minute)"
    return f"; {first.name} has {first.change:,} elements more{rate}"


def _no_rates(diff: Diff) -> Optional[str]:
    """Why there are no rates per hour; None if there are."""
    if diff.one_process is False:
        return "no rates per hour: these are two processes"
    if diff.seconds is None:
        return "no rates per hour: one of the two does not say when it was taken (a core never does)"
    if diff.seconds < report_lines.LONG_ENOUGH:
        interval = report_lines.interval_words(diff.seconds)
        return f"no rates per hour: {interval} are too short for one; take them a minute apart or more"
    return None


def _rate(style: Style, diff: Diff, change: FigureChange, by: str) -> str:
    """The rate; "" for what is no trend: a few pages, or pages of files, which the kernel maps and drops at will."""
    if by != CONTAINER and (abs(change.change or 0) < TREND or change.name in OF_FILES):
        return ""
    return report_lines.rate_cell(
        style, by, diff.per_hour(change.change), report_lines.MINUTE if by == CONTAINER else report_lines.HOUR
    )
