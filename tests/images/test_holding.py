"""How a live process is held: no signal of its is lost, and whatever becomes of who looks, it runs on."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from marks import full_after
from shell_door import arenascope, begin
from subjects import Subject
from waiting import await_that, states

from arenascope.base.errors import HoldEnded, TargetError
from arenascope.sources.live import proc_tables, process_hold, sigstop
from arenascope.sources.live.proc_tables import born, thread_state

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "common")}
HOWS = ("ptrace", "signal")
KINDS = ("report", "check", "types --quick")
"""Lists that are looked for beforehand, a sweep, a copy."""

LOOKS = """
import sys
from arenascope.commands.framework.find_command import find_command
from arenascope.cli.several_subjects import SubjectRequest, look
from arenascope.cli.shell import How
pid, how, number, command, *words = sys.argv[1:]
options = find_command(command).parser("arenascope").parse_args(words)
for _ in range(int(number)):
    seen = look(SubjectRequest(pid, command, options, How(stop=how, declared=False)))
    assert seen.error is None, seen.error
"""

HOLD = """
import sys, time
from arenascope.base.errors import HoldEnded
from arenascope.sources.live import process_hold
from arenascope.sources.live.proc_tables import born
pid, how, at_most = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
held = process_hold.Freeze(how, at_most)
held.hold(pid, born(pid))
print("held", held._guard, flush=True)
sys.stdin.readline()
try:
    print("released", held.release(), flush=True)
except HoldEnded as error:
    print("ended", error, flush=True)
