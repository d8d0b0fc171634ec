"""heap trend: what grew over a folder of snapshots, since when, how steadily, and when it reaches the limit."""

from __future__ import annotations

import time
from typing import Annotated, Iterator, Optional, Sequence

from ..analysis import growth
from ..analysis.compare_snapshots import CONTAINER, FIGURES, JsonObject, allocators_of
from ..analysis.growth import COURSES
from ..analysis.resident_parts import FREE, LIVE
from ..base.about import PROGRAM
from ..base.class_names import type_words
from ..base.errors import UsageError
from ..base.heap_model import KINDS, Statement
from ..base.whole_file import write_whole
from ..present.json_documents.record import JUDGEMENT, Document, Record, Size, StatementRecord, statement_record
from ..present.json_documents.shared_records import OWNER_KINDS
from ..present.json_documents.snapshot_file import read_all
from ..present.pages.fill_page import filled
from ..present.screens import report_lines
from ..present.screens.verdict import outside_malloc_lines
from ..present.shared_text.lines_and_tables import Style, count, next_lines, signed, table
from ..present.shared_text.problem_sentences import sentences
from .framework.command import Answer, Context, argument, command, parse_size


class LifeRecord(Record):
    """A process from its first snapshot to its last."""

    pid: Optional[int]
    """Its number."""
    name: Optional[str]
    """As the kernel has it."""
    snapshots: Size
    """How many there are."""
    first: float
    """When the first was taken, in seconds since 1970."""
    last: float
    """When the last was taken."""


class SeriesRecord(Record):
    """A figure over time."""

    by: Annotated[str, ("enum", FIGURES)]
    """What kind it is."""
    name: str
    """Whose: the part, the arena's address, the list, the size, the type, the container or the owner."""
    before: int
    """At first."""
    after: int
    """At last."""
    change: int
    """By how much it changed."""
    how: Annotated[str, ("enum", COURSES)]
    """How it changed."""
    since: Optional[float]
    """When that began, in seconds since 1970; null: it held still."""
    until: Optional[float]
    """When it was over; null: it goes on, or held still."""
    per_hour: Optional[int]
    """The median rate in that time; null: there is none."""
    per_hour_slow: Optional[int]
    """The rate that a fifth of all pairs of moments stay below."""
    per_hour_fast: Optional[int]
    """The rate that a fifth of them exceed."""
    moments: Sequence[
        Annotated[
            tuple[Annotated[float, "When"], Annotated[int, "How many bytes; of a container how many elements"]],
            "A moment",
        ]
    ]
    """All of it."""


class GrownType(Record):
    """A type of blocks that grew, and still grows."""

    type: str
    """Its name, as in types."""
    kind: Annotated[Optional[str], ("enum", tuple(KINDS))]
    """Of which sort, as in types; null: not known."""
    certain: bool
    """Whether all of these blocks certainly have it."""
    blocks: Optional[int]
    """By how many blocks it grew; null: not known."""
    bytes: Size
    """And by how many bytes."""
    seconds: float
    """From the first snapshot that tells types to the last."""
    per_minute_bytes: Optional[int]
    """By how much it grows in a minute; null: that is too little time."""
    steadily: bool
    """Whether it goes up alone; not where it goes up and down, as what is worked on does."""
    owner: Optional[str]
    """Who holds at least half of what it grew by; null: not known, or nobody does."""
    owner_kind: Annotated[Optional[str], ("enum", OWNER_KINDS)]
    """What that is."""


class Limit(Record):
    """The limit that memory may grow to."""

    bytes: Size
    """So much."""
    used: Optional[Size]
    """What counts against it; null: not known, then RSS alone does."""
    path: Optional[str]
    """The control group's file; null: it was asked for."""


class LimitReachedRecord(Record):
    """When the limit is reached."""

    limit: Size
    """The limit."""
    room: Size
    """What is left."""
    soonest: float
    """In so many seconds from the last moment, by the fast rate."""
    likely: float
    """By the median rate."""
    latest: float
    """By the slow rate."""


class TrendDocument(Document, command="trend"):
    """The answer of trend."""

    folder: str
    """Where the snapshots are."""
    process: LifeRecord
    earlier: Sequence[LifeRecord]
    """The same program before it was started again, the first one first."""
    others: Sequence[LifeRecord]
    """Other processes whose snapshots lie there."""
    series: Sequence[SeriesRecord]
    """Every figure over time, the largest growth first (of containers by what they hold)."""
    grown: Optional[Sequence[GrownType]]
    """Types of blocks that grow: those that do so steadily first, the largest growth first; null: not known, as fewer
    than two snapshots tell types."""
    limit: Optional[Limit]
    """What it may grow to; null: nothing is known to limit it."""
    reaches: Optional[LimitReachedRecord]
    """When it gets there, if it goes on so; null: it does not grow, or not surely."""
    verdict: str
    """What grew, in words."""
    judgement: Annotated[StatementRecord, JUDGEMENT]


