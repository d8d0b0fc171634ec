"""heap version: what runs here, what was found and how."""

from __future__ import annotations

import platform
from typing import Iterator, Optional

from .. import __version__
from ..errors import ArenascopeError
from ..render import optional
from . import Answer, Context, command
from .gather import problems_of

HOW = {"symbols": "by symbol", "scan": "by what their TLS blocks hold", "": "for none of the threads"}


@command("Print versions, how glibc and its layout were found, and which libraries are in use.", "version")
def version_command(context: Context) -> Answer:
    problem: Optional[str] = None
    try:
        _ = context.session.located
    except ArenascopeError as error:
        problem = str(error)
    door = list(context.door.describe())
    keys = {
        "arenascope": __version__,
        "debugger": door[0] if door else None,
        "python": platform.python_version(),
        "libraries": {name: optional.where(name) for name in optional.NAMES},
        "layout": _layout(context) if problem is None else None,
        "checks": list(context.session.layout.checks) if problem is None else [],
    }
    return Answer(keys, _lines(context, problem), [problem] if problem else problems_of(context.session))


def _layout(context: Context) -> str:
    layout = context.session.layout
    return f"glibc {layout.release[0]}.{layout.release[1]}, {8 * layout.word}-bit, aligned to {layout.align}"


def _lines(context: Context, problem: Optional[str]) -> Iterator[str]:
    yield f"arenascope {__version__}"
    yield from context.door.describe()
    yield f"Python {platform.python_version()}"
    for name in optional.NAMES:
        yield optional.where(name)
    if problem is not None:
        return
    located = context.session.located
    libc = located.libc
    yield f"glibc {libc.version or 'of unknown version'}: {libc.path or 'no file known'}"
    if libc.build_id:
        yield f"build-id {libc.build_id}"
    found = "by symbol" if located.located_by == "symbols" else "by scan"
    yield f"main_arena {located.main_arena:#x}, found {found}; mp_ " + (
        f"{located.params:#x}" if located.params is not None else "not found")  # fmt: skip
    if context.session.started:
        yield f"threads' arenas and caches found {HOW[context.session.thread_words[1]]}"
    checks = located.layout.checks
    yield f"layout of {_layout(context)}: {len(checks)} checks held"
    for check in checks:
        yield f"  {check}"
