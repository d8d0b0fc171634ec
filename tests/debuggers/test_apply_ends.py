"""heap trim --apply, where the call would end the process, or the kernel refuses what it asks for."""

from __future__ import annotations

import signal

import pytest
from applying import drive, lives_on
from doors import DOORS, GDB, Live
from lldb_door import LLDB_ARENA_PY, LLDBS, Lldb
from looks import Outcome, one_line, opened
from subjects import Subject

pytestmark = pytest.mark.xdist_group("lldb")
INSIST = "--even-under-seccomp"


@pytest.fixture(params=["gdb", *(each.name for each in LLDBS)])
def door(request: pytest.FixtureRequest) -> str:
    return request.param


def run(door: str, subject: Subject, *commands: str) -> list[Outcome]:
    return opened(DOORS[door]).run(Live(subject.pid, subject.program), list(commands))


def test_a_filter_means_refusal(door: str) -> None:
    """Even one that allows everything: what it does cannot be read."""
    with Subject("filtered", "kill") as subject:
        before = subject.rollup("Anonymous")
        for refused in run(door, subject, "trim --apply -y", "trim --apply -y --tops"):
            assert f"thread {subject.pid} is under a seccomp filter" in one_line(refused)
            assert INSIST in one_line(refused)
        assert subject.rollup("Anonymous") >= before
        assert subject.send("check") == "intact"


def test_who_insists_may_lose_the_process(door: str) -> None:
    with Subject("filtered", "kill") as subject:
        ended, _ = run(door, subject, f"trim --apply -y {INSIST}", "version")
        assert one_line(ended).startswith("heap trim: the process has ended, ")
        assert "SIGSYS" in one_line(ended)
        assert subject.process.wait(10) == -signal.SIGSYS


def test_what_the_kernel_refused_was_not_released(door: str) -> None:
    with Subject("filtered", "errno") as subject:
        first, text = run(door, subject, f"trim --apply -y --json {INSIST}", f"trim --apply -y --tops {INSIST}")
        assert first.json()["applied"]["released_bytes"] == 0 < first.json()["applied"]["predicted_bytes"]
        assert "nothing returned" in text.text
        assert ": 0 of " in next(line for line in text.text.splitlines() if line.startswith("malloc_trim(0)"))
        assert "madvise: 0 of 1 top released" in text.text
        lives_on(subject)


def test_a_filter_that_allows_it(door: str) -> None:
    with Subject("filtered", "none") as subject:
        before = subject.rollup("Anonymous")
        done, = run(door, subject, f"trim --apply -y --tops --json {INSIST}")
        assert 2 << 20 < done.json()["applied"]["released_bytes"] <= before - subject.rollup("Anonymous") + (64 << 10)
        lives_on(subject)


IN_GDB = """
import gdb, sys
abort = int(gdb.parse_and_eval("(long) &abort"))
try: sys.modules["arenascope_gdb.control"].GdbController().call(abort, [0], 5.0, lambda name: False)
except Exception as error: print(type(error).__name__, error)
"""


def test_a_fatal_signal_inside_the_call_is_taken_back() -> None:
    with Subject("bins") as subject:
        *_, said, where = drive(GDB, subject, "heap trim --apply", f"python exec({IN_GDB!r})", "backtrace 1")
        assert said.text.startswith("RefusedError the call was taken back at SIGABRT")
        assert "abort" not in where.text
        assert "read" in where.text
        lives_on(subject)


IN_LLDB = """
import sys
load = sys.modules["arenascope_lldb"]._sibling
seen = load("heap_target", FOLDER).LldbTarget(target, debugger)
control = load("heap_control", FOLDER).LldbController(debugger, target)
try: control.call(seen.symbol("abort").address, [0], 5.0, lambda name: False)
except Exception as error: value = [type(error).__name__, str(error)]
value += [process.GetThreadAtIndex(0).GetFrameAtIndex(0).GetFunctionName()]
"""


@pytest.mark.parametrize("lldb", LLDBS, ids=lambda lldb: lldb.name)
def test_a_fatal_signal_inside_the_call_is_taken_back_by_lldb(lldb: Lldb) -> None:
    with Subject("bins") as subject:
        code = IN_LLDB.replace("FOLDER", repr(str(LLDB_ARENA_PY.parent)))
        outcome, = opened(lldb).drive(["-p", str(subject.pid)], [{"python": code}])
        assert outcome.value[0] == "RefusedError"
        assert "SIGABRT" in outcome.value[1]
        assert "read" in outcome.value[2]
        lives_on(subject)
