"""How much of a live process is read while it stands still, as strace sees it: by bytes and files, not by time."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from looks import needs
from marks import in_full
from schemas import valid
from shell_door import ARENASCOPE

ROOT = Path(__file__).resolve().parents[2]
STRACE = ("strace", "-f", "-y", "-s", "0", "-e", "trace=openat,pread64,preadv", "-e", "signal=none")
POOL = 32 << 20
THREADS = 200
SOURCE = Path(__file__).with_name("what_is_read.c").read_text()


@pytest.fixture(scope="module")
def pooled(build):
    needs("strace")
    return build(SOURCE, name="pooled")


class Traced:
    """What one command in the shell opened and read."""

    def __init__(self, subject, folder, *words):
        output = folder / "strace.txt"
        done = subprocess.run(
            [*STRACE, "-o", output, *ARENASCOPE, *words, str(subject.pid), "--json"],
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
    words = [command, "--quick"] if command == "report" else [command, hex(subject.facts["pool"])]
    seen = Traced(subject, tmp_path, *words)
    assert 10_000 < seen.bytes < POOL // 8
    if command == "report":
        assert seen.document["complete"]
        parts = {part["part"]: part["bytes"] for part in seen.document["parts"]}
        assert parts["mmapped"] == blocks * ((1 << 20) + 4096)


def test_a_thread_is_asked_once_for_its_name(pooled, start, tmp_path):
    subject = start(pooled, "4096", "0", str(THREADS))
    opened = Traced(subject, tmp_path, "report", "--quick").opened
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
    opened = Traced(start(pooled, "4096", "0", "0"), tmp_path, "report", "--quick").opened
    assert opened.count("maps") <= 2
    assert opened.count("smaps") == 1
