"""The screen of `arenascope top`: processes by the free memory that their malloc holds."""

from __future__ import annotations

import time
from typing import Iterator, Optional, Sequence

from ...analysis.top_order import DEFAULT
from ...base.records import NamedTuple
from ..json_documents.process_records import RunningProcess, Top, WholeLook
from ..shared_text.text import Style, count, duration, next_lines, number, table

LOWER = "≥ "
"""In front of what was not followed to its end."""
HEADERS = ("pid", "user", "name", "RSS", "system", "free", "free in RSS", "stranded", "arenas", "allocator")
EXPENDABLE = ("user", "allocator", "arenas", "system", "free")
EXACT_HEADERS = ("pid", "name", "RSS", "in use", "free", "trim gives", "tops", "stranded", "held")
EXACT_EXPENDABLE = ("held", "tops", "in use", "trim gives")


class Shown(NamedTuple):
    """How a look is shown."""

    sort: str
    seconds: float = 0.0
    """How long the look took."""
    note: str = ""
    """How it goes on."""


def top_lines(style: Style, found: Top, shown: Shown) -> Iterator[str]:
    settle = _settle(style, found, shown.sort)
    if settle:
        who = count(len(found.uncertain_pids), "process", "processes")
        yield style.bold(f"the order is uncertain: {who} may have more than was seen. To settle it: {settle}")
    yield style.bold(_sentence(style, found))
    yield ""
    yield from table(
        style,
        HEADERS,
        [_cells(style, each) for each in found.processes],
        left=(1, 2, 9),
        names=(2,),
        optional=("allocator",),
        expendable=EXPENDABLE,
    )
    if found.left_out:
        yield f"({count(found.left_out, 'more process', 'more processes')}: --limit)"
    looked = [(each, each.exact) for each in found.processes if each.exact is not None]
    if looked:
        yield ""
        when = max(exact.time for _, exact in looked)
        yield style.bold(f"in whole, each held once (the last at {time.strftime('%H:%M:%S', time.localtime(when))}):")
        rows = [_exact_cells(style, each, exact) for each, exact in looked]
        yield from table(style, EXACT_HEADERS, rows, left=(1,), names=(1,), expendable=EXACT_EXPENDABLE)
    yield ""
    if shown.note:
        yield style.dim(shown.note)
    if any(each.free_whole is False for each in found.processes):
        yield style.dim(f"{LOWER}at least: not all free chunks were followed; --exact PID: all")
    stopped = "" if looked else ", none was stopped"
    read = f"read in {duration(shown.seconds)} while they ran on{stopped}"
    yield style.dim(f"free without thread caches and fastbins; {read}")
    if settle and not shown.note:
        yield from next_lines(style, settle)
    elif not shown.note and found.processes and found.processes[0].arenas is not None:
        named = style._replace(subject=str(found.processes[0].pid))
        yield from next_lines(style, named.typed("report"), named.typed("watch"))


def _settle(style: Style, found: Top, sort: str) -> str:
    """The command that settles the order, where it is uncertain."""
    if not found.uncertain_pids:
        return ""
    pids = [*(each.pid for each in found.processes if each.exact is not None), *found.uncertain_pids]
    by = f" --sort {sort}" if sort != DEFAULT else ""
    return style.typed(f"top --once{by} --exact {' '.join(map(str, pids))}")


def _sentence(style: Style, found: Top) -> str:
    """The answer first."""
    known = [each for each in found.processes if each.arenas is not None and not each.allocators]
    unread = f"; {number(found.unread)} more could not be read (sudo may)" if found.unread else ""
    if not known:
        return f"no process with glibc's malloc may be read here{unread}"
    free = sum(each.free_resident_bytes or 0 for each in known)
    rss = sum(each.rss_bytes for each in known)
    lower = LOWER if any(each.free_whole is False for each in known) else ""
    who = count(len(known), "process", "processes")
    who = f"the first {who}" if found.left_out else who
    return f"{who} on glibc's malloc: {lower}{style.size(free)} of {style.size(rss)} RSS is free in malloc{unread}"


def _cells(style: Style, each: RunningProcess) -> list[str]:
    lower = LOWER if each.free_whole is False else ""

    def bound(size: Optional[int]) -> str:
        return f"{lower if size is not None else ''}{style.size(size)}"

    return [
        str(each.pid),
        each.user,
        each.name,
        style.size(each.rss_bytes),
        style.size(each.system_bytes),
        bound(each.free_bytes),
        bound(each.free_resident_bytes),
        bound(each.stranded_bytes),
        number(each.arenas),
        ", ".join(each.allocators),
    ]


def _exact_cells(style: Style, each: RunningProcess, exact: WholeLook) -> Sequence[str]:
    sizes = (
        exact.rss_bytes,
        exact.used_bytes,
        exact.free_bytes,
        exact.trim_bytes,
        exact.tops_bytes,
        exact.stranded_bytes,
    )
    return [str(each.pid), each.name, *map(style.size, sizes), duration(exact.held_seconds)]
