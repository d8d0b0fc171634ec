"""trim --apply in the shell: the thread that calls is left as it was, even by a guard that is killed in the middle."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from marks import in_full
from platforms import HOST, host_and, needs_the_lock
from shell_door import begin
from subjects import Subject
from waiting import await_that, states

from arenascope.cli.shell_calls import ShellController
from arenascope.sources.live import process_hold
from arenascope.sources.live.live_target import ProcessTarget
from arenascope.sources.live.process import ProcessImage

pytestmark = pytest.mark.skipif(
    HOST.machine not in ("x86_64", "aarch64"), reason="the shell calls into x86-64 and aarch64 processes alone"
)

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "common")}
CALL_ONCE = Path(__file__).with_name("call_once.py")
PATIENCE = int(os.environ.get("ARENASCOPE_PATIENCE", "1"))
"""How many times slower this machine may be than a real one (tests/machines/test_machines.py)."""
WAIT = str(min(10 * PATIENCE, 55))
"""Seconds: all of its threads are to be asked meanwhile, and nobody is silent for a minute."""
NEVER = -1
OF_A_TRIM, OF_A_TOP = 6, 12
"""How often the guard calls ptrace(2) for one call, and for one under a lock: three steps."""
KILLED = "what held it was killed"
TOPS = ("--tops", "--arena", "1")
WAITING = host_and("2.41", "2.43", "2.44")
"""What tells which call waits lies elsewhere since 2.41, and so do stacks' guards since 2.42."""


def threads(subject):
    return sorted(int(each.name) for each in Path(f"/proc/{subject.pid}/task").iterdir())


def told_and_left_alone(subject):
    """Threads that can be made to call. On aarch64 nobody knows what is left of a wait for some time, but for a kernel
    that was told where to write it, as nanosleep() here was not."""
    names = subject.thread_names()
    alone = [tid for tid in threads(subject) if HOST.machine == "aarch64" and names[tid].startswith("nanosleep")]
    return [tid for tid in threads(subject) if tid not in alone], alone


def spinner(subject):
    return next(tid for tid in threads(subject) if tid != subject.pid)


def call(subject, *words, tids=(0,), at=(NEVER,), delay=0):
    chosen, when = (",".join(map(str, each)) for each in (tids, at))
    command = [sys.executable, str(CALL_ONCE), str(subject.pid), chosen, when, str(delay), *words]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120 * PATIENCE)


def done(subject, *words, tids=(0,)):
    said = call(subject, "--json", *words, tids=tids)
    assert said.returncode in (0, 1), said.stderr
    return json.loads(said.stdout)["applied"]


def is_well(subject):
    """Nobody is left stopped, nor with a mask that is not its own; every thread goes on, and finds what it had."""
    await_that(lambda: not {"t", "T"} & set(states(subject.pid)), 100 * PATIENCE)
    assert subject.send("tick") == "ticked"
    assert subject.send("check") == "intact"


def masks(subject):
    rows = {}
    for each in Path(f"/proc/{subject.pid}/task").iterdir():
        text = (each / "status").read_text()
        rows[each.name] = next(line for line in text.splitlines() if line.startswith("SigBlk"))
    return rows


def test_a_thread_that_computes_is_left_as_it_was():
    """Its registers of all kinds, what lies below its stack pointer, errno, its mask and its other stack."""
    needs_the_lock()
    with Subject("spinning") as subject:
        before, spins = masks(subject), spinner(subject)
        first = done(subject, tids=[spins])
        assert first["released_bytes"] >= first["predicted_bytes"] - (128 << 10) > 1 << 20
        assert done(subject, *TOPS, tids=[spins])["released_bytes"] >= 900 << 10
        for _ in range(3):
            done(subject, tids=[spins])
            is_well(subject)
        assert masks(subject) == before
        assert subject.quit() == 0