@command(
    "changes over time",
    "trend moments/",
    arguments=(
        argument("folder", metavar="FOLDER", help="where the snapshots are"),
        argument("--pid", type=int, metavar="PID", help="only this process (the one seen last)"),
        argument(
            "--until", metavar="SIZE", help="predict when it reaches SIZE (8G, 512M), not its control group's limit"
        ),
        argument("--html", metavar="FILE", help="write one self-contained page with charts"),
        argument("--limit", type=int, default=8, metavar="N", help="show N rows of each table at most (0: all)"),
    ),
    optional_subject=True,
)
def trend_command(context: Context) -> Answer:
    """Show what grew over many snapshots: since when, how steadily, and when it reaches a limit.

    What watch --save keeps, in the shell, and what snapshot writes into the same folder. Growth by part of resident
    memory, by arena, by list of free chunks and, where they have them, by size, type or owner of block; the largest
    first. A process that was started again is told from one that shrank.
    """
    documents, wrong = read_all(context.options.folder)
    problems = [Statement("snapshot-problem", names={"snapshot": "one"}, text=each) for each in wrong]
    lived = growth.lives(documents)
    life = _chosen(lived, context.options.pid)
    limit = _limit(context, life.documents[-1])
    trend, grown = _trend(lived, life, limit), growth.grown_types(life.documents)
    said = verdict(context.style, trend, grown)
    lacking = growth.without_types(life.documents)
    if lacking:
        figures = {"lacking": lacking, "snapshots": len(life.documents)}
        problems.append(Statement("types-not-in-all", figures))
    found = TrendDocument(
        folder=context.options.folder,
        process=_life(life),
        earlier=[_life(each) for each in trend.before],
        others=[_life(each) for each in trend.others],
        series=[_series(each) for each in trend.series],
        limit=limit,
        reaches=None if trend.comes is None else LimitReachedRecord.of(trend.comes),
        grown=None if grown is None else [GrownType.of(each) for each in grown],
        verdict=said,
        judgement=statement_record(_judge(trend), said),
    )
    if context.options.html:
        # the page shows exactly the document's figures
        data = filled(
            "trend", {**found.own(), "labels": report_lines.LABELS, "problems": sentences(problems)}, "what grew"
        )
        write_whole(context.options.html, data)
        moments = count(len(life.documents), "snapshot")
        return Answer(found, [f"{context.options.html}: {moments}, {context.style.size(len(data))} written"], problems)
    return Answer(found, lines(context.style, trend, grown, context.options.limit), problems)


def _trend(lived: Sequence[growth.ProcessLife], life: growth.ProcessLife, limit: Optional[Limit]) -> growth.Trend:
    series = growth.series_of(life)
    rss = next((each for each in series if each.by == "rss"), None)
    comes = growth.reached(rss, limit.bytes, limit.used) if rss is not None and limit is not None else None
    before = growth.succession(lived, life)[:-1]
    return growth.Trend(
        life, before, [each for each in lived if each is not life and each not in before], series, comes=comes
    )


def _chosen(lived: Sequence[growth.ProcessLife], pid: Optional[int]) -> growth.ProcessLife:
    if not lived:
        raise UsageError("none of these snapshots tells when it was taken, as no core's does", "take them of a process")
    mine = [each for each in lived if pid is None or each.pid == pid]
    if not mine:
        known = ", ".join(dict.fromkeys(str(each.pid) for each in lived))
        raise UsageError(f"there is no snapshot of process {pid}", f"there are some of {known}")
    return mine[-1]


def _limit(context: Context, last: JsonObject) -> Optional[Limit]:
    asked = context.options.until
    if asked:
        # evaluating a debugger's expression needs a target
        known = int(asked) if asked.isdecimal() else parse_size(context, asked)
        if known is None:
            raise UsageError(f"--until {asked} is no size", "--until 8G")
        return Limit(bytes=known, used=None, path=None)
    kept = last.get("limit") or {}
    if not kept.get("bytes"):
        return None
    return Limit(bytes=kept["bytes"], used=kept.get("used"), path=kept.get("path"))


