"""heap trim --apply, where a signal handler stands on top of an interrupted malloc: it must not go ahead."""

from __future__ import annotations

import json
import os
import signal

import pytest
from applying import APPLY, CONSOLIDATE, FREE, applied, drive, lives_on, stands_at, stop_at, tell
from doors import DOORS, GDB, LOAD, SHELL, Live
from lldb_door import NEWEST_LLDB
from looks import HERE, Outcome, failure_id, one_line, opened
from marks import in_full
from platforms import HOST
from shell_door import arenascope
from subjects import Subject

pytestmark = pytest.mark.xdist_group("lldb")
INSIDE, BARE = "inside-malloc", "perhaps-inside-malloc"
CASES = (
    pytest.param("gdb", ("deep",), ("unlink_chunk",), "tick", INSIDE, marks=pytest.mark.full),
    ("gdb", ("bare",), FREE, "tick", BARE),
    pytest.param("gdb", ("deep", "alternate"), ("systrim",), "trim", INSIDE, marks=pytest.mark.full),
    pytest.param("gdb", ("bare", "alternate"), CONSOLIDATE, "trim", BARE, marks=pytest.mark.full),
    (NEWEST_LLDB.name, ("deep", "alternate"), ("unlink_chunk",), "tick", INSIDE),
    pytest.param(NEWEST_LLDB.name, ("bare",), ("unlink_chunk",), "tick", BARE, marks=pytest.mark.full),
    (SHELL.name, ("deep",), ("unlink_chunk",), "tick", INSIDE),
    pytest.param(SHELL.name, ("deep", "alternate"), ("systrim",), "trim", INSIDE, marks=pytest.mark.full),
    pytest.param(SHELL.name, ("bare",), FREE, "tick", BARE, marks=pytest.mark.full),
    pytest.param(SHELL.name, ("bare", "alternate"), CONSOLIDATE, "trim", BARE, marks=pytest.mark.full),
)


def park(subject: Subject, places: tuple[str, ...], command: str) -> None:
    """Has the handler park on top of a function of malloc's; the process goes on, parked."""
    at = drive(
        GDB,
        subject,
        stop_at(*places),
        tell(subject, command),
        "continue",
        "backtrace 1",
        "delete",
        "tbreak park",
        "signal SIGUSR1",
    )
    assert stands_at(places, at[3].text)
    assert subject.hear() == "parked"


def look(door: str, subject: Subject, *commands: str) -> list[Outcome]:
    return opened(DOORS[door]).run(Live(subject.pid, subject.program), list(commands))


@pytest.mark.parametrize(("door", "shape", "places", "command", "id"), CASES)
def test_a_parked_handler_means_refusal(
    door: str, shape: tuple[str, ...], places: tuple[str, ...], command: str, id: str
) -> None:
    if "bare" in shape and HOST.machine != "x86_64":
        pytest.skip("the handler without unwind tables is written for x86-64")
    with Subject("interrupted", *shape) as subject:
        park(subject, places, command)
        before = subject.rollup("Anonymous")
        check, refused = look(door, subject, "check --json", "trim --apply -y --json")
        assert f"thread {subject.pid} (interrupted) " in one_line(refused)
        # GDB keeps no output of a command that fails
        assert door == "gdb" or failure_id(refused.text) == id
        assert subject.rollup("Anonymous") >= before
        # nor is what malloc was about to do taken for damage
        assert subject.pid in [each["tid"] for each in check.json()["busy"]]
        assert [each for each in check.json()["breaches"] if not each["transient"]] == []
        os.kill(subject.pid, signal.SIGUSR2)
        assert subject.hear() in ("ticked", "trimmed 1")
        lives_on(subject)


LET_GO = """
import os, signal, sys
from arenascope.cli import main as cli
from arenascope.cli.shell_calls import ShellController
run = ShellController.let_run
def told_to_go_on(self, *arguments):
    if not told:
        told.append(os.kill(int(sys.argv[1]), signal.SIGUSR2))
    return run(self, *arguments)
told, ShellController.let_run = [], told_to_go_on
sys.exit(cli.main(["trim", sys.argv[1], "--apply", "-y", "--json"]))
"""


@pytest.mark.skipif(HOST.machine != "x86_64", reason="the handler without unwind tables is written for x86-64")
def test_who_may_be_inside_for_a_moment_is_let_out() -> None:
    """The handler is told to end once its thread, which nobody can follow, is let run alone."""
    with Subject("interrupted", "bare") as subject:
        park(subject, FREE, "tick")
        done = arenascope(subject.pid, code=LET_GO)
        assert json.loads(done.stdout)["applied"]["released_bytes"] >= 0
        assert subject.hear() == "ticked"
        lives_on(subject)


