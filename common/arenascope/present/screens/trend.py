"""The screen of `heap trend`: the verdict, when a limit is reached, and tables with sparklines."""

from __future__ import annotations

import time
from typing import Iterator, Optional, Sequence

from ...analysis.diff import CONTAINER, allocators_of
from ...analysis.report import FREE, LIVE
from ...analysis.trend import AT_ONCE, ENDED, STEADILY, STILL, UNEVENLY, Grown, LimitReached, ProcessLife, Series, Trend
from ...base.about import PROGRAM
from ...base.class_names import type_words
from ..shared_text.text import Style, count, next_lines, signed, table
from .report import (
    LABELS,
    LONG_ENOUGH,
    TITLES,
    amount_cell,
    change_cell,
    growth_headlines,
    in_a_unit,
    interval_words,
    rate_cell,
    rate_words,
    unit_of_rates,
)
from .verdict import outside_malloc_lines

HOW = {
    STEADILY: "steadily",
    AT_ONCE: "at once",
    UNEVENLY: "unevenly",
    ENDED: "then held still",
    STILL: "held still",
}
LEVELS = "▁▂▃▄▅▆▇█"
DRAWN = 16
"""Width of a sparkline in a table."""
DAY = 24 * 3600
LONG = 100 * DAY
"""Limits that are reached later than this are not predicted."""


def sentence(style: Style, trend: Trend) -> str:
    rss, life = trend.rss, trend.life
    moments = count(len(life.documents), "snapshot")
    if rss is None:
        several = len(life.documents) > 1
        why = f"of {moments} too few tell RSS" if several else "it takes two snapshots, and there is one"
        return f"what grew is not known: {why}"
    over, now = interval_words(life.last - life.first), style.size(rss.moments[-1].value)
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


def _filled(trend: Trend) -> str:
    """The container whose elements grew most in bytes. The series come in that order."""
    grown = (each for each in trend.series if each.by == CONTAINER and each.since is not None and each.change > 0)
    most = next(grown, None)
    if most is None:
        return ""
    return f"; {most.name} has {most.change:,} elements more"


def _manner(style: Style, each: Series) -> str:
    since = clock(each.since)
    if each.how == AT_ONCE:
        return f"at once, at {since}"
    if each.how == ENDED:
        return f"from {since} until {clock(each.until)}, and held still since"
    over = each.moments[-1].seconds - each.moments[0].seconds
    rate = f", {rate_words(style, each.per_hour, over)}" if each.per_hour and over >= LONG_ENOUGH else ""
    return f"{HOW[each.how]} since {since}{rate}"


def _arrival(style: Style, comes: LimitReached) -> str:
    limit = style.size(comes.limit)
    if not comes.room:
        return f"The limit of {limit} is reached"
    between = f" ({_ahead(comes.soonest)} to {_ahead(comes.latest)})" if comes.latest > 1.2 * comes.soonest else ""
    return f"If it goes on so, it reaches the limit of {limit} in {_ahead(comes.likely)}{between}"


def _ahead(seconds: float) -> str:
    return interval_words(seconds) if seconds < 2 * DAY else f"{seconds / DAY:.1f} days"


def clock(when: Optional[float]) -> str:
    """The time of day, with the date if it is not today."""
    if when is None:
        return ""
    local, today = time.localtime(when), time.localtime()
    form = "%H:%M:%S" if local[:3] == today[:3] else "%Y-%m-%d %H:%M"
    return time.strftime(form, local)


def verdict(style: Style, trend: Trend, grown: Optional[Sequence[Grown]]) -> str:
    return ". ".join(_sentences(style, trend, grown))


def _sentences(style: Style, trend: Trend, grown: Optional[Sequence[Grown]]) -> Sequence[str]:
    """Allocators other than malloc that grew, and types that grew; then the rest."""
    changes = {each.name: each.change for each in trend.series if each.by == "part"}
    outside = outside_malloc_lines(allocators_of(trend.life.documents[-1]), changes)
    return [*outside, *growth_headlines(style, grown), sentence(style, trend)]


def lines(style: Style, trend: Trend, grown: Optional[Sequence[Grown]], limit: int) -> Iterator[str]:
    life, series = trend.life, trend.series
    yield from map(style.bold, _sentences(style, trend, grown))
    moments = count(len(life.documents), "snapshot")
    yield style.dim(f"{_who(life)}: {moments}, {clock(life.first)} to {clock(life.last)}")
    if trend.before:
        at = ", ".join(clock(each.first) for each in [*trend.before[1:], life])
        yield style.dim(f"started again at {at}; before: {', '.join(map(_who, trend.before))}")
    for by, title in TITLES.items():
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


def _next(style: Style, trend: Trend) -> Iterator[str]:
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


def _table(style: Style, title: str, series: Sequence[Series], limit: int) -> Iterator[str]:
    over = series[0].moments[-1].seconds - series[0].moments[0].seconds
    unit = unit_of_rates(over)

    def rate_of(each: Series) -> str:
        is_told = each.per_hour and each.until is None and over >= LONG_ENOUGH
        return rate_cell(style, each.by, each.per_hour, unit) if is_told else ""

    rows = [
        [
            _label(each),
            amount_cell(style, each.by, each.moments[-1].value),
            change_cell(style, each.by, each.change),
            rate_of(each),
            clock(each.since),
            HOW[each.how],
            drawn(each),
        ]
        for each in series
    ]
    rate = in_a_unit(unit)
    headers = (title, "now", "change", rate, "since", "how", "over time")
    gone = ("how", "now", "since", rate)
    yield from table(style, headers, rows, left=(0, 5, 6), names=(0,), optional=(rate,), expendable=gone, limit=limit)


def drawn(each: Series, width: int = DRAWN) -> str:
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


def _label(each: Series) -> str:
    if each.by == "type":
        return type_words(each.name)
    return LABELS.get(each.name, each.name) if each.by == "part" else each.name


def _who(life: ProcessLife) -> str:
    return f"{life.name or 'process'} {'?' if life.pid is None else life.pid}"