"""


def is_held(pid):
    """Every thread is: one alone is for a moment at each signal of its own under ptrace."""
    return set(states(pid)) <= {"t", "T"}


class Holder:
    """A program that holds a process until it is told, in a process group of its own."""

    def __init__(self, pid, how, at_most=120.0):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(pid), how, str(at_most)],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        word, guard = self.process.stdout.readline().split()
        assert word == "held"
        self.pid, self.guard = self.process.pid, int(guard)
        assert is_held(pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def let_go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


@pytest.fixture
def sender():
    with Subject("signals", "8") as subject:
        yield subject


def is_well(subject):
    """Runs on, every thread of it, and has had all its signals."""
    await_that(lambda: not {"t", "T"} & set(states(subject.pid)))
    assert subject.send("tick") == "ticked"
    assert subject.send("check") == "intact"


def look_often(subject, how, number, words="arenas --quick"):
    arenascope(subject.pid, how, number, *words.split(), code=LOOKS, timeout=500)
    is_well(subject)
    assert subject.quit() == 0


@pytest.mark.parametrize("how", HOWS)
def test_no_signal_is_lost(sender, how):
    look_often(sender, how, 20)


@pytest.mark.full
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("words", KINDS)
def test_no_signal_is_lost_by_any_kind_of_look(sender, how, words):
    look_often(sender, how, 3, words)


@pytest.mark.soak
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(("number", "words"), [(2000, "arenas --quick"), *((200, words) for words in KINDS)])
def test_no_signal_is_lost_in_many_looks(sender, how, number, words):
    look_often(sender, how, number, words)


@pytest.mark.parametrize("how", full_after(1, HOWS))
@pytest.mark.parametrize(
    "number", full_after(2, [signal.SIGKILL, signal.SIGSTOP, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP])
)
def test_the_process_runs_on_when_the_group_gets_a_signal(sender, how, number):
    with Holder(sender.pid, how) as holder:
        os.killpg(holder.pid, number)
        is_well(sender)
        if number == signal.SIGSTOP:
            os.killpg(holder.pid, signal.SIGCONT)
            assert f"process {sender.pid} " in holder.let_go()


@pytest.mark.parametrize("how", HOWS)
def test_the_process_runs_on_when_the_guard_is_killed(sender, how):
    with Holder(sender.pid, how) as holder:
        os.kill(holder.guard, signal.SIGKILL)
        is_well(sender)
        assert f"process {sender.pid} " in holder.let_go()


@pytest.mark.parametrize("how", HOWS)
def test_a_guard_that_is_stopped_lets_go_at_its_end(sender, how):
    with Holder(sender.pid, how) as holder:
        os.kill(holder.guard, signal.SIGSTOP)
        assert holder.let_go().startswith("released")
        is_well(sender)


@pytest.mark.parametrize("how", HOWS)
def test_the_process_runs_on_when_all_are_stopped(sender, how):
    """Nobody is left to let go but the kernel."""
    with Holder(sender.pid, how, 2.5) as holder:
        os.kill(holder.guard, signal.SIGSTOP)
        os.kill(holder.pid, signal.SIGSTOP)
        is_well(sender)
        os.kill(holder.pid, signal.SIGCONT)
        assert " 2.5 s" in holder.let_go()


@pytest.fixture
def vforked():
    """A program with a thread inside vfork(), whose child ends when it is killed; and the thread that is."""
    with Subject("vforked") as subject:
        (parent,) = {int(each) for each in os.listdir(f"/proc/{subject.pid}/task")} - {subject.pid}
        await_that(lambda: thread_state(subject.pid, parent) == "D")
        yield subject, parent


def hold(subject, how, at_most):
    """What it is refused with; the guard is a fork of this very program, with all that a test has put into it."""
    held = process_hold.Freeze(how, at_most)
    try:
        held.hold(subject.pid, born(subject.pid))
    except TargetError as error:
        return str(error)
    finally:
        held.drop()
    return None


def test_what_is_asked_of_a_guard_that_has_ended(tmp_path):
    """Nothing is written to, or closed, that has its descriptors by now."""
    with Subject("waiting") as subject:
        held = process_hold.Freeze("signal")
        held.hold(subject.pid, born(subject.pid))
        held.release()
        own = [os.open(tmp_path / "own", os.O_RDWR | os.O_CREAT) for _ in range(8)]
        for _ in range(2):
            with pytest.raises(HoldEnded):
                held.register_sets()
        assert [os.fstat(each).st_size for each in own] == [0] * len(own)
        for each in own:
            os.close(each)
        assert held.release() == 0.0
        is_well(subject)


def test_a_guard_that_ended_before_it_held():
    with Subject("waiting") as subject:
        held = process_hold.Freeze("signal")
        os.kill(held._guard, signal.SIGKILL)
        os.waitid(os.P_PID, held._guard, os.WEXITED | os.WNOWAIT)
        with pytest.raises(HoldEnded):
            held.hold(subject.pid, born(subject.pid))
        is_well(subject)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("ends", ["patience", "hold-at-most"])
def test_a_thread_that_cannot_be_stopped(vforked, monkeypatch, how, ends):
    """All others stand still meanwhile: not for longer than such a one is waited for, nor than was allowed."""
    subject, parent = vforked
    monkeypatch.setattr(sigstop, "LONGEST", 1000.0)
    monkeypatch.setattr(process_hold, "GRACE", 1000.0)
    if ends == "hold-at-most":
        monkeypatch.setattr(sigstop, "IN_THE_KERNEL", 1000.0)
    said = hold(subject, how, 0.2 if ends == "hold-at-most" else 1000.0)
    assert re.match(rf"thread {parent} .*vfork\(\)", said)
    await_that(lambda: set(states(subject.pid)) <= {"R", "S", "D"})
    assert thread_state(subject.pid, parent) == "D"
    is_well(subject)
    assert subject.quit() == 0


@pytest.mark.parametrize("how", HOWS)
def test_a_vfork_that_ends_in_time(vforked, monkeypatch, how):
    """As nearly all do: it is waited for, and then held with the others."""
    subject, parent = vforked
    monkeypatch.setattr(sigstop, "IN_THE_KERNEL", 1000.0)
    waits, child = [], subject.truth["notes"]["child"]

    def end_child():
        await_that(lambda: thread_state(subject.pid, subject.pid) in "tT")
        waits.append(thread_state(subject.pid, parent))
        os.kill(child, signal.SIGKILL)

    ending = threading.Thread(target=end_child)
    held = process_hold.Freeze(how, 1000.0)
    ending.start()
    try:
        held.hold(subject.pid, born(subject.pid))
        assert is_held(subject.pid)
    finally:
        held.drop()
        ending.join()
    assert waits == ["D"]
    is_well(subject)
    assert subject.quit() == 0


def test_time_that_is_up_before_all_stand_still(sender, monkeypatch):
    """Says so, and not that a thread did not stop."""
    monkeypatch.setattr(process_hold, "GRACE", 1000.0)
    monkeypatch.setattr(proc_tables, "thread_state", lambda pid, tid: "S")
    assert " 0.05 s" in hold(sender, "signal", 0.05)
    monkeypatch.undo()
    is_well(sender)


@pytest.mark.parametrize("how", HOWS)
def test_a_hold_ends_after_its_longest(sender, how):
    with Holder(sender.pid, how, 1.5) as holder:
        is_well(sender)
        assert " 1.5 s" in holder.let_go()


def test_a_stop_that_comes_while_it_is_held(sender):
    with Holder(sender.pid, "ptrace") as holder:
        os.kill(sender.pid, signal.SIGSTOP)
        assert holder.let_go().startswith("released")
        await_that(lambda: set(states(sender.pid)) == {"T"})
    os.kill(sender.pid, signal.SIGCONT)
    is_well(sender)


@pytest.mark.parametrize("after", ["continued", "left"])
def test_a_stopped_process_that_is_held(sender, after):
    os.kill(sender.pid, signal.SIGSTOP)
    await_that(lambda: set(states(sender.pid)) == {"T"})
    with Holder(sender.pid, "ptrace") as holder:
        if after == "continued":
            os.kill(sender.pid, signal.SIGCONT)
        assert set(states(sender.pid)) <= {"t", "T"}
        assert holder.let_go().startswith("released")
    if after == "left":
        time.sleep(0.1)
        assert set(states(sender.pid)) == {"T"}
        os.kill(sender.pid, signal.SIGCONT)
    is_well(sender)


def look(pid, how):
    words = ["--no-stop"] if how == "none" else ["--stop", how]
    return begin("arenas", pid, "--json", *words, start_new_session=True)


def suspend_in_the_middle(subject, how, delay):
    done = look(subject.pid, how)
    time.sleep(delay)
    os.killpg(done.pid, signal.SIGSTOP)
    is_well(subject)
    os.killpg(done.pid, signal.SIGCONT)
    out, err = done.communicate(timeout=60)
    assert (done.returncode, out.count("\n")) == (0, 1), err
    assert "Traceback" not in err


def end_in_the_middle(subject, how, delay, number):
    done = look(subject.pid, how)
    time.sleep(delay)
    os.killpg(done.pid, number)
    done.communicate(timeout=60)
    is_well(subject)


@pytest.mark.soak
@pytest.mark.parametrize("how", [*HOWS, "none"])
@pytest.mark.parametrize("what", ["kill", "quit", "suspend"])
def test_rounds_of_looks_that_are_broken_off(sender, how, what):
    for _ in range(200):
        delay = random.uniform(0.02, 0.25)
        if what == "suspend":
            suspend_in_the_middle(sender, how, delay)
        else:
            end_in_the_middle(sender, how, delay, signal.SIGKILL if what == "kill" else signal.SIGQUIT)
    assert sender.quit() == 0


def caught_in_hold(pid, words):
    """A look that holds this process now. It does so for so short a time that one may be over before that is seen."""
    while True:
        done = begin(*words, start_new_session=True)
        await_that(lambda done=done: is_held(pid) or done.poll() is not None)
        if done.poll() is None:
            return done
        err = done.communicate()[1]
        assert done.returncode == 0, err


@pytest.mark.parametrize("how", HOWS)
def test_a_look_that_was_suspended_begins_anew(how):
    with Subject("churn") as subject:
        done = caught_in_hold(subject.pid, ["chunks", str(subject.pid), "--summary", "--stop", how])
        os.killpg(done.pid, signal.SIGSTOP)
        await_that(lambda: not {"t", "T"} & set(states(subject.pid)))
        os.killpg(done.pid, signal.SIGCONT)
        err = done.communicate(timeout=60)[1]
        assert done.returncode == 0, err
        assert re.search(r" [0-9.]+ m?s", err)
        assert subject.send("check") == "intact"
