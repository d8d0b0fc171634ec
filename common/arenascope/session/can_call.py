"""Whether a door can call into a process, as far as no moment changes that: nothing else is advised there."""

from __future__ import annotations

from typing import Optional

from ..base.model import SHELL_CALLS_INTO, Means
from ..glibc.find.malloc_code import LOAD_SYMBOLS, UNKNOWN_CODE, MallocCode, lies_in_libc
from ..sources.target import Target
from .session import Session


def code_of(session: Session) -> MallocCode:
    located = session.located
    return MallocCode(
        session.target, session.memory, located.libc, session.regions, symbols=located.located_by == "symbols"
    )


def find_means(session: Session, target: Optional[Target] = None) -> Means:
    """`target`: the process itself, where the session looks at a copy of it."""
    target = target or session.target
    if target.kind != "live" or not session.started:
        return Means()
    shell = target.machine in SHELL_CALLS_INTO and target.pointer_size == 8
    if lies_in_libc(session.located.libc) or code_of(session).known:
        return Means(shell)
    # a static program: the shell knows few of its symbols, a debugger all that there are
    if session.located.located_by == "symbols":
        return Means(shell=False)
    return Means(shell, lacks=f"{UNKNOWN_CODE} ({LOAD_SYMBOLS})")
