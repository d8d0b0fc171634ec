"""A process whose main thread has exited while others go on: what its cache holds stays there, whoever looks."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Sequence

import pytest
from doors import DOORS, GDB, NEWEST, Core, Live
from looks import Outcome, opened
from marks import full_after
from platforms import Platform, host_and
from schemas import problem_ids
from subjects import Subject, fixture_program

HOW = ("left", "joined")
"""Whether pthread_join() has seen it off: then it is in none of libc's lists of threads any more."""
WHERE = host_and("2.43", "2.44")
"""Since 2.43 the kernel no longer clears the tid in such a thread's control block."""
PARKED = "pause"
"""Where it ends up whose standard input is at its end."""
COMMANDS = ("threads --json", "bins --json")


def check(outcomes: Sequence[Outcome], truth: dict[str, Any]) -> None:
    # GDB itself says, once, that it has no registers of the thread whose id is the core's
    texts = ["".join(re.split("^warning: .*\n", each.text, flags=re.MULTILINE)) for each in outcomes]
    threads, bins = [replace(each, text=text).json() for each, text in zip(outcomes, texts)]
    assert problem_ids(threads) == problem_ids(bins) == []
    main = next(each for each in threads["threads"] if each["tid"] == truth["pid"])
    assert main["arena"] == 0
    assert threads["unattached_arenas"] == []
    notes = truth["notes"]
    (cached,) = (
        row
        for row in bins["bins"]
        if (row["kind"], row["tid"], row["min_bytes"]) == ("tcache", truth["pid"], notes["chunk"])
    )
    assert cached["chunks"] == notes["cached"] > 0


@pytest.mark.parametrize("platform", WHERE)
@pytest.mark.parametrize("how", full_after(1, HOW))
def test_by_the_shell(how: str, platform: Platform) -> None:
    """No debugger attaches to such a process: the kernel traces no zombie."""
    with Subject("headless", how, platform=platform) as subject:
        image = Live(subject.pid, subject.program)
        check(DOORS["shell"].run(image, COMMANDS), subject.truth)
        check(DOORS["shell"].run(image, [f"{each} --stop signal" for each in COMMANDS]), subject.truth)
        (chunk,) = DOORS["shell"].run(image, [f"chunk {subject.truth['notes']['first']} --json"])
        assert chunk.json()["chunk"]["state"] == "tcache"


@pytest.mark.parametrize("platform", WHERE)
@pytest.mark.parametrize("how", full_after(1, HOW))
def test_in_a_core(how: str, platform: Platform) -> None:
    """Which does not list that thread."""
    with Subject("headless", how, platform=platform) as subject:
        truth = subject.truth
        image = Core(subject.kernel_core(), subject.program)
        for name in NEWEST:
            for symbols in (True, False):
                check(opened(DOORS[name]).run(image, COMMANDS, symbols), truth)


@pytest.mark.parametrize("how", full_after(1, HOW))
def test_in_a_core_of_one_thread(how: str) -> None:
    """As gcore writes it of a thread. What malloc_info() left on the stack of one without an arena is not its arena."""
    with Subject("headless", how) as subject:
        tids = {int(each) for each in os.listdir(f"/proc/{subject.pid}/task")}
        # who serves in main's place allocates nothing, and is not in the truth's list
        worker = next(each["tid"] for each in subject.truth["threads"] if each["tid"] != subject.pid)
        (server,) = tids - {subject.pid, worker}
        # GDB looks into the core with libthread_db, and lists both threads
        rows = {}
        for tid in (worker, server):
            image = Core(subject.gcore(tid=tid), subject.program)
            (threads,) = DOORS["shell"].run(image, COMMANDS[:1])
            (rows[tid],) = threads.json()["threads"]
    assert [(rows[tid]["tid"], rows[tid]["arena"]) for tid in (worker, server)] == [(worker, 1), (server, None)]
    assert problem_ids(threads.json()) == ["caches-not-found", "thread-arenas-not-found"]


@pytest.mark.parametrize("how", full_after(1, HOW))
def test_under_gdb(tmp_path: Path, how: str) -> None:
    """Begun there. What GDB 13 writes as a core of it has no memory: it looks for the mappings at the zombie's."""
    program = fixture_program("headless")
    stop = ["set breakpoint pending on", f"break {PARKED}", f"set args {tmp_path / 'truth'} {how}", "run"]
    begin = [str(program), *(word for each in stop for word in ("-ex", each))]
    steps = [*({"do": f"heap {each}"} for each in COMMANDS), {"do": "kill"}]
    outcomes = opened(GDB).drive(begin, steps)
    truth = json.loads((tmp_path / "truth" / "truth.json").read_text())
    check(outcomes[:2], truth)


@pytest.mark.parametrize("how", full_after(1, HOW))
def test_under_lldb(tmp_path: Path, how: str) -> None:
    """LLDB 14 itself hangs as soon as such a thread has exited."""
    program = fixture_program("headless")
    begin = ["-o", f"breakpoint set -n {PARKED}", "-o", f"process launch -i /dev/null -- {tmp_path / 'truth'} {how}"]
    steps = [*({"do": f"heap {each}"} for each in COMMANDS), {"do": "process kill"}]
    outcomes = opened(DOORS[NEWEST[1]]).drive([str(program), *begin], steps)
    truth = json.loads((tmp_path / "truth" / "truth.json").read_text())
    check(outcomes[:2], truth)
