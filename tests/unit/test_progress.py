"""Commands that take long: what a terminal sees, and what is left of them after Ctrl-C."""

from __future__ import annotations

import io
import json
import sys

import pytest
from fake_door import FakeDoor, run_json
from heap_mixtures import everything

from arenascope.commands import execute
from arenascope.commands.table import find_command
from arenascope.render import optional, progress
from arenascope.render.progress import Progress


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
def test_what_takes_longer_says_how_far_it_is(library: bool, terminal: Terminal,
                                              monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    if library and optional.load("tqdm") is None:
        pytest.skip("tqdm is not installed")
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "EVERY", 0.0)
    if not library:
        monkeypatch.setattr(optional, "load", lambda name: None)
    with Progress("sweeping", 1000) as shown:
        shown.advance(500)
        shown.advance(250)
    assert "sweeping" in terminal.getvalue()
    assert ("50 %" in terminal.getvalue()) is not library


def test_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", stream)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
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
    document = json.loads("".join(door.written))
    assert document["complete"] is False
    assert document["left_out"] is None
    summary = document["summary"]
    counted = sum(summary[state]["chunks"] for state in ("used", "tcache", "fast", "free"))
    assert 0 < counted < sum(whole[state]["chunks"] for state in ("used", "tcache", "fast", "free"))
    assert document["problems"][0] == f"stopped at Ctrl-C after {counted} chunks"
    assert document["chunks"]