@pytest.mark.parametrize("platform", WAITING)
@pytest.mark.full
def test_whoever_waits_goes_on_waiting(platform):
    """Each of the threads calls in its turn, also those whose time to wait the kernel alone remembers."""
    with Subject("waiting", WAIT, platform=platform) as subject:
        told, left_alone = told_and_left_alone(subject)
        # first, while it waits
        for tid in left_alone:
            said = call(subject, tids=[tid])
            assert (said.returncode, said.stdout) == (2, "")
        said = call(subject, "--json", tids=told)
        assert said.returncode in (0, 1), said.stderr
        assert said.stdout.count('"applied"') == len(told)
        assert subject.send("tick") == "ticked"  # once the last of them is back
        assert subject.send("check") == "intact"
        assert subject.quit() == 0


def anonymous(subject, tid):
    """By the kernel; of a process whose main thread has exited one of the others is to be asked."""
    rows = Path(f"/proc/{tid}/smaps_rollup").read_text().splitlines()
    return next(int(row.split()[1]) << 10 for row in rows if row.startswith("Anonymous:"))


@pytest.mark.parametrize("how", ["left", "joined"])
def test_a_process_whose_main_thread_has_exited(how):
    """Of that one the kernel has a zombie, which stands nowhere; another calls."""
    with Subject("headless", how) as subject:
        alive = next(tid for tid in threads(subject) if tid != subject.pid)
        before = anonymous(subject, alive)
        told = done(subject)
        after = anonymous(subject, alive)
        assert told["predicted_bytes"] > 1 << 20
        assert before - after == pytest.approx(told["predicted_bytes"], abs=64 << 10)
        assert told["released_bytes"] == pytest.approx(before - after, abs=16 << 10)
        is_well(subject)
        assert subject.quit() == 0


@pytest.mark.parametrize("how", ["clone", "ring"])
def test_a_task_without_tls(how):
    """One on a stack of its own, and one that is the kernel's: never inside malloc, though it has no stack at all."""
    with Subject("lone", how) as subject:
        if not subject.truth["notes"]["task"]:
            pytest.skip("this kernel gives no io_uring here")
        before = anonymous(subject, subject.pid)
        told = done(subject)
        after = anonymous(subject, subject.pid)
        assert told["predicted_bytes"] > 1 << 20
        assert before - after == pytest.approx(told["predicted_bytes"], abs=64 << 10)
        is_well(subject)
        assert subject.quit() == 0


def test_a_thread_that_was_let_run_stands_elsewhere():
    """By the kernel: whether it is inside malloc is asked of where it is now. In a loop of four instructions a
    processor may take each interrupt at the same one; who writes, and frees blocks of all sizes is everywhere."""
    with Subject("churn") as subject:
        tid = spinner(subject)
        target = ProcessTarget(ProcessImage(subject.pid), (), symbols=False)
        held = process_hold.Freeze("ptrace")
        held.hold(subject.pid, target.image.born)
        try:
            target.look(held)
            controller = ShellController(target, held)
            places = set()
            for turn in range(1000):
                thread = next(each for each in target.threads() if each.tid == tid)
                pointer, counter = Path(f"/proc/{tid}/syscall").read_text().split()[-2:]
                assert (thread.stack_pointer, thread.program_counter) == (int(pointer, 16), int(counter, 16))
                places.add(counter)
                if turn >= 50 and len(places) > 1:
                    break
                assert controller.let_run(thread, 0)
        finally:
            held.drop()
        assert len(places) > 1
        is_well(subject)
        assert subject.quit() == 0


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "number"),
    [(TOPS, OF_A_TOP), pytest.param((), OF_A_TRIM, marks=pytest.mark.full)],
    ids=["top", "trim"],
)
def test_a_guard_that_is_killed_anywhere_leaves_it_sound(words, number):
    """At each step of a call, with the thread standing there or just let run."""
    needs_the_lock()
    with Subject("spinning") as subject:
        before = masks(subject)
        said = call(subject, *words, tids=[spinner(subject)], at=range(number))
        assert said.stderr.count(KILLED) == number, said.stderr
        is_well(subject)
        assert masks(subject) == before
        # and no lock is left behind
        done(subject, "--tops")
        is_well(subject)
        assert subject.quit() == 0


