"""A process whose main thread has left by pthread_exit while others go on: its own folder in /proc has no memory, and
GDB attaches to the one thread whose number it is given, while the others run on."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Iterator, NamedTuple

import pytest
from doors import GDB, Live
from looks import one_line, opened, plain_environment
from marks import in_full
from shell_door import SHELL
from subjects import Started, compiled

THREADS, CACHED, SIZE = 3, 5, 200
FREED, PIECE = 20, 64 << 10
OWN_PAGES = 64 << 10
"""The call touches some of stack and data."""
SOURCE = f"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static pthread_barrier_t all;
static pthread_t first;
static void *run(void *number) {{
    void *blocks[{CACHED}];
    for (int n = 0; n < {CACHED}; n++) blocks[n] = malloc({SIZE});
    for (int n = 0; n < {CACHED}; n++) free(blocks[n]);
    if (!number) pthread_join(first, 0);
    pthread_barrier_wait(&all);
    if (!number) {{ char line[] = "ready\\n"; write(1, line, 6); }}
    for (;;) pause();
}}
static void *ended(void *nothing) {{ return nothing; }}
int main(void) {{
    char *blocks[2 * {FREED}]; pthread_t thread;
    void *cached[{CACHED}];
    for (int n = 0; n < {CACHED}; n++) cached[n] = malloc({SIZE});
    for (int n = 0; n < {CACHED}; n++) free(cached[n]);
    first = pthread_self();
    for (int n = 0; n < 2 * {FREED}; n++) memset(blocks[n] = malloc({PIECE}), 1, {PIECE});
    for (int n = 0; n < 2 * {FREED}; n += 2) free(blocks[n]);
    pthread_barrier_init(&all, 0, {THREADS});
    for (long n = 0; n < {THREADS}; n++) pthread_create(&thread, 0, run, (void *) n);
    /* more than the threads that go on: what is kept of their stacks looks like main's control block */
    pthread_t gone[2 * {THREADS}];
    for (int n = 0; n < 2 * {THREADS}; n++) pthread_create(&gone[n], 0, ended, 0);
    /* one of them is not joined, and stays in libc's list */
    for (int n = 1; n < 2 * {THREADS}; n++) pthread_join(gone[n], 0);
    pthread_exit(0);
}}"""


class Exited(NamedTuple):
    pid: int
    program: Path
    tids: list[int]

    def rollup(self, name: str) -> int:
        text = Path(f"/proc/{self.tids[0]}/smaps_rollup").read_text()
        return int(re.search(rf"^{name}: +(\d+) kB", text, re.MULTILINE)[1]) * 1024


def others(pid: int) -> list[int]:
    """The threads that go on: libc has joined the others a moment before the kernel forgets them."""
    end = time.monotonic() + 120
    while len(tids := {int(name) for name in os.listdir(f"/proc/{pid}/task")} - {pid}) > THREADS:
        assert time.monotonic() < end, tids
        time.sleep(0.01)
    return sorted(tids)


@pytest.fixture
def exited(tmp_path: Path) -> Iterator[Exited]:
    program = compiled(SOURCE, tmp_path, "-O1", "-g", "-pthread")
    with Started(program, env=plain_environment(), start_new_session=True) as process:
        yield Exited(process.pid, program, others(process.pid))


def caches(rows: list[dict[str, object]], tids: list[int]) -> dict[int, int]:
    return {row["tid"]: row["tcache"]["chunks"] for row in rows if row["tid"] in tids}


@pytest.mark.parametrize("how", ["--stop ptrace", *in_full("--stop signal", "--no-stop")])
def test_every_command_in_the_shell(exited: Exited, how: str) -> None:
    words = ["report", "arenas", "threads", "trim", "pins", "check", "chunks", "map", "mmapped", "params", "version"]
    before = exited.rollup("Rss")
    outcomes = SHELL.run(Live(exited.pid, exited.program), [f"{word} --json {how}" for word in words])
    documents = dict(zip(words, (each.json() for each in outcomes)))
    found = documents["threads"]["threads"]
    assert caches(found, exited.tids) == dict.fromkeys(exited.tids, CACHED)
    main = next(row for row in found if row["tid"] == exited.pid)
    assert (main["arena"], main["tcache"]["chunks"] >= CACHED) == (0, True)
    assert documents["threads"]["unattached_arenas"] == []
    # to read a page of libc's file maps those around it
    assert before <= documents["report"]["rss_bytes"] <= exited.rollup("Rss")
    assert documents["trim"]["totals"]["release_bytes"] >= FREED * (PIECE - 4096)
    assert documents["check"]["breaches"] == []


def test_gdb_says_that_threads_run_on(exited: Exited) -> None:
    # "gdb -p PID" is refused by the kernel: it is the number of a zombie
    image = Live(exited.tids[1], exited.program)
    words = ["threads", "check", "report", "trim"]
    found = opened(GDB).run(image, [f"{word} --json" for word in words])
    documents = dict(zip(words, (each.json() for each in found)))
    assert caches(documents["threads"]["threads"], exited.tids) == dict.fromkeys(exited.tids, CACHED)
    assert documents["check"]["breaches"] == []
    for document in documents.values():
        said = {each["id"]: each["figures"] for each in document["problem_records"]}
        assert said == {"threads-run-on": {"threads": THREADS - 1, "held": 1}}


def test_gdb_trims_and_leaves_the_tops_to_the_threads_that_run(exited: Exited) -> None:
    image = Live(exited.tids[1], exited.program)
    before = exited.rollup("Anonymous")
    refused, applied = opened(GDB).run(image, ["trim --apply --tops -y", "trim --apply -y --json"])
    assert any(f"thread {tid} " in one_line(refused) for tid in exited.tids)
    least = FREED * (PIECE - 4096) - OWN_PAGES
    assert applied.json()["applied"]["released_bytes"] >= least
    assert before - exited.rollup("Anonymous") >= least
