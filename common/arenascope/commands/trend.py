"""heap trend: what grew over a folder of snapshots, since when, how steadily, and when it reaches the limit."""

from __future__ import annotations

from typing import Optional, Sequence

from ..analysis.diff import Document
from ..analysis.trend import (
    ProcessLife,
    Series,
    Trend,
    grown_types,
    lives,
    reached,
    series_of,
    succession,
    without_types,
)
from ..base.errors import UsageError
from ..base.model import Statement
from ..base.whole_file import write_whole
from ..present.json_documents import process_records as records
from ..present.json_documents.record import statement_record
from ..present.pages.fill_page import filled
from ..present.screens.report import LABELS
from ..present.screens.trend import lines, verdict
from ..present.shared_text.findings import sentences
from ..present.shared_text.text import count
from .framework.command import Answer, Context, argument, command, parse_size
from .steps.snapshot_file import read_all


@command(
    "changes over time",
    "Show what grew over many snapshots: since when, how steadily, and when it reaches a limit.",
    "trend moments/",
    "What watch --save keeps, in the shell, and what snapshot writes into the same folder. Growth by part of "
    "resident memory, by arena, by list of free chunks and, where they have them, by size, type or owner of block; "
    "the largest first. A process that was started again is told from one that shrank.",
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
    documents, wrong = read_all(context.options.folder)
    problems = [Statement("snapshot-problem", names={"snapshot": "one"}, text=each) for each in wrong]
    lived = lives(documents)
    life = _chosen(lived, context.options.pid)
    limit = _limit(context, life.documents[-1])
    trend, grown = _trend(lived, life, limit), grown_types(life.documents)
    said = verdict(context.style, trend, grown)
    lacking = without_types(life.documents)
    if lacking:
        figures = {"lacking": lacking, "snapshots": len(life.documents)}
        problems.append(Statement("types-not-in-all", figures))
    found = records.TrendDocument(
        folder=context.options.folder,
        process=_life(life),
        earlier=[_life(each) for each in trend.before],
        others=[_life(each) for each in trend.others],
        series=[_series(each) for each in trend.series],
        limit=limit,
        reaches=None if trend.comes is None else records.LimitReachedRecord.of(trend.comes),
        grown=None if grown is None else [records.GrownType.of(each) for each in grown],
        verdict=said,
        judgement=statement_record(_judge(trend), said),
    )
    if context.options.html:
        # the page shows exactly the document's figures
        data = filled("trend", {**found.own(), "labels": LABELS, "problems": sentences(problems)}, "what grew")
        write_whole(context.options.html, data)
        moments = count(len(life.documents), "snapshot")
        return Answer(found, [f"{context.options.html}: {moments}, {context.style.size(len(data))} written"], problems)
    return Answer(found, lines(context.style, trend, grown, context.options.limit), problems)


def _trend(lived: Sequence[ProcessLife], life: ProcessLife, limit: Optional[records.Limit]) -> Trend:
    series = series_of(life)
    rss = next((each for each in series if each.by == "rss"), None)
    comes = reached(rss, limit.bytes, limit.used) if rss is not None and limit is not None else None
    before = succession(lived, life)[:-1]
    return Trend(life, before, [each for each in lived if each is not life and each not in before], series, comes=comes)


def _chosen(lived: Sequence[ProcessLife], pid: Optional[int]) -> ProcessLife:
    if not lived:
        raise UsageError("none of these snapshots tells when it was taken, as no core's does", "take them of a process")
    mine = [each for each in lived if pid is None or each.pid == pid]
    if not mine:
        known = ", ".join(dict.fromkeys(str(each.pid) for each in lived))
        raise UsageError(f"there is no snapshot of process {pid}", f"there are some of {known}")
    return mine[-1]


def _limit(context: Context, last: Document) -> Optional[records.Limit]:
    asked = context.options.until
    if asked:
        # evaluating a debugger's expression needs a target
        known = int(asked) if asked.isdecimal() else parse_size(context, asked)
        if known is None:
            raise UsageError(f"--until {asked} is no size", "--until 8G")
        return records.Limit(bytes=known, used=None, path=None)
    kept = last.get("limit") or {}
    if not kept.get("bytes"):
        return None
    return records.Limit(bytes=kept["bytes"], used=kept.get("used"), path=kept.get("path"))


def _judge(trend: Trend) -> Statement:
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


def _life(life: ProcessLife) -> records.LifeRecord:
    return records.LifeRecord.of(life, name=life.name or None, snapshots=len(life.documents))


def _series(each: Series) -> records.SeriesRecord:
    return records.SeriesRecord.of(
        each,
        before=each.moments[0].value,
        after=each.moments[-1].value,
        per_hour_slow=each.slow,
        per_hour_fast=each.fast,
    )
