"""A process is held only while its lists are read, or it is copied: answers as of one that stands still."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from looks import completed
from marks import full_after, in_full
from schemas import valid
from shell_door import ARENASCOPE
from subjects import Subject
from waiting import stop

from arenascope import engine
from arenascope.base.errors import HoldOver, TargetError
from arenascope.cli import several_subjects, shell
from arenascope.commands import pins
from arenascope.commands.framework import live_copy as apart
from arenascope.commands.framework.find_command import find_command
from arenascope.session import session
from arenascope.sources.live import process, process_hold
from arenascope.sources.live.proc_tables import thread_state

COMMANDS = ("arenas", "bins", "trim", "trim --ranges", "report --quick", "report --full --quick", "info", "stats")
PASSES = 0.05
"""Seconds between what is read beforehand and the hold: the process goes on meanwhile."""


def asked(pid, words, at_most=120.0):
    name, *rest = words.split()
    options = find_command(name).parser("arenascope").parse_args([*rest, "--json"])
    options.hold_at_most = at_most
    # of a process that is held no types are read
    return several_subjects.SubjectRequest(str(pid), name, options, shell.How(declared=False))


def answer(pid, words):
    """The document of a look that was made while it was held."""
    seen = several_subjects._look(asked(pid, words))
    document = valid(json.loads(seen.text))
    assert document.pop("held_seconds") > 0
    return document


@pytest.fixture
def stopped_at_the_hold(monkeypatch):
    """Whatever is held stands still from then on, by SIGSTOP: what looks later sees the same moment."""
    hold = process_hold.Freeze.hold

    def stopping(self, pid, born):
        if thread_state(pid, pid) != "T":
            time.sleep(PASSES)
            stop(pid)
        hold(self, pid, born)

    monkeypatch.setattr(process_hold.Freeze, "hold", stopping)


def both_ways(subject, words):
    """Lists that the engine follows, and all that is left to do once the process runs on, against lists that are walked
    link by link while it stands."""
    try:
        first = answer(subject.pid, words)
        with pytest.MonkeyPatch.context() as without:
            without.setattr(session.Session, "engine", None)
            without.setattr(shell.ShellDoor, "lets_go", False)
            second = answer(subject.pid, words)
    finally:
        os.kill(subject.pid, signal.SIGCONT)
    assert first == second, words
    assert list(first) == list(second)
    return first


@pytest.mark.parametrize(
    "fixture",
    full_after(
        1,
        [
            *(("bins",), ("bins.static",), ("hoard", "3", "12"), ("tcache",), ("foreign_sbrk",), ("mmapped",)),
            *(("locked",), ("tiny_top",)),
        ],
    ),
    ids=lambda words: words[0],
)
def test_the_same_as_of_one_that_stands_still(stopped_at_the_hold, fixture):
    with Subject(*fixture) as subject:
        for words in COMMANDS:
            assert both_ways(subject, words)["complete"], words
        assert subject.quit() == 0


@pytest.mark.full
def test_the_same_under_churn(stopped_at_the_hold):
    """Every list has changed since the process was opened."""
    with Subject("churn") as subject:
        for words in 2 * COMMANDS:
            both_ways(subject, words)
        assert subject.send("check") == "intact"


def test_blocks_are_read_whatever_the_process_may_read_of_them(tmp_path):
    """Also what it may not, up to where there is nothing, and nothing once it runs on."""
    page, libc = mmap.PAGESIZE, ctypes.CDLL(None)
    file = tmp_path / "file"
    file.write_bytes(bytes(range(256)) * (4 * page // 256))
    with file.open("r+b") as opened:
        area = mmap.mmap(opened.fileno(), 4 * page)
        opened.truncate(3 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    assert libc.mprotect(ctypes.c_void_p(start + page), page, 0) == 0
    block = bytearray(4 * page)
    with process.ProcessImage(os.getpid()) as image:
        for size in (3, 4):
            block[:] = bytes(4 * page)
            assert image.fill(start, memoryview(block)[: size * page]) == 3 * page
            assert block == bytes(range(256)) * (3 * page // 256) + bytes(page)
        image.give_up(TargetError("runs"))
        with pytest.raises(TargetError, match="runs"):
            image.fill(start, memoryview(block)[:page])


@pytest.fixture
def time_is_up(monkeypatch):
    """When the hold is over is told by what was done, not by a clock: a list with True in it."""
    told = [False]
    monkeypatch.setattr(process_hold.Freeze, "is_over", lambda self: told[0])
    return told


def ids(document):
    return [each["id"] for each in document["problem_records"]]


def is_part_of(part, whole):
    """Whatever is told in it is the same there."""
    if isinstance(part, dict):
        return all(is_part_of(value, whole[key]) for key, value in part.items())
    return part is None or part == whole


def test_what_was_read_in_time_is_the_answer(stopped_at_the_hold, time_is_up, monkeypatch):
    """Some lists, then time is up: arenas whose lists were read are told, of the others nothing."""
    follow = engine.EngineImage.follow

    def followed(self, pid, starts, *words):
        lists = follow(self, pid, starts, *words)
        if not enough or next(iter(starts.values())).bin == 0:
            return lists
        time_is_up[0] = True
        with pytest.raises(HoldOver) as ended:
            self._stop_if_asked()
        unread = frozenset(list(starts)[len(starts) // 2 :])
        whole = {head: each for head, each in lists.whole.items() if head not in unread}
        return lists._replace(whole=whole, unread=unread, ended=ended.value)

    monkeypatch.setattr(engine.EngineImage, "follow", followed)
    with Subject("big", "40") as subject:
        enough = False
        whole = answer(subject.pid, "arenas")
        enough = True
        try:
            for words in ("arenas", "trim", "bins", "report --quick"):
                time_is_up[0] = False
                seen = several_subjects._look(asked(subject.pid, words))
                part = valid(json.loads(seen.text))
                assert (seen.status, part["complete"]) == (0, False), words
                assert "hold-over" in ids(part), words
                if words == "arenas":
                    assert is_part_of(part["totals"], whole["totals"])
                    told = [row["bins"]["bytes"] is not None for row in part["arenas"]]
                    assert True in told
                    assert False in told
                    assert all(is_part_of(row, other) for row, other in zip(part["arenas"], whole["arenas"]))
        finally:
            os.kill(subject.pid, signal.SIGCONT)


@pytest.mark.parametrize(
    "words",
    ["chunks", *in_full("chunks --summary", "check", "map", "pins --own", "snapshot FILE --sizes")],
)
def test_a_sweep_under_churn_is_of_the_moment_of_its_hold(stopped_at_the_hold, monkeypatch, tmp_path, words):
    """All of its threads allocate and free: the copy answers what the held process does, and what its core does."""
    file = tmp_path / "snapshot"

    def told(subject):
        document = valid(json.loads(several_subjects.look(asked(subject, words.replace("FILE", str(file)))).text))
        if file.exists():
            document.update(json.loads(file.read_text()), taken=None, bytes=None)
        document.update(held_seconds=None, target=None, groups=None)  # types are only told of what is not held
        return document

    with Subject("churn") as subject:
        for _ in range(3):
            core = tmp_path / "core"
            copied = told(subject.pid)
            try:
                assert several_subjects.look(asked(subject.pid, f"save {core}")).error is None
                with monkeypatch.context() as without:
                    without.setattr(apart, "look_at_copy_if_ready", lambda context, if_room: None)
                    held = told(subject.pid)
            finally:
                os.kill(subject.pid, signal.SIGCONT)
            assert copied == held
            assert copied == told(core)
        assert subject.send("check") == "intact"


@pytest.mark.parametrize("words", ["chunks --summary", *in_full("check", "pins", "map")])
def test_a_sweep_ends_in_time_with_what_it_has(time_is_up, monkeypatch, words):
    """As at Ctrl-C, but that it is no failure."""
    follow, stretches = engine.EngineImage.chunks_from, []
    monkeypatch.setattr(pins, "BY_ITSELF", 0)
    monkeypatch.setattr(apart, "IN_A_SECOND", 0)  # as if it were too large to be copied

    def followed(self, *words):
        stretches.append(words)
        time_is_up[0] = len(stretches) > 2
        return follow(self, *words)

    with Subject("big", "160") as subject:
        whole = valid(json.loads(several_subjects.look(asked(subject.pid, words)).text))
        monkeypatch.setattr(engine.EngineImage, "chunks_from", followed)
        seen = several_subjects.look(asked(subject.pid, words))
        part = valid(json.loads(seen.text))
        assert (seen.error, seen.status, part["complete"]) == (None, 0, False)
        assert {"hold-over", "stopped"} <= set(ids(part))
        if words == "chunks --summary":
            assert 0 < part["summary"]["used"]["chunks"] < whole["summary"]["used"]["chunks"]
        if words == "check":
            assert part["judgement"]["id"] == "no-breach-in-part"
            assert part["checked"]["chunks"] < whole["checked"]["chunks"]
        assert subject.quit() == 0


@pytest.mark.parametrize("words", ["arenas", "arenas --quick", "check", "threads"])
def test_nothing_read_in_time_is_one_line(time_is_up, monkeypatch, words):
    time_is_up[0] = True
    monkeypatch.setattr(apart, "IN_A_SECOND", 0)  # what is copied is never cut
    with Subject("bins") as subject:
        seen = several_subjects.look(asked(subject.pid, words, at_most=None))
        assert re.search(rf"process {subject.pid} .* 20 s\b", seen.error)
        assert seen.status == 2
        assert subject.quit() == 0


@pytest.mark.needs_root
def test_a_copy_for_which_there_is_no_room_is_not_begun(monkeypatch, tmp_path):
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], capture_output=True).returncode:
        pytest.skip("nothing may be mounted here")
    copies = []
    monkeypatch.setattr(apart, "save_process", lambda *words, **more: copies.append(words))
    monkeypatch.setattr(apart, "FOLDERS", ())
    monkeypatch.setattr(apart, "memory_left", lambda: apart.BESIDE + (2 << 20))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    try:
        with Subject("bins") as subject:
            seen = several_subjects.look(asked(subject.pid, "types", at_most=None))
            assert subject.quit() == 0
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert f"64.0 KiB in {tmp_path} " in seen.error
    assert (seen.status, copies) == (2, [])


@pytest.mark.parametrize("words", ["types", *in_full("types --quick", "types --owners")])
def test_types_of_half_a_copy_are_none(words):
    """What was not read in time is not told as a part: one line says so, and the process goes on."""
    with Subject("big", "160") as subject:
        seen = several_subjects.look(asked(subject.pid, words, at_most=0.01))
        assert re.search(rf"process {subject.pid} .* 0\.01 s \(--hold-at-most", seen.error)
        # it may not have come back to its wait yet
        assert (seen.status, thread_state(subject.pid, subject.pid) in "RSD") == (2, True)
        assert subject.quit() == 0


def test_a_call_has_longer(monkeypatch):
    """It is not broken off by half, so that a trim is not bound by what looks are."""
    monkeypatch.setattr(shell, "HOLD", 0.01)
    with Subject("bins") as subject:
        seen = several_subjects.look(asked(subject.pid, "trim --apply -y", at_most=None))
        assert seen.error is None
        assert json.loads(seen.text)["applied"]["released_bytes"] > 0
        assert subject.quit() == 0


MAPPED = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
  int file = open("/proc/self/exe", O_RDONLY);
  void *volatile block = malloc(100);
  /* neighbours that differ stay mappings of their own */
  for (int n = 0; n < 400; n++)
    if (mmap(0, 4096, PROT_READ | (n & 1 ? PROT_WRITE : 0), MAP_PRIVATE, file, 0) == MAP_FAILED) return 1;
  printf("ready %d\n", getpid());
  fflush(stdout);
  for (;;) pause();
}
"""
FEW_FILES = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("words", ["save {}", "types"])
def test_one_file_of_the_process_is_open_at_a_time(words, build, start, tmp_path):
    """It may have more mappings of files than anybody may have files open."""
    subject = start(build(MAPPED))
    name, *rest = words.format(tmp_path / "core").split()
    completed(sys.executable, "-c", FEW_FILES, *ARENASCOPE, name, subject.pid, *rest)
