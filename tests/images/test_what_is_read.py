"""How much of a live process is read while it stands still, as strace sees it: by bytes and files, not by time."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from marks import in_full
from schemas import valid

ROOT = Path(__file__).resolve().parents[2]
STRACE = ("strace", "-f", "-y", "-s", "0", "-e", "trace=openat,pread64,preadv", "-e", "signal=none")
POOL = 32 << 20
THREADS = 200
SOURCE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
static pthread_barrier_t all;
static void *run(void *n) {
    char *volatile block = malloc(100);
    free(block); pthread_barrier_wait(&all);
    for (;;) pause();
}
int main(int argc, char **argv) {
    size_t pool = atol(argv[1]); char *at = malloc(100), *got = MAP_FAILED; int threads = atoi(argv[3]);
    if (atoi(argv[2])) memset(at = malloc(1 << 20), 1, 1 << 20); else at = (char *) ((size_t) &pool & ~0xffffffful);
    /* above the block: what is looked through in the order of addresses meets the block first */
    for (size_t gap = 16 << 20; got == MAP_FAILED && gap < 1ul << 44; gap *= 2)
        got = mmap((char *) (((size_t) at + gap) & -4096ul), pool, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) got = mmap(0, pool, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(got, 7, pool);
    pthread_barrier_init(&all, 0, threads + 1);
    for (int n = 0; n < threads; n++) { pthread_t t; pthread_create(&t, 0, run, 0); }
    pthread_barrier_wait(&all);
    printf("block %zx\npool %zx\nready 0\n", (size_t) at, (size_t) got); fflush(stdout);
    for (;;) pause();
}"""


@pytest.fixture(scope="module")
def pooled(build):
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    return build(SOURCE, name="pooled")


class Traced:
    """What one command in the shell opened and read."""

    def __init__(self, subject, folder, *words):
        output = folder / "strace.txt"
        done = subprocess.run(
            [*STRACE, "-o", output, sys.executable, ROOT / "bin" / "arenascope", *words, str(subject.pid), "--json"],
            capture_output=True,
            text=True,
        )
        assert not done.returncode, done.stderr
        self.document = valid(json.loads(done.stdout))
        calls = output.read_text()
        reads = re.findall(rf"(?:pread64|preadv)\(\d+</proc/{subject.pid}/mem>.* = (\d+)$", calls, re.MULTILINE)
        self.pages = len(re.findall(rf"pread64\(\d+</proc/{subject.pid}/mem>.*, 4096, ", calls))
        # another thread's call came between
        reads += re.findall(r"<\.\.\. (?:pread64|preadv) resumed>.* = (\d+)$", calls, re.MULTILINE)
        self.bytes = sum(map(int, reads))
        self.opened = re.findall(rf"openat\([^\"]*\"/proc/{subject.pid}/([^\"]*)\"", calls)


@pytest.mark.parametrize("command", ["report", *in_full("chunk")])
@pytest.mark.parametrize("blocks", [0, 1])
def test_what_is_no_block_of_mallocs_is_not_looked_through(pooled, start, tmp_path, command, blocks):
    subject = start(pooled, str(POOL), str(blocks), "0")
    assert not blocks or subject.facts["block"] < subject.facts["pool"]
    words = [command] if command == "report" else [command, hex(subject.facts["pool"])]
    seen = Traced(subject, tmp_path, *words)
    assert 10_000 < seen.bytes < POOL // 8
    if command == "report":
        assert seen.document["complete"]
        parts = {part["part"]: part["bytes"] for part in seen.document["parts"]}
        assert parts["mmapped"] == blocks * ((1 << 20) + 4096)


def test_a_thread_is_asked_once_for_its_name(pooled, start, tmp_path):
    subject = start(pooled, "4096", "0", str(THREADS))
    opened = Traced(subject, tmp_path, "report").opened
    names = [path for path in opened if path.endswith("/comm")]
    assert len(names) == len(set(names)) == THREADS + 1
    # ptrace has the registers
    assert not [path for path in opened if path.endswith("/syscall")]


def test_of_many_threads_a_few_show_where_their_arena_stands(pooled, start, tmp_path):
    subject = start(pooled, "4096", "0", str(THREADS))
    seen = Traced(subject, tmp_path, "arenas", "--quick", "--no-symbols")
    assert seen.document["complete"]
    assert sum(len(arena["threads"]) for arena in seen.document["arenas"]) == THREADS + 1
    # a page beneath the thread pointer of some, one word of each other
    assert seen.pages < THREADS // 2


def test_mappings_are_read_once_before_and_once_while_it_is_held(pooled, start, tmp_path):
    opened = Traced(start(pooled, "4096", "0", "0"), tmp_path, "report").opened
    assert opened.count("maps") <= 2
    assert opened.count("smaps") == 1
