"""heap trend: what grew over a folder of snapshots, since when, how steadily, and when it reaches the limit."""

from __future__ import annotations

from typing import Optional, Sequence

from ..analysis.figure_names import Document
from ..analysis.trend import Life, Series, Trend, lives, reached, series_of, succession
from ..base.errors import UsageError
from ..base.model import Statement
from ..base.records import NamedTuple
from ..base.whole_file import write_whole
from ..present.render.problems import sentences, statement_json
from ..present.render.text import count
from ..present.screens.parts import LABELS
from ..present.screens.trend import lines, sentence
from .framework.command import Answer, Context, argument, command, parse_size
from .framework.moments import read_all


class Limit(NamedTuple):
    bytes: int
    used: Optional[int]
    """What counts against it beside what the process itself has; None: not known."""
    path: Optional[str]
    """The control group's file; None: it was asked for."""


@command(
    "then and now",
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
    trend = _trend(lived, life, limit)
    verdict = sentence(context.style, trend)
    keys: dict[str, object] = {
        "folder": context.options.folder,
        "process": _life_json(life),
        "earlier": [_life_json(each) for each in trend.before],
        "others": [_life_json(each) for each in trend.others],
        "series": [_series_json(each) for each in trend.series],
        "limit": None if limit is None else limit._asdict(),
        "reaches": None if trend.comes is None else trend.comes._asdict(),
        "verdict": verdict,
        "judgement": statement_json(_judge(trend), verdict),
    }
    if context.options.html:
        from ..present.render.pages.filled import filled

        # the page shows the document's figures and no others
        data = filled("trend", {**keys, "labels": LABELS, "problems": sentences(problems)}, "what grew")
        write_whole(context.options.html, data)
        moments = count(len(life.documents), "snapshot")
        return Answer(keys, [f"{context.options.html}: {moments}, {context.style.size(len(data))} written"], problems)
    return Answer(keys, lines(context.style, trend, context.options.limit), problems)


def _trend(lived: Sequence[Life], life: Life, limit: Optional[Limit]) -> Trend:
    series = series_of(life)
    rss = next((each for each in series if each.by == "rss"), None)
    comes = reached(rss, limit.bytes, limit.used) if rss is not None and limit is not None else None
    before = succession(lived, life)[:-1]
    return Trend(life, before, [each for each in lived if each is not life and each not in before], series, comes=comes)


def _chosen(lived: Sequence[Life], pid: Optional[int]) -> Life:
    if not lived:
        raise UsageError("none of these snapshots tells when it was taken, as no core's does", "take them of a process")
    mine = [each for each in lived if pid is None or each.pid == pid]
    if not mine:
        known = ", ".join(dict.fromkeys(str(each.pid) for each in lived))
        raise UsageError(f"there is no snapshot of process {pid}", f"there are some of {known}")
    return mine[-1]


def _limit(context: Context, last: Document) -> Optional[Limit]:
    asked = context.options.until
    if asked:
        # a debugger's expression needs something to look at
        known = int(asked) if asked.isdecimal() else parse_size(context, asked)
        if known is None:
            raise UsageError(f"--until {asked} is no size", "--until 8G")
        return Limit(known, None, None)
    told = last.get("limit") or {}
    return Limit(told["bytes"], told.get("used"), told.get("path")) if told.get("bytes") else None


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


def _life_json(life: Life) -> dict[str, object]:
    return {
        "pid": life.pid,
        "name": life.name or None,
        "snapshots": len(life.documents),
        "first": life.first,
        "last": life.last,
    }


def _series_json(each: Series) -> dict[str, object]:
    return {
        "by": each.by,
        "name": each.name,
        "before": each.moments[0].value,
        "after": each.moments[-1].value,
        "change": each.change,
        "how": each.how,
        "since": each.since,
        "until": each.until,
        "per_hour": each.per_hour,
        "per_hour_slow": each.slow,
        "per_hour_fast": each.fast,
        "moments": [[moment.seconds, moment.value] for moment in each.moments],
    }