def _judge(trend: growth.Trend) -> Statement:
    rss, life = trend.rss, trend.life
    figures: dict[str, Optional[float]] = {
        "snapshots": len(life.documents),
        "seconds": life.last - life.first,
        "restarts": len(trend.before),
        "change_bytes": None if rss is None else rss.change,
        "per_hour_bytes": None if rss is None else rss.per_hour,
        "reached_in_seconds": None if trend.comes is None else trend.comes.likely,
    }
    if rss is None:
        return Statement("unknown", figures)
    if rss.since is None:
        return Statement("held-still", figures)
    return Statement(f"{'grew' if rss.change > 0 else 'fell'}-{rss.how}", figures)


def _life(life: growth.ProcessLife) -> LifeRecord:
    return LifeRecord.of(life, name=life.name or None, snapshots=len(life.documents))


def _series(each: growth.Series) -> SeriesRecord:
    return SeriesRecord.of(
        each,
        before=each.moments[0].value,
        after=each.moments[-1].value,
        per_hour_slow=each.slow,
        per_hour_fast=each.fast,
    )


HOW = {
    growth.STEADILY: "steadily",
    growth.AT_ONCE: "at once",
    growth.UNEVENLY: "unevenly",
    growth.ENDED: "then held still",
    growth.STILL: "held still",
}
LEVELS = "▁▂▃▄▅▆▇█"
DRAWN = 16
"""Width of a sparkline in a table."""
DAY = 24 * 3600
LONG = 100 * DAY
"""Limits that are reached later than this are not predicted."""


def sentence(style: Style, trend: growth.Trend) -> str:
    rss, life = trend.rss, trend.life
    moments = count(len(life.documents), "snapshot")
    if rss is None:
        several = len(life.documents) > 1
        why = f"of {moments} too few tell RSS" if several else "it takes two snapshots, and there is one"
        return f"what grew is not known: {why}"
    over, now = report_lines.interval_words(life.last - life.first), style.size(rss.moments[-1].value)
    if rss.since is None:
        return f"RSS held still at {now} over {over} ({moments}){_filled(trend)}"
    verb = "grew" if rss.change > 0 else "fell"
    text = f"RSS {verb} by {style.size(abs(rss.change))} in {over}, to {now}: {_manner(style, rss)}"
    parts = [each for each in trend.series if each.by == "part" and each.change * rss.change > 0]
    if parts:
        largest = max(parts, key=lambda each: abs(each.change))
        text += f"; most of it {_label(largest)} ({signed(style, largest.change)})"
    text += _filled(trend)
    if trend.comes is not None and trend.comes.likely < LONG:
        text += f". {_arrival(style, trend.comes)}"
    return text


def _filled(trend: growth.Trend) -> str:
    """The container whose elements grew most in bytes. The series come in that order."""
    grown = (each for each in trend.series if each.by == CONTAINER and each.since is not None and each.change > 0)
    most = next(grown, None)
    if most is None:
        return ""
    return f"; {most.name} has {most.change:,} elements more"


def _manner(style: Style, each: growth.Series) -> str:
    since = clock(each.since)
    if each.how == growth.AT_ONCE:
        return f"at once, at {since}"
    if each.how == growth.ENDED:
        return f"from {since} until {clock(each.until)}, and held still since"
    over = each.moments[-1].seconds - each.moments[0].seconds
    rate = (
        f", {report_lines.rate_words(style, each.per_hour, over)}"
        if each.per_hour and over >= report_lines.LONG_ENOUGH
        else ""
    )
    return f"{HOW[each.how]} since {since}{rate}"


def _arrival(style: Style, comes: growth.LimitReached) -> str:
    limit = style.size(comes.limit)
    if not comes.room:
        return f"The limit of {limit} is reached"
    between = f" ({_ahead(comes.soonest)} to {_ahead(comes.latest)})" if comes.latest > 1.2 * comes.soonest else ""
    return f"If it goes on so, it reaches the limit of {limit} in {_ahead(comes.likely)}{between}"


def _ahead(seconds: float) -> str:
    return report_lines.interval_words(seconds) if seconds < 2 * DAY else f"{seconds / DAY:.1f} days"


def clock(when: Optional[float]) -> str:
    """The time of day, with the date if it is not today."""
    if when is None:
        return ""
    local, today = time.localtime(when), time.localtime()
    form = "%H:%M:%S" if local[:3] == today[:3] else "%Y-%m-%d %H:%M"
    return time.strftime(form, local)


def verdict(style: Style, trend: growth.Trend, grown: Optional[Sequence[growth.Grown]]) -> str:
    return ". ".join(_sentences(style, trend, grown))


