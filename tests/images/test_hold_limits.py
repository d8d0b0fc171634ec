"""A hold ends when it must, by the subject's clock; a report whose copy is not ready by then is one without it."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest
from marks import in_full
from schemas import valid
from subjects import Subject
from terminal import Terminal
from test_short_holds import asked

from arenascope.cli import several_subjects, shell
from arenascope.commands.framework import live_copy
from arenascope.sources.live import process_hold
from arenascope.sources.live.proc_tables import born

ROOT = Path(__file__).resolve().parents[2]
FRAMES = 2

WATCHED = """
import json, sys, time
from arenascope.cli import main, shell
from arenascope.sources.live import process_hold
from arenascope.sources.live.proc_tables import thread_state
pid, frames, log, *words = sys.argv[1:]
shell.PATIENCE, shell.EVERY = 0.0, 0.01
seen, show, release = [], shell.OverwrittenLine.show, process_hold.Freeze.release

def shown(self, text):
    seen.append((thread_state(int(pid), int(pid)) in "tT", text.startswith(shell.HELD), text))
    show(self, text)

def held_until_seen(self):
    limit = time.monotonic() + 120
    while len({text for held, _, text in seen if held}) < int(frames) and time.monotonic() < limit:
        time.sleep(0.01)
    return release(self)

shell.OverwrittenLine.show, process_hold.Freeze.release = shown, held_until_seen
status = main.main([*words, pid])
with open(log, "w") as file:
    json.dump(seen, file)
sys.exit(status)
"""


def on_a_terminal(subject, folder, *words):
    """All that the terminal got, and each line that was drawn: whether the process was held, and whether it said so."""
    log = folder / "log"
    argv = [sys.executable, "-c", WATCHED, subject.pid, FRAMES, log, *words]
    with Terminal(argv, variables={"PYTHONPATH": str(ROOT / "common")}) as terminal:
        shown = terminal.rest()
        assert terminal.process.returncode == 0, shown
    return shown, json.loads(log.read_text())


@pytest.mark.parametrize("words", ["types --quick", *in_full("check", "arenas")])
def test_a_terminal_sees_it_moving(words, tmp_path):
    with Subject("big", "16") as subject:
        screen, seen = on_a_terminal(subject, tmp_path, *words.split())
        assert subject.quit() == 0
    drawn = [text for held, says_so, text in seen if held and says_so]
    assert len(set(drawn)) >= FRAMES - 1, seen
    assert drawn[0] in screen


def looked_at(pid, words, seconds):
    return several_subjects.look(asked(pid, words, seconds))


LIMIT = 4.0
"""Seconds of a hold: enough on a busy machine for all that a report without a copy reads while it is held."""
ASKED = {"--types": "types", "--types --owners": "types and owners", "--html {page}": "types, owners and leaks"}


@pytest.mark.parametrize("case", ["cut", *in_full("stopped")])
@pytest.mark.parametrize("words", ASKED)
def test_a_report_without_a_copy_is_the_plain_one(words, case, monkeypatch, tmp_path):
    """Of types and owners half a copy tells nothing; where memory is, is told without one."""
    copy = live_copy.copy_process

    def copied(*few, **more):
        if case == "stopped":
            raise KeyboardInterrupt
        time.sleep(LIMIT + 0.2)
        return copy(*few, **more)

    monkeypatch.setattr(live_copy, "copy_process", copied)
    page = tmp_path / "page.html"
    with Subject("big", "16") as subject:
        seen = looked_at(subject.pid, f"report {words}".format(page=page), LIMIT if case == "cut" else 20.0)
        plain = json.loads(looked_at(subject.pid, "report", 20.0).text)
        assert subject.quit() == 0
    part = valid(json.loads(seen.text))
    (problem,) = part["problem_records"]
    assert (seen.error, seen.status, part["complete"]) == (None, 130 if case == "stopped" else 0, False)
    assert (problem["id"], problem["names"]) == (
        "stopped" if case == "stopped" else "hold-over",
        {"left_out": ASKED[words]},
    )
    assert (part["types"], part["held"], plain["complete"]) == (None, None, True)
    assert [part[key] for key in ("parts", "judgement", "rss_bytes")] == [
        plain[key] for key in ("parts", "judgement", "rss_bytes")
    ]
    if case != "stopped":
        assert re.search(r"--hold-at-most \d+s ", problem["text"])
    if "html" in words:
        assert problem["text"] in page.read_text()


@pytest.mark.parametrize("how", shell.WAYS_TO_STOP)
def test_a_hold_is_as_long_by_the_processs_own_clock(how):
    """Until the guard's limit, not until anybody asked."""
    with Subject("standing", "4") as subject:
        assert subject.send("tick") == "ticked"
        held = process_hold.Freeze(how, 2.0)
        held.hold(subject.pid, born(subject.pid))
        ended = []
        held.on_end(ended.append)
        assert subject.send("check") == "intact"  # it is answered once it runs on
        subject.send("truth")
        assert int((subject.folder / "truth" / "standing.txt").read_text()) > 1_000_000
        assert held.drop() == 2.0
        assert re.search(r"\b2 s\b", str(ended[0]))
        assert subject.quit() == 0
