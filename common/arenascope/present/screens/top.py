"""The screen of `arenascope top`: processes by the free memory that their malloc holds."""

from __future__ import annotations

import time
from typing import Iterator, NamedTuple, Optional

from ...analysis.top_order import AT_LEAST, DEFAULT, EXACT
from ..json_documents.process_records import RunningProcess, TopDocument
from ..shared_text.text import Style, count, duration, next_lines, number, table

LOWER = "≥ "
"""Prefix of a lower bound."""
HEADERS = (
    *("pid", "user", "name", "figures", "RSS", "system", "in use", "free", "free in RSS", "trim gives", "tops"),
    *("stranded", "arenas", "held", "allocator"),
)
LEFT = tuple(map(HEADERS.index, ("user", "name", "figures", "allocator")))
OF_EXACT = ("figures", "in use", "trim gives", "tops", "held")
"""Columns shown only with --exact."""
EXPENDABLE = ("user", "allocator", "held", "arenas", "system", "free", "tops", "in use", "trim gives")
SORTED = {
    "free": "free in RSS: what malloc could give back, and what is stranded",
    "stranded": "stranded: free, but in pages that also hold something else",
    "system": "system: what the arenas took from the kernel",
    "rss": "RSS",
}


class TopView(NamedTuple):
    """Options of how the table is shown."""

    sort: str
    seconds: float = 0.0
    """How long the look took."""
    note: str = ""
    """What the screen does next."""
    unread: str = ""
    """Why some processes could not be read, or what may read them."""


def top_lines(style: Style, found: TopDocument, shown: TopView) -> Iterator[str]:
    if found.uncertain_pids:
        who = count(len(found.uncertain_pids), "process", "processes")
        settle = _settle(style, found, shown.sort)
        yield style.bold(f"the order is uncertain: {who} may have more than was seen{settle}")
    yield style.bold(_sentence(style, found, shown.unread))
    yield ""
    whole = [each.exact for each in found.processes if each.exact is not None]
    yield from table(
        style,
        HEADERS,
        [_cells(style, each, bool(whole)) for each in found.processes],
        left=LEFT,
        names=(HEADERS.index("name"),),
        optional=("allocator", *OF_EXACT),
        expendable=EXPENDABLE,
    )
    if found.left_out:
        yield f"({count(found.left_out, 'more process', 'more processes')}: --limit)"
    yield ""
    if shown.note:
        yield style.dim(shown.note)
    if found.processes:
        yield style.dim(f"sorted by {SORTED[shown.sort]}")
    if any(each.figures == AT_LEAST for each in found.processes):
        every = "" if found.uncertain_pids else "; --exact PID: all"
        yield style.dim(f"{LOWER}at least: not all free chunks were followed{every}")
    if whole:
        when = time.strftime("%H:%M:%S", time.localtime(max(each.time for each in whole)))
        yield style.dim(f"exact: as of {when}, each held once; estimates are without thread caches and fastbins")
    stopped = "" if whole else ", none was stopped"
    read = f"read in {duration(shown.seconds)} while they ran on{stopped}"
    yield style.dim(read if whole else f"free without thread caches and fastbins; {read}")
    if not shown.note and found.processes and found.processes[0].arenas is not None:
        named = style._replace(subject=str(found.processes[0].pid))
        yield from next_lines(style, named.typed("report"), named.typed("watch"))


def _settle(style: Style, found: TopDocument, sort: str) -> str:
    """The command that settles the order; "" if all uncertain processes were read whole already."""
    asked = [each.pid for each in found.processes if each.exact is not None]
    pids = [*asked, *(pid for pid in found.uncertain_pids if pid not in asked)]
    if len(pids) == len(asked):
        return ""
    by = f" --sort {sort}" if sort != DEFAULT else ""
    return ". To settle it: " + style.typed(f"top --once{by} --exact {' '.join(map(str, pids))}")


def _sentence(style: Style, found: TopDocument, why: str) -> str:
    """The answer first."""
    known = [each for each in found.processes if each.arenas is not None and not each.allocators]
    why = f" ({why})" if why else ""
    unread = f"; {number(found.unread)} more could not be read{why}" if found.unread else ""
    if not known:
        return f"no process with glibc's malloc may be read here{unread}"
    figures = [_figures(each) for each in known]
    free = sum(each.free or 0 for each in figures)
    rss = sum(each.rss or 0 for each in figures)
    lower = LOWER if any(each.figures == AT_LEAST for each in known) else ""
    who = count(len(known), "process", "processes")
    who = f"the first {who}" if found.left_out else who
    return f"{who} on glibc's malloc: {lower}{style.size(free)} of {style.size(rss)} RSS is free in malloc{unread}"


class _Figures(NamedTuple):
    """Figures of a whole look if there was one, else of the headers."""

    rss: Optional[int]
    free: Optional[int]
    """Resident bytes."""
    stranded: Optional[int]


def _figures(each: RunningProcess) -> _Figures:
    if each.exact is not None and each.figures == EXACT:
        return _Figures(each.exact.rss_bytes, each.exact.free_bytes, each.exact.stranded_bytes)
    return _Figures(each.rss_bytes, each.free_resident_bytes, each.stranded_bytes)


def _cells(style: Style, each: RunningProcess, beside_exact: bool) -> list[str]:
    lower = LOWER if each.figures == AT_LEAST else ""
    rss, free, stranded = _figures(each)
    whole = each.exact if each.figures == EXACT else None

    def bound(size: Optional[int]) -> str:
        return f"{lower if size is not None else ''}{style.size(size)}"

    def of_exact(text: str) -> str:
        return text if beside_exact else ""

    cells = {
        "pid": str(each.pid),
        "user": each.user,
        "name": each.name,
        "figures": of_exact((each.figures or "").replace("-", " ")),
        "RSS": style.size(rss),
        "system": style.size(each.system_bytes),
        "in use": of_exact(style.size(whole.used_bytes if whole else None)),
        # belongs to another moment than the whole look
        "free": bound(each.free_bytes if whole is None else None),
        "free in RSS": bound(free),
        "trim gives": of_exact(style.size(whole.trim_bytes if whole else None)),
        "tops": of_exact(style.size(whole.tops_bytes if whole else None)),
        "stranded": bound(stranded),
        "arenas": number(each.arenas),
        "held": of_exact(duration(each.exact.held_seconds) if each.exact else ""),
        "allocator": ", ".join(each.allocators),
    }
    return [cells[name] for name in HEADERS]