@pytest.mark.full
def test_a_guard_that_is_killed_leaves_waits_sound():
    """What is lost at most is how long a thread had waited."""
    with Subject("waiting", WAIT) as subject:
        told, _ = told_and_left_alone(subject)
        said = call(subject, tids=told, at=(1, 3))
        assert said.stderr.count(KILLED) == 2 * len(told), said.stderr
        assert subject.send("tick") == "ticked"
        assert subject.send("check") == "intact"
        assert subject.quit() == 0


KEEPS_SIGNALS_BACK = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static void spin(double seconds) {
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec - from.tv_sec + (now.tv_nsec - from.tv_nsec) / 1e9 < seconds);
}
int main(void) {
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    for (int i = 0; i < 1000; i++) if (i % 2) free(malloc(900 + i)); else malloc(900);
    puts("ready 1"); fflush(stdout);
    for (;;) { sigprocmask(SIG_SETMASK, &all, 0); spin(0.003); sigprocmask(SIG_SETMASK, &none, 0); spin(0.0003); }
}"""
STARTS_PROCESSES = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    for (int i = 0; i < 1000; i++) if (i % 2) free(malloc(900 + i)); else malloc(900);
    puts("ready 1"); fflush(stdout);
    for (;;) { pid_t child = vfork(); if (!child) { usleep(1000); _exit(0); } waitpid(child, 0, 0); }
}"""


@pytest.mark.parametrize("source", [*in_full(KEEPS_SIGNALS_BACK), STARTS_PROCESSES], ids=["signals", "vfork"])
def test_what_is_in_the_way_for_a_moment_is_let_pass(build, start, source):
    """As pthread_create() blocks all signals while it makes a thread, and vfork() waits for its child."""
    subject = start(build(source))
    try:
        for _ in range(5):
            said = call(subject, "--json")
            assert said.returncode in (0, 1), said.stderr
            assert json.loads(said.stdout)["applied"] is not None
    finally:
        # as busy as it is, it would cost all tests that come after it a processor
        subject.end()


MANY_THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *sleep_on(void *unused) { for (;;) pause(); return unused; }
int main(int argc, char **argv) {
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    free(malloc(900));
    for (int i = 1; i < atoi(argv[1]); i++) pthread_create(&thread, &small, sleep_on, 0);
    puts("ready 1"); fflush(stdout);
    sleep_on(0);
}"""
COUNTING = """
import sys
from arenascope.cli import main as cli, shell_calls
looked_up = [0]
class Counted(dict):
    def __getitem__(self, name):
        looked_up[0] += 1
        return super().__getitem__(name)
for each in shell_calls.PROCESSORS:
    each.unpacked = lambda *arguments, unpacked=each.unpacked: Counted(unpacked(*arguments))
status = cli.main(["trim", sys.argv[1], "--apply", "-y"])
print(looked_up[0])
sys.exit(status)
"""


def test_the_work_grows_with_the_threads_and_not_with_their_square(build, start):
    """By how often a thread's registers are looked at."""
    program, looked_up = build(MANY_THREADS), []
    for threads in (50, 400):
        subject = start(program, str(threads))
        words = [sys.executable, "-c", COUNTING, str(subject.pid)]
        said = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=60 * PATIENCE)
        assert said.returncode in (0, 1), said.stderr
        looked_up.append(int(said.stdout.splitlines()[-1]))
    assert looked_up[1] < 16 * looked_up[0]


def test_more_threads_than_the_time_allows_are_not_stopped_at_all(build, start):
    subject = start(build(MANY_THREADS), "600")
    said = call(subject, "--hold-at-most", "100")
    assert (said.returncode, said.stdout) == (2, "")
    assert "600 threads" in said.stderr
    assert "stood still" not in said.stderr


