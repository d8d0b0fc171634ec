"""Ctrl-C in LLDB, and `heap trim --apply` through it."""

from __future__ import annotations

from pathlib import Path

import pytest
from doors import Live
from lldb_door import LLDB_ARENA_PY, LLDB_LOAD, Lldb
from subjects import Subject

pytestmark = pytest.mark.xdist_group("lldb")


def attach(subject: Subject) -> list[str]:
    return ["-p", str(subject.pid)]


def run(*commands: str) -> list[str]:
    return [word for command in commands for word in ("-o", command)]


SLOW = """
import sys
def __lldb_init_module(debugger, names):
    # reads one place until it is stopped: a heap that takes a minute would take as long to build
    commands = sys.modules["arenascope_lldb"]
    def execute(command, words, door):
        target = door.target()
        print("walking")
        while True:
            target.read(target.regions()[1].start, 8)
    commands.execute = execute
"""


def test_control_c(lldb: Lldb, subject: Subject, tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(SLOW)
    more = run(f"command script import {slow}", "script print('re' + 'ady')")
    arguments = [*attach(subject), *LLDB_LOAD, *more]
    with lldb.at_terminal(*arguments) as terminal:
        terminal.wait_for("ready")
        terminal.type("heap arenas\n")
        terminal.wait_for("walking")
        terminal.type("\x03")
        assert "Traceback" not in terminal.wait_for("nterrupted")
        terminal.type("script print(6 * 7)\n")
        terminal.wait_for("42")


def test_somebody_is_asked(lldb: Lldb) -> None:
    with Subject("tcache") as subject, lldb.at_terminal(*attach(subject), *LLDB_LOAD) as terminal:
        terminal.wait_for("command script import")
        terminal.type("heap trim --apply\n")
        terminal.wait_for("(y or n)")
        terminal.type("n\n")
        terminal.wait_for("not done")
        terminal.type("heap trim --apply\n")
        terminal.wait_for("(y or n)")
        terminal.type("y\n")
        terminal.wait_for("returned in")


# --apply


@pytest.mark.parametrize("fixture", ["bins", "tcache"])
def test_apply_returns_what_was_foretold(lldb: Lldb, fixture: str) -> None:
    with Subject(fixture) as subject:
        steps = [
            {"do": "heap trim --json"},
            {"do": "heap trim --apply --yes --json"},
            {"do": "heap trim --json"},
            {"python": "value = [thread.IsSuspended() for thread in process]"},
        ]
        before, applied, after, held = lldb.drive(attach(subject), steps)
        foretold = before.json()["totals"]["resident_bytes"]
        assert foretold > 0
        assert applied.json()["applied"]["predicted_bytes"] == foretold
        assert applied.json()["applied"]["released_bytes"] == foretold
        assert after.json()["totals"]["resident_bytes"] == 0
        assert not any(held.value)


def test_apply_needs_a_yes(lldb: Lldb, subject: Subject) -> None:
    (outcome,) = lldb.drive(attach(subject), [{"do": "heap trim --apply"}])
    assert "-y" in outcome.error


@pytest.mark.full
def test_apply_to_threads_that_never_stop(lldb: Lldb) -> None:
    """Stopped anywhere, mostly inside malloc: each is let out first, and afterwards all go on, unhurt."""
    with Subject("churn", "4") as subject:
        for symbols in (True, False, True, False):
            (outcome,) = lldb.run(Live(subject.pid, subject.program), ["trim --apply --yes --json"], symbols)
            assert outcome.json()["applied"]["released_bytes"] >= 0
            assert (subject.send("tick"), subject.send("check")) == ("ticked", "intact")


CALL = """
import struct
from arenascope.commands.trim import LOCK_WAITS
from arenascope.commands.framework.command import FunctionCall as Call
from arenascope.commands.framework.debugger_doors import load_from_folder
seen = load_from_folder("lldb", "heap_target", FOLDER).LldbTarget(target, debugger)
control = load_from_folder("lldb", "heap_calls", FOLDER).LldbController(debugger, target)
def place(): return [(thread.frame[0].pc, thread.frame[0].sp, thread.IsSuspended()) for thread in process]
def call(name, argument):
    try: return control.call(Call(seen.symbol(name).address, [argument]), 1.0, lambda name: name in LOCK_WAITS)
    except Exception as error: return [error.id, str(error)]
def lock(value): process.WriteMemory(seen.symbol("main_arena").address, struct.pack("<I", value), lldb.SBError())
before = place()
value = [call("getpid", 0) == process.id]
lock(2)
value += [call("malloc_trim", 0), place() == before]
lock(0)
value += [call("sleep", 2), place() == before, call("malloc_trim", 0) in (0, 1)]
""".replace("FOLDER", repr(str(LLDB_ARENA_PY.parent)))


def test_a_call_that_does_not_come_back(lldb: Lldb) -> None:
    """In a lock it is taken back; at work it is let go on. Either way the thread stands where it stood."""
    with Subject("bins") as subject:
        (outcome,) = lldb.drive(attach(subject), [{"python": CALL}])
        called, refused, as_before, slept, as_before_again, trimmed = outcome.value
        assert called
        assert refused[0] == "call-waited-for-lock"
        assert as_before
        assert slept == 0
        assert as_before_again
        assert trimmed