def _sentences(style: Style, trend: growth.Trend, grown: Optional[Sequence[growth.Grown]]) -> Sequence[str]:
    """Allocators other than malloc that grew, and types that grew; then the rest."""
    changes = {each.name: each.change for each in trend.series if each.by == "part"}
    outside = outside_malloc_lines(allocators_of(trend.life.documents[-1]), changes)
    return [*outside, *report_lines.growth_headlines(style, grown), sentence(style, trend)]


def lines(style: Style, trend: growth.Trend, grown: Optional[Sequence[growth.Grown]], limit: int) -> Iterator[str]:
    life, series = trend.life, trend.series
    yield from map(style.bold, _sentences(style, trend, grown))
    moments = count(len(life.documents), "snapshot")
    yield style.dim(f"{_who(life)}: {moments}, {clock(life.first)} to {clock(life.last)}")
    if trend.before:
        at = ", ".join(clock(each.first) for each in [*trend.before[1:], life])
        yield style.dim(f"started again at {at}; before: {', '.join(map(_who, trend.before))}")
    for by, title in report_lines.TITLES.items():
        rows = [each for each in series if each.by == by and each.since is not None]
        if rows:
            yield ""
            ordered = rows if by == CONTAINER else sorted(rows, key=lambda each: -abs(each.change))
            yield from _table(style, title, ordered, limit)
    if trend.rss is not None and trend.rss.since is not None and trend.rss.until is None and trend.rss.change > 0:
        yield ""
        yield from next_lines(style, *_next(style, trend))
    if trend.others:
        yield ""
        yield style.dim(f"of others here: {', '.join(map(_who, trend.others))}; --pid N shows one")


def _next(style: Style, trend: growth.Trend) -> Iterator[str]:
    """Next commands: for growth in malloc, those that tell types or owners; else `mappings`."""
    pid = trend.life.pid if style.program != "heap" and trend.life.pid is not None else ""
    parts = [each for each in trend.series if each.by == "part"]
    grown = max(parts, key=lambda each: each.change, default=None)
    if grown is not None and grown.name not in (*LIVE, *FREE):
        yield f"{style.program} mappings {pid}".strip()
    elif any(each.by == "type" for each in trend.series):
        yield f"{style.program} owners {pid}".strip() + " (who holds them)"
    else:
        yield f"{style.program} types {pid}".strip() + " (what the blocks are)"
        yield f"{PROGRAM} watch {trend.life.pid or 'PID'} --save FOLDER --types (which type grows)"


def _table(style: Style, title: str, series: Sequence[growth.Series], limit: int) -> Iterator[str]:
    over = series[0].moments[-1].seconds - series[0].moments[0].seconds
    unit = report_lines.unit_of_rates(over)

    def rate_of(each: growth.Series) -> str:
        is_told = each.per_hour and each.until is None and over >= report_lines.LONG_ENOUGH
        return report_lines.rate_cell(style, each.by, each.per_hour, unit) if is_told else ""

    rows = [
        [
            _label(each),
            report_lines.amount_cell(style, each.by, each.moments[-1].value),
            report_lines.change_cell(style, each.by, each.change),
            rate_of(each),
            clock(each.since),
            HOW[each.how],
            drawn(each),
        ]
        for each in series
    ]
    rate = report_lines.in_a_unit(unit)
    headers = (title, "now", "change", rate, "since", "how", "over time")
    gone = ("how", "now", "since", rate)
    yield from table(style, headers, rows, left=(0, 5, 6), names=(0,), optional=(rate,), expendable=gone, limit=limit)


def drawn(each: growth.Series, width: int = DRAWN) -> str:
    """A sparkline of the series, scaled from its minimum to its maximum."""
    first, last = each.moments[0].seconds, each.moments[-1].seconds
    least = min(moment.value for moment in each.moments)
    span = max(moment.value for moment in each.moments) - least
    columns, at = [], 0
    for column in range(width):
        until = first + (last - first) * (column + 1) / width
        while at + 1 < len(each.moments) and each.moments[at + 1].seconds <= until:
            at += 1
        columns.append(LEVELS[(each.moments[at].value - least) * (len(LEVELS) - 1) // span] if span else LEVELS[0])
    return "".join(columns)


def _label(each: growth.Series) -> str:
    if each.by == "type":
        return type_words(each.name)
    return report_lines.LABELS.get(each.name, each.name) if each.by == "part" else each.name


def _who(life: growth.ProcessLife) -> str:
    return f"{life.name or 'process'} {'?' if life.pid is None else life.pid}"
