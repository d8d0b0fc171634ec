"""Commands that take long: what a terminal sees, and what is left of them after Ctrl-C."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from typing import Any, Callable, Optional

import pytest
from fake_door import FakeDoor, run_json
from heap_mixtures import everything
from marks import in_full
from schemas import valid

from arenascope.base import optional_libraries, progress_bar
from arenascope.base.progress_bar import Progress
from arenascope.commands import check, trim
from arenascope.commands.framework.command import execute
from arenascope.commands.framework.find_command import find_command
from arenascope.glibc import regular_bins
from arenascope.sources.target import MemoryUse


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(sys, "__stderr__", stream)
    return stream


def test_what_is_soon_done_shows_nothing(terminal: Terminal) -> None:
    with Progress("sweeping", 1000) as shown:
        shown.advance(500)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("library", [True, False])
def test_what_takes_longer_says_how_far_it_is(
    library: bool, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    if library and optional_libraries.load("tqdm") is None:
        pytest.skip("tqdm is not installed")
    monkeypatch.setattr(progress_bar, "PATIENCE", 0.0)
    monkeypatch.setattr(progress_bar, "EVERY", 0.0)
    if not library:
        monkeypatch.setattr(optional_libraries, "load", lambda name: None)
    with Progress("sweeping", 1000) as shown:
        shown.advance(500)
        shown.advance(250)
    assert "sweeping" in terminal.getvalue()
    assert ("50 %" in terminal.getvalue()) is not library
    # a dumb terminal would show them
    assert "\033" not in terminal.getvalue()


def test_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", stream)
    monkeypatch.setattr(progress_bar, "PATIENCE", 0.0)
    with Progress("sweeping", 1000) as shown:
        shown.advance(500)
    assert stream.getvalue() == ""


def test_ctrl_c_gives_what_was_done() -> None:
    image = everything("2.36-64")
    target = image.target()
    whole = run_json(target, "chunks", "--summary")["summary"]
    fill, calls = target.fill, []

    def interrupted(address: int, block: memoryview) -> int:
        calls.append(address)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return fill(address, block)

    target.fill = interrupted  # type: ignore[method-assign]
    door = FakeDoor(target)
    assert execute(find_command("chunks"), ["--json", "--limit", "0"], door) == 130
    document = valid(json.loads("".join(door.written)))
    assert document["complete"] is False
    assert document["left_out"] is None
    summary = document["summary"]
    counted = sum(summary[state]["chunks"] for state in ("used", "tcache", "fast", "free"))
    assert 0 < counted < sum(whole[state]["chunks"] for state in ("used", "tcache", "fast", "free"))
    stopped = document["problem_records"][0]
    assert (stopped["id"], stopped["figures"]) == ("stopped", {"chunks": counted})
    assert document["chunks"]


@pytest.mark.parametrize(
    "command", ["arenas", "trim", "check", "map", "info", *in_full("bins", "report", "pins", "chunks", "stats")]
)
def test_ctrl_c_anywhere_is_never_taken_for_the_whole(command: str) -> None:
    image = everything("2.36-64")
    reads = 0
    after = sys.maxsize

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def read(*arguments: Any) -> Any:
            nonlocal reads
            reads += 1
            if reads == after:
                raise KeyboardInterrupt
            return function(*arguments)

        return read

    def run(stop: int) -> Optional[tuple[int, dict[str, Any]]]:
        nonlocal reads, after
        reads, after = 0, stop
        target = image.target()
        for name in ("read", "fill"):
            setattr(target, name, counted(getattr(target, name)))
        door = FakeDoor(target)
        try:
            status = execute(find_command(command), ["--json"], door)
        except KeyboardInterrupt:
            return None
        return status, valid(json.loads("".join(door.written)))

    assert run(sys.maxsize) is not None
    told = 0
    for stop in range(1, reads + 1, 1 + reads // 200):
        outcome = run(stop)
        if outcome is not None:
            status, document = outcome
            assert (status, document["complete"]) == (130, False)
            assert "stopped" in [each["id"] for each in document["problem_records"]]
            told += 1
    assert told, "no moment at which the command keeps what it has"


@pytest.mark.parametrize(
    ("place", "what"), [(regular_bins, "walk_bins"), (check, "_arenas")], ids=["planned", "checked"]
)
def test_trim_applies_nothing_where_it_was_stopped(monkeypatch: pytest.MonkeyPatch, place: Any, what: str) -> None:
    """Ctrl-C while the plan is made, or while the heap is checked for damage, means: do not."""

    class LiveDoor(FakeDoor):
        def controller(self) -> Any:
            return object()

    target = replace(everything("2.36-64").target(), kind="live")
    monkeypatch.setattr(target.image, "memory_use", lambda: MemoryUse(1 << 20, 1 << 20))
    called: list[str] = []
    for name in ("settle", "check_filters", "check_locks", "release_tops"):
        monkeypatch.setattr(trim, name, lambda *arguments: None)
    monkeypatch.setattr(trim, "call_trim", lambda *arguments: called.append("malloc_trim"))

    notices: list[str] = []

    def apply() -> None:
        door = LiveDoor(target)
        door.notices = notices
        execute(find_command("trim"), ["--apply", "--yes"], door)

    apply()
    assert (called, notices) == (["malloc_trim"], [])

    def stopped(*arguments: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, what, stopped)
    with pytest.raises(KeyboardInterrupt):
        apply()
    assert called == ["malloc_trim"]
    assert len(notices) == 1