STOPPED = """
import os, signal, sys
from arenascope.cli import main as cli
from arenascope.commands import check as heap_check
check = heap_check._arena
def interrupted(*arguments, **more):
    os.kill(os.getpid(), signal.SIGINT)
    return check(*arguments, **more)
heap_check._arena = interrupted
sys.exit(cli.main(["trim", sys.argv[1], "--apply", "-y"]))
"""


def test_ctrl_c_while_the_heap_is_checked_does_nothing():
    """That it was not checked whole is not taken for damage."""
    with Subject("headless") as subject:
        alive = next(tid for tid in threads(subject) if tid != subject.pid)
        before = anonymous(subject, alive)
        words = [sys.executable, "-c", STOPPED, str(subject.pid)]
        said = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=60 * PATIENCE)
        assert (said.returncode, said.stdout) == (130, "")
        first, held, last = said.stderr.splitlines()
        assert (bool(first), last) == (True, "arenascope: stopped")
        assert held.startswith(f"process {subject.pid} ")
        assert anonymous(subject, alive) >= before
        is_well(subject)
        assert subject.quit() == 0


def rounds(number, arguments, env, at_once=1):
    """All goes on beside it: blocks are written, checked and freed, tops are taken from. `at_once`: by one Python."""
    with Subject("churn", *arguments, env=env) as subject:
        killed = 0
        for turn in range(number // at_once):
            words = ("--tops",) if turn % 2 else ()
            # with one arena there are no more steps than those of a trim
            at = [
                random.randrange(random.choice((OF_A_TRIM, 40))) if (turn + each) % 3 == 2 else NEVER
                for each in range(at_once)
            ]
            said = call(subject, *words, at=at, delay=random.choice((0, 20, 300, 3000)))
            lost = said.stderr.count(KILLED)
            assert said.returncode in (0, 1, 2), said.stderr
            assert said.stdout.count(" before, ") + lost == at_once, said.stdout + said.stderr
            is_well(subject)
            killed += lost
        assert subject.quit() == 0
        return killed


CHURNS = ((("4",), {}), (("4",), {"MALLOC_ARENA_MAX": "1"}), (("12",), {"MALLOC_ARENA_MAX": "2"}))


@pytest.mark.full
@pytest.mark.parametrize(
    ("arguments", "env"),
    [CHURNS[0], *(pytest.param(*each, marks=pytest.mark.full) for each in CHURNS[1:])],
    ids=["own-arenas", "one-arena", "crowd"],
)
def test_a_process_that_never_stands_still(arguments, env):
    needs_the_lock()
    rounds(3, arguments, env)


@pytest.mark.soak
@pytest.mark.parametrize(("arguments", "env"), CHURNS, ids=["own-arenas", "one-arena", "crowd"])
def test_a_thousand_rounds(arguments, env):
    assert rounds(340, arguments, env, at_once=10) > 20


@pytest.mark.full
def test_no_signal_is_lost():
    with Subject("signals", "8") as subject:
        call(subject)
        left = list(range(OF_A_TRIM))
        for _ in range(20):
            said = call(subject, at=left)
            ends = re.findall(r"^arenascope trim: .*", said.stderr, re.MULTILINE)
            assert len(ends) == len(left), said.stderr
            left = [at for at, each in zip(left, ends) if KILLED not in each]
            if not left:
                break
        assert not left, said.stderr
        is_well(subject)
        call(subject)
        is_well(subject)
        assert subject.quit() == 0


def test_a_trim_that_is_killed_from_outside():
    """At any moment while it holds the process."""
    with Subject("churn") as subject:
        for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            started = begin("trim", subject.pid, "--apply", "--tops", "-y")
            while set(states(subject.pid)) - {"t"} and started.poll() is None:
                time.sleep(0.002)
            time.sleep(random.uniform(0, 0.4))
            with contextlib.suppress(ProcessLookupError):
                os.kill(started.pid, number)
            assert "Traceback" not in started.communicate(timeout=60 * PATIENCE)[1]
            is_well(subject)
        assert subject.quit() == 0
