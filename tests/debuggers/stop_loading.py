"""Runs in a debugger: stops the first command of a freshly loaded door while it loads modules, at one line after the
other, and says what the command answers when it is given again.

What Ctrl-C does at that line a trace function does here: it raises KeyboardInterrupt.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Callable

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
OURS = tuple(os.path.join(ROOT, folder, "") for folder in ("common", "gdb", "lldb"))


def stop_while_loading(load: Callable[[], None], look: Callable[[], str], points: int) -> str:
    """JSON: how many lines loading takes; of `points` of these, what the interrupted and the next command said."""
    load()
    lines = _count(look)
    tries = []
    for line in sorted({1 + lines * each // points for each in range(points)}):
        load()
        first = _stopped_at(line, look)
        tries.append((line, first, _answer(look)))
    return json.dumps({"lines": lines, "tries": tries})


def _answer(look: Callable[[], str]) -> str:
    try:
        return look()
    except BaseException as error:  # a debugger has errors of its own
        return f"{type(error).__name__}: {error}"


def _count(look: Callable[[], str]) -> int:
    seen = 0

    def count() -> None:
        nonlocal seen
        seen += 1

    _traced(count, look)
    return seen


def _stopped_at(line: int, look: Callable[[], str]) -> str:
    seen = 0

    def stop() -> None:
        nonlocal seen
        seen += 1
        if seen == line:
            sys.settrace(None)
            raise KeyboardInterrupt

    return _traced(stop, look)


def _traced(each_line: Callable[[], None], look: Callable[[], str]) -> str:
    """Calls `each_line` at every line that runs in the top level of one of our modules: while it is loaded."""

    def inside(frame: Any, event: str, argument: object) -> Any:
        if event == "line":
            each_line()
        return inside

    def trace(frame: Any, event: str, argument: object) -> Any:
        code = frame.f_code
        return inside if code.co_name == "<module>" and os.path.realpath(code.co_filename).startswith(OURS) else None

    sys.settrace(trace)
    try:
        return _answer(look)
    finally:
        sys.settrace(None)