def test_a_handler_that_ends_is_run_out() -> None:
    """400 frames of its own, then what it interrupted, then malloc's caller."""
    with Subject("interrupted", "deep") as subject:
        outcomes = drive(
            GDB,
            subject,
            "break unlink_chunk",
            tell(subject, "tick"),
            "continue",
            "delete",
            "tbreak park",
            "signal SIGUSR1",
            "set var go_on = 1",
            APPLY,
        )
        assert applied(outcomes[-1])
        assert (subject.hear(), subject.hear()) == ("parked", "ticked")
        lives_on(subject)


def test_a_handler_outside_malloc_is_in_nobodys_way() -> None:
    """It is not the depth of a stack that is refused."""
    with Subject("interrupted", "deep", "alternate") as subject:
        os.kill(subject.pid, signal.SIGUSR1)
        assert subject.hear() == "parked"
        for door in ("gdb", NEWEST_LLDB.name):
            (outcome,) = look(door, subject, "trim --apply -y --json")
            assert outcome.json()["applied"]["released_bytes"] >= 0
        # but where a handler's stack ends nobody can tell who is alone with a thread on it
        (refused,) = look(SHELL.name, subject, "trim --apply -y")
        assert " trim: " in one_line(refused)
        os.kill(subject.pid, signal.SIGUSR2)
        lives_on(subject)


@pytest.mark.parametrize("door", ["gdb", NEWEST_LLDB.name, SHELL.name])
def test_names_alone_put_nobody_inside_malloc(door: str) -> None:
    """The program's own new_heap and systrim are on the stack for as long as it lives."""
    with Subject("namesakes") as subject:
        (stack,) = drive(GDB, subject, "backtrace")
        assert " new_heap (" in stack.text
        assert " systrim (" in stack.text
        before = subject.rollup("Anonymous")
        (outcome,) = look(door, subject, "trim --apply -y --json")
        assert outcome.json()["applied"]["released_bytes"] > 1 << 20
        assert before - subject.rollup("Anonymous") > 1 << 20
        lives_on(subject)


@pytest.mark.parametrize("kind", ["use_after_free_nextsize", *in_full("wrong_arena", "overflow")])
def test_a_damaged_heap_is_not_called_into(kind: str) -> None:
    """malloc_trim could abort: what `heap check` sees is asked before."""
    with Subject("corrupt", kind) as subject:
        subject.send("tick")
        (refused,) = drive(GDB, subject, "heap trim --apply -y")
        assert "heap" in one_line(refused)
        assert subject.process.poll() is None


SHAPES = (("shallow",), ("deep",), ("bare",), ("deep", "alternate"), ("bare", "alternate"))


def every_instruction(shape: tuple[str, ...], number: int, seed: int) -> dict[str, int]:
    """Interrupts malloc at so many of its instructions; how many rounds went how."""
    gdb = opened(GDB)
    with Subject("interrupted", *shape) as subject:
        image = gdb.look_at(Live(subject.pid, subject.program))
        variables = {"ARENASCOPE_ROUNDS": str(number), "ARENASCOPE_SEED": str(seed)}
        words = [*image, *LOAD, "-x", str(HERE / "interrupt_gdb.py")]
        done = gdb.start(words, variables=variables, timeout=60 + 20 * number)
        lines = [line for line in done.stdout.splitlines() if line.startswith('{"counts"')]
        assert lines, done.stdout + done.stderr
        print(*shape, lines[0])
        assert subject.process.poll() is None, done.stdout + done.stderr
        lives_on_after(subject)
        counts: dict[str, int] = json.loads(lines[0])["counts"]
        assert sum(counts.values()) == number
        return counts


def lives_on_after(subject: Subject) -> None:
    """Behind the replies of all rounds."""
    subject.process.stdin.write(b"freeat 0x1\n")
    while (reply := subject.hear()) != "unknown command freeat 0x1" and not reply.startswith("unknown block"):
        assert reply in ("ticked", "parked", "intact", "trimmed 0", "trimmed 1")
    lives_on(subject)


def test_a_few_instructions_of_malloc() -> None:
    assert set(every_instruction(("deep",), 6, 1)) <= {"refused", "ran out"}


@pytest.mark.soak
@pytest.mark.parametrize("shape", SHAPES, ids="-".join)
def test_every_instruction_of_malloc(shape: tuple[str, ...]) -> None:
    """Each shape has instructions of its own. Nobody can be run out of malloc behind code without unwind tables."""
    may_be = {"refused"} if "bare" in shape else {"refused", "ran out"}
    assert set(every_instruction(shape, 100, SHAPES.index(shape))) == may_be
