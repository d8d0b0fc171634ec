"""heap trim --apply, where the call would end the process, or the kernel refuses what it asks for."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest
from applying import drive, lives_on
from doors import DOORS, GDB, NEWEST, GdbTerminal, Live, skip_where_calls_fail
from lldb_door import LLDB_ARENA_PY, LLDB_LOAD, NEWEST_LLDB, Lldb
from looks import Outcome, one_line, opened
from marks import full_after
from platforms import needs_the_lock
from subjects import Subject
from waiting import await_that, state

pytestmark = pytest.mark.xdist_group("lldb")
INSIST = "--even-under-seccomp"


@pytest.fixture(params=full_after(1, NEWEST[::-1]))
def door(request: pytest.FixtureRequest) -> str:
    return request.param


def run(door: str, subject: Subject, *commands: str) -> list[Outcome]:
    return opened(DOORS[door]).run(Live(subject.pid, subject.program), list(commands))


def test_a_filter_means_refusal(door: str) -> None:
    """Even one that allows everything: what it does cannot be read."""
    with Subject("filtered", "kill") as subject:
        before = subject.rollup("Anonymous")
        for refused in run(door, subject, "trim --apply -y", "trim --apply -y --tops"):
            assert f"thread {subject.pid} " in one_line(refused)
            assert INSIST in one_line(refused)
        assert subject.rollup("Anonymous") >= before
        assert subject.send("check") == "intact"


def test_who_insists_may_lose_the_process(door: str) -> None:
    with Subject("filtered", "kill") as subject:
        ended, _ = run(door, subject, f"trim --apply -y {INSIST}", "version")
        assert "SIGSYS" in one_line(ended)
        assert subject.process.wait(60) == -signal.SIGSYS


def test_what_the_kernel_refused_was_not_released(door: str) -> None:
    needs_the_lock(door)
    with Subject("filtered", "errno") as subject:
        first, text = run(door, subject, f"trim --apply -y --json {INSIST}", f"trim --apply -y --tops {INSIST}")
        assert first.json()["applied"]["released_bytes"] == 0 < first.json()["applied"]["predicted_bytes"]
        assert "nothing returned" in text.text
        assert ": 0 of " in next(line for line in text.text.splitlines() if line.startswith("malloc_trim(0)"))
        assert "madvise: 0 of 1 " in text.text
        lives_on(subject)


def test_a_filter_that_allows_it(door: str) -> None:
    needs_the_lock(door)
    with Subject("filtered", "none") as subject:
        before = subject.rollup("Anonymous")
        (done,) = run(door, subject, f"trim --apply -y --tops --json {INSIST}")
        assert 2 << 20 < done.json()["applied"]["released_bytes"] <= before - subject.rollup("Anonymous") + (64 << 10)
        lives_on(subject)


IN_GDB = """
import gdb, sys
from arenascope.commands.framework.command import FunctionCall as Call
abort = int(gdb.parse_and_eval("(long) &FUNCTION"))
try: sys.modules["arenascope_gdb.heap_calls"].GdbController().call(Call(abort, [0]), 5.0, lambda name: False)
except Exception as error: print(error.id, error)
"""


@pytest.mark.parametrize(("function", "by"), [("abort", "SIGABRT"), ("fault_inlined", "SIGSEGV")])
def test_a_fatal_signal_inside_the_call_is_taken_back(function: str, by: str) -> None:
    """In one that is inlined into its caller, too: GDB's `return` refuses that."""
    with Subject("filtered", "none") as subject:
        call = f"python exec({IN_GDB.replace('FUNCTION', function)!r})"
        before, _, said, after = drive(GDB, subject, "backtrace 1", "heap trim --apply", call, "backtrace 1")
        assert re.match(f"call-taken-back .*{by}", said.text)
        assert after.text == before.text
        lives_on(subject)


IN_LLDB = """
from arenascope.commands.framework.command import FunctionCall as Call
from arenascope.commands.framework.debugger_doors import load_from_folder
seen = load_from_folder("lldb", "heap_target", FOLDER).LldbTarget(target, debugger)
control = load_from_folder("lldb", "heap_calls", FOLDER).LldbController(debugger, target)
stands = lambda: process.GetThreadAtIndex(0).GetFrameAtIndex(0).FindRegister("pc").GetValueAsUnsigned()
before = stands()
try: control.call(Call(seen.symbol("abort").address, [0]), 5.0, lambda name: False)
except Exception as error: value = [error.id, str(error)]
value += [before, stands()]
"""


