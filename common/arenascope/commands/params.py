"""heap params: mp_ as it stands, beside defaults and what the environment asked for."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ..analysis.params import Param, describe_params
from ..glibc.limits import arena_limit
from ..render.text import AT_LEAST, Style, count, number, table
from . import Answer, Context, command
from .gather import problems_of, unknown_release


@command(
    "Show malloc's parameters: value, default, what the environment asked for, whether it took effect.",
    "params",
    "mmap_threshold and trim_threshold grow by themselves: free() of a mmapped block raises the first to its size and "
    "the second to twice that, unless either was set, or top_pad, or mmap_max.",
)
def params_command(context: Context) -> Answer:
    session = context.session
    environment = session.target.environment()
    release = unknown_release(session)
    rows = describe_params(session.params, session.layout, environment, not release) if session.params else []
    limit = arena_limit(session.params, session.layout, session.target)
    headers = session.headers
    problems = problems_of(session) + release
    if environment is None:
        problems.append("the environment that the process was started with is not in this image")
    keys = {
        "params": [{"name": row.name, "value": row.value, "default": row.default, "requested": row.requested,
                    "note": row.note} for row in rows],
        "arenas": {"count": len(headers) if session.all_arenas else None, "limit": limit},
    }  # fmt: skip
    return Answer(keys, _lines(context, rows, limit), problems)


def _lines(context: Context, rows: Sequence[Param], limit: Optional[int]) -> Iterator[str]:
    style, session = context.style, context.session
    arenas = len(session.headers)
    most = f"of at most {limit:,}" if limit is not None else "(their limit is not known here)"
    least = "" if session.all_arenas else AT_LEAST
    yield style.bold(f"{least}{count(arenas, 'arena')} {most}; glibc {session.located.version or 'of unknown version'}")
    yield ""
    cells = [
        [row.name, _value(style, row, row.value), _value(style, row, row.default), row.requested or ""] for row in rows
    ]
    yield from table(("parameter", "value", "default", "asked for"), cells, left=(0, 3))
    notes = [(row.name, row.note) for row in rows if row.note]
    if notes:
        yield ""
    for name, note in notes:
        yield f"{style.bold(name)}: {note}"


def _value(style: Style, row: Param, value: Optional[int]) -> str:
    if row.name == "sbrk_base":
        return f"{value:#x}" if value is not None else ""
    if value is None:
        return ""
    return style.size(value) if row.is_size else number(value)