UNAWARE = """
def put_back(thread):
    debugger.HandleCommand(f"process plugin packet send QRestoreRegisterState:1;thread:{thread.GetThreadID():x};")
    return lldb.SBError()
lldb.SBThread.UnwindInnermostExpression = put_back
"""
"""The registers are the process's again, and LLDB remembers what they were before: on a busy machine that is so by
itself in one of a hundred cases."""


@pytest.mark.parametrize("lldb", [NEWEST_LLDB], ids=lambda lldb: lldb.name)
@pytest.mark.parametrize("first", ["", UNAWARE], ids=["knows", "does-not-know"])
def test_a_fatal_signal_inside_the_call_is_taken_back_by_lldb(lldb: Lldb, first: str) -> None:
    with Subject("bins") as subject:
        code = first + IN_LLDB.replace("FOLDER", repr(str(LLDB_ARENA_PY.parent)))
        (outcome,) = opened(lldb).drive(["-p", str(subject.pid)], [{"python": code}])
        assert outcome.value[0] == "call-taken-back"
        assert "SIGABRT" in outcome.value[1]
        assert outcome.value[2] == outcome.value[3]
        lives_on(subject)


SLOW_IN_GDB = """
import gdb, sys
from arenascope.commands.framework.command import FunctionCall as Call
sleep = int(gdb.parse_and_eval("(long) &sleep"))
try: said = sys.modules["arenascope_gdb.heap_calls"].GdbController().call(Call(sleep, [2]), 9.0, lambda name: False)
except Exception as error: said = str(error)
print("it", "said", [said], "to the end")
"""
SLOW_IN_LLDB = """
def __lldb_init_module(debugger, names):
    target = debugger.GetSelectedTarget()
    from arenascope.commands.framework.command import FunctionCall as Call
    from arenascope.commands.framework.debugger_doors import load_from_folder
    seen = load_from_folder("lldb", "heap_target", FOLDER).LldbTarget(target, debugger)
    control = load_from_folder("lldb", "heap_calls", FOLDER).LldbController(debugger, target)
    stands = lambda: target.process.GetThreadAtIndex(0).GetFrameAtIndex(0).GetPC()
    before = stands()
    try: said = control.call(Call(seen.symbol("sleep").address, [2]), 9.0, lambda name: False)
    except Exception as error: said = str(error)
    print("where it stood:", stands() == before)
    print("it", "said", [said], "to the end")
"""


def press_during_the_call(subject: Subject, file: int, times: int) -> None:
    """Ctrl-C, from when the process sleeps in the call on; in the debugger's hands it is stopped."""
    await_that(lambda: state(subject.pid) == "S")
    for _ in range(times):
        os.write(file, b"\x03")
        time.sleep(0.3)


def assert_reasoned(screen: str) -> None:
    """The call came back, or there is a reason: never "the call failed: " with nothing after it."""
    (said,) = re.findall(r"it said \[(.*)\] to the end", screen)
    assert said == "0" or re.search(r"[^: ] ?(\(.*\))?'$", said), screen
    assert "Traceback" not in screen


def test_control_c_during_the_call(tmp_path: Path) -> None:
    """It is let go on, as malloc_trim must be, and the process stands where it stood."""
    code = tmp_path / "slow.py"
    code.write_text(SLOW_IN_GDB)
    with Subject("bins") as subject:
        with GdbTerminal("-p", subject.pid) as terminal:
            # loads what calls
            skip_where_calls_fail(terminal.ask("heap trim --apply", until="(y or n) "))
            terminal.ask("n")
            before = terminal.ask("backtrace 1")
            os.write(terminal.file, f"source {code}\n".encode())
            press_during_the_call(subject, terminal.file, 3)
            assert_reasoned(terminal.wait_for("to the end\n(gdb) "))
            assert terminal.ask("backtrace 1") == before
        lives_on(subject)


@pytest.mark.parametrize("lldb", [NEWEST_LLDB], ids=lambda lldb: lldb.name)
def test_control_c_during_the_call_by_lldb(lldb: Lldb, tmp_path: Path) -> None:
    code = tmp_path / "slow.py"
    code.write_text(SLOW_IN_LLDB.replace("FOLDER", repr(str(LLDB_ARENA_PY.parent))))
    with Subject("bins") as subject:
        with opened(lldb).at_terminal("-p", subject.pid, *LLDB_LOAD) as terminal:
            terminal.wait_for("command script import")
            terminal.type(f"command script import {code}\n")
            # a second one, before it has heeded the first, ends LLDB
            press_during_the_call(subject, terminal.file, 1)
            screen = terminal.wait_for("to the end")
            assert_reasoned(screen)
            assert ": True" in screen
            terminal.type("detach\n")
            terminal.wait_for("detached")
        lives_on(subject)
