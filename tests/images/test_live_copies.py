"""A live process's copy in memory: byte for byte what the process had, made in pages that were there, or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from control_groups import memory_group
from marks import in_full
from schemas import valid
from subjects import Subject
from test_short_holds import asked
from waiting import stop

from arenascope.base.errors import MemoryReadError
from arenascope.cli import several_subjects
from arenascope.commands.framework import live_copy
from arenascope.engine import EngineImage
from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.core.core_in_memory import CopyBytes, MemoryWriter
from arenascope.sources.core.save_image import CoreWriter
from arenascope.sources.live import cgroups, process_hold, save_process
from arenascope.sources.live.proc_tables import thread_state
from arenascope.sources.live.process import ProcessImage
from arenascope.sources.shell_target import ShellTarget

ROOT = Path(__file__).resolve().parents[2]
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20

MAPS = """
# maps, unmaps, grows and shrinks as fast as it can; each page that it writes begins with its own number
import ctypes, mmap, random
chance, kept, number = random.Random(1), [], 0
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
print("ready", flush=True)
while True:
    pages = chance.randrange(1, 300)
    area = mmap.mmap(-1, pages * mmap.PAGESIZE)
    for page in range(0, pages, chance.randrange(1, 4)):
        number += 1
        area[page * mmap.PAGESIZE:page * mmap.PAGESIZE + 8] = number.to_bytes(8, "little")
    kept.append((area, libc.malloc(chance.randrange(100, 400_000))))
    while len(kept) > chance.randrange(20, 120):
        area, block = kept.pop(chance.randrange(len(kept)))
        area.close()
        libc.free(ctypes.c_void_p(block))
"""


def look(pid, words, at_most=120.0):
    return several_subjects.look(asked(pid, words, at_most))


def answer(subject, words):
    seen = look(subject, words)
    assert seen.error is None
    document = valid(json.loads(seen.text))
    for key in ("held_seconds", "target", "program"):
        document.pop(key, None)
    return document


@pytest.fixture
def maps():
    with subprocess.Popen([sys.executable, "-c", MAPS], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def copied(process, writer):
    """A copy of what stands still."""
    copy, saved = save_process.copy_process(process, ShellTarget(process), writer, (), lambda: 0.0)
    assert not saved.lost
    return copy


def anonymous_pages(process):
    """By the kernel: /proc/PID/maps and pagemap."""
    with open(f"/proc/{process.pid}/pagemap", "rb") as pagemap:
        for region in process.regions():
            if region.is_file or region.shared or not region.readable or region.path.startswith("[v"):
                continue
            entries = os.pread(pagemap.fileno(), region.size // PAGE * 8, region.start // PAGE * 8)
            for at in range(0, len(entries), 8):
                if entries[at + 7] & 0xC0:
                    yield region.start + at // 8 * PAGE


def assert_is_copy(copy, process):
    """Each page is what /proc/PID/mem has there, and no other is known to hold anything."""
    held = {}
    with open(f"/proc/{process.pid}/mem", "rb", buffering=0) as memory:
        for page in anonymous_pages(process):
            held[page] = os.pread(memory.fileno(), PAGE, page)
            assert copy.read(page, PAGE) == held[page]
    assert held
    for region in process.regions():
        if not region.is_file and not region.shared and region.readable and not region.path.startswith("[v"):
            readable = copy.readable(region.start, region.end)
            assert readable.bytes == region.size
            assert all(page in held for start, end in readable.data for page in range(start, end, PAGE))
    return held


COPIERS = {"engine": lambda: EngineImage(8, "little"), "Python": lambda: None}


@pytest.mark.full
@pytest.mark.parametrize("copier", COPIERS)
@pytest.mark.parametrize("rounds", [8, pytest.param(60, marks=pytest.mark.full)])
def test_what_is_mapped_meanwhile(maps, tmp_path, rounds, copier):
    """Between the look before the hold and the hold: the copy has what is there in the hold, also as `save` has it."""
    moved = 0
    for number in range(rounds):
        with ProcessImage(maps.pid) as process:
            writer = save_process.room_in_memory(process, 1 << 40, COPIERS[copier]())
            before = process.regions()
            time.sleep(0.02)
            stop(maps.pid)
            try:
                moved += before != process.regions()
                with copied(process, writer) as copy:
                    held = assert_is_copy(copy, process)
                    if number < 3:
                        path = tmp_path / f"core{number}"
                        save_process.save_process(process, str(path), (), lambda: 0.0)
                        with CoreImage(str(path)) as saved:
                            assert all(copy.read(page, PAGE) == saved.read(page, PAGE) for page in held)
                            assert copy.moment.uses == saved.moment.uses
            finally:
                os.kill(maps.pid, signal.SIGCONT)
    assert moved
    assert maps.poll() is None


@pytest.mark.parametrize("copier", COPIERS)
def test_what_was_there_stays_in_its_place(copier):
    """What has not moved is copied into pages that were touched."""
    with Subject("big", "64") as subject, ProcessImage(subject.pid) as process:
        writer = save_process.room_in_memory(process, 1 << 40, COPIERS[copier]())
        with open("/proc/self/smaps_rollup") as file:
            before = file.read()
        with copied(process, writer) as copy:
            with open("/proc/self/smaps_rollup") as file:
                after = file.read()
            assert_is_copy(copy, process)
        grown = [int(re.search(r"Anonymous: +(\d+)", text)[1]) for text in (before, after)]
        size = sum(PAGE for _ in anonymous_pages(process)) // 1024
        assert size > 60 << 10
        assert grown[1] - grown[0] < size // 4
        assert subject.quit() == 0


WORDS = ("types", "types --owners", "owners", "leaks", "chunks", "map --types", "pins --types", "refs 0x1000", "check")


@pytest.mark.parametrize(
    "fixture",
    [("mystery", "scattered", "4"), *in_full(("owners",), ("hoard", "3", "12"))],
    ids=lambda each: each[0],
)
def test_answers_as_a_saved_core(fixture, tmp_path, monkeypatch):
    """Of a process that stands still: as a core of it, and as its copy on the disk."""
    core = str(tmp_path / "core")
    made = []
    copy = live_copy.copy_process
    monkeypatch.setattr(live_copy, "copy_process", lambda *few, **more: (made.append("memory"), copy(*few, **more))[1])
    with Subject(*fixture) as subject:
        stop(subject.pid)
        try:
            assert look(subject.pid, f"save {core}").error is None
            for words in WORDS:
                made.clear()
                in_memory = answer(subject.pid, words)
                assert made == ["memory"], words
                assert in_memory == answer(core, words), words
            with monkeypatch.context() as patched:
                patched.setattr(live_copy, "_memory_for_copy", lambda size: 0)
                made.clear()
                assert in_memory == answer(subject.pid, words)
        finally:
            os.kill(subject.pid, signal.SIGCONT)
        assert subject.quit() == 0


@pytest.mark.parametrize("copier", COPIERS)
@pytest.mark.parametrize("when", ["touched", "copied"])
def test_ctrl_c_lets_go(when, copier, monkeypatch):
    calls = []

    def interrupt(*few):
        if threading.current_thread() is threading.main_thread():
            calls.append(when)
            raise KeyboardInterrupt
        # the main thread, which hears of it, gets one, too
        time.sleep(0.01)
        *_, size, _ = few
        return size

    if copier == "engine":
        monkeypatch.setattr(EngineImage, "make_room" if when == "touched" else "copy", interrupt)
    elif when == "touched":
        monkeypatch.setattr(CopyBytes, "_touch", interrupt)
    else:
        monkeypatch.setattr(MemoryWriter, "taker", lambda *_: interrupt)
    monkeypatch.setattr(live_copy, "_copier", lambda process: COPIERS[copier]())
    with Subject("bins") as subject:
        with pytest.raises(KeyboardInterrupt):
            look(subject.pid, "types")
        assert calls
        assert subject.quit() == 0


@pytest.mark.parametrize("words", ["types", "owners", "leaks"])
def test_without_any_room_it_is_not_held(words, monkeypatch):
    monkeypatch.setattr(live_copy, "_memory_for_copy", lambda size: 0)
    monkeypatch.setattr(live_copy, "memory_left", lambda: 0)
    monkeypatch.setattr(live_copy, "_room_in", lambda folder: 0)
    held = []
    monkeypatch.setattr(process_hold.Freeze, "hold", lambda *each: held.append(each))
    with Subject("bins") as subject:
        seen = look(subject.pid, words)
        assert (seen.status, held, seen.error.count("\n")) == (2, [], 0)
        assert "0 B in memory" in seen.error
        assert subject.quit() == 0


def test_memory_left(tmp_path, monkeypatch):
    """What leaves the least: the machine, or a group's end, or where it is made to wait."""
    groups = tmp_path / "groups"
    groups.mkdir()
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 70000 kB\n")
    monkeypatch.setattr(cgroups, "AVAILABLE", str(tmp_path / "meminfo"))
    monkeypatch.setattr(cgroups, "_folders", lambda pid: iter([str(groups)]))
    assert cgroups.memory_left() == 70000 * 1024
    for name, size in (("memory.max", 60 * MIB), ("memory.current", 20 * MIB), ("memory.high", 50 * MIB)):
        (groups / name).write_text(f"{size}\n")
    (groups / "memory.stat").write_text(f"inactive_file {2 * MIB}\nactive_file {3 * MIB}\n")
    assert cgroups.memory_left() == 35 * MIB
    (groups / "memory.high").write_text("max\n")
    assert cgroups.memory_left() == 45 * MIB
    (groups / "memory.current").write_text(f"{90 * MIB}\n")
    assert cgroups.memory_left() == 0
    monkeypatch.setattr(cgroups, "_folders", lambda pid: iter([]))
    assert cgroups.memory_left() == 70000 * 1024


@pytest.mark.skipif(os.geteuid() != 0, reason="only root unmounts")
def test_without_the_groups_files_the_machines_memory_is_left():
    """As in a bare root or a container: the process is in a group, and nothing says what that may take."""
    look = "from arenascope.sources.live.cgroups import memory_left; print(memory_left())"
    command = ["unshare", "--mount", "sh", "-c", f"umount -l /sys/fs/cgroup; exec {sys.executable} -c '{look}'"]
    common = {**os.environ, "PYTHONPATH": str(ROOT / "common")}
    done = subprocess.run(command, env=common, capture_output=True, text=True, timeout=60)
    assert int(done.stdout) > MIB, done.stderr


@pytest.fixture
def group():
    yield from memory_group("copy")


def kills(group):
    """How often the kernel killed somebody there."""
    for name in ("memory.events", "memory.oom_control"):
        if (group / name).exists():
            rows = dict(line.split() for line in (group / name).read_text().splitlines())
            if "oom_kill" in rows:
                return int(rows["oom_kill"])
    pytest.skip("this kernel does not count whom it kills")
    return 0


def looked_in(group, pid, words, before=""):
    """By a program of its own, in that group."""
    code = f"import sys; from arenascope.commands.framework import live_copy\n{before}\n"
    code += "from arenascope.__main__ import run; run()"
    return subprocess.run(
        [sys.executable, "-c", code, *words.split(), str(pid), "--json"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "common"), "TMPDIR": ""},
        capture_output=True,
        text=True,
        preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())),
    )


@pytest.mark.full
@pytest.mark.needs_root
def test_a_copy_never_exhausts_memory(group, tmp_path):
    """In a group that has a fifth more than the subject, one line refuses; with somewhat more a copy goes to the disk,
    but to none that is memory itself. Whatever we take, the subject is not what the kernel ends."""
    limit = group / ("memory.max" if (group / "memory.max").exists() else "memory.limit_in_bytes")
    program = str(ROOT / "fixtures" / "build" / "big")
    with subprocess.Popen(
        # its heap is charged to the group: it begins there
        [program, str(tmp_path), "600"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())),
    ) as subject:
        try:
            assert subject.stdout.readline().startswith(b"ready")
            with ProcessImage(subject.pid) as process:
                size = process.memory_use().rss
            if (group / "memory.swap.max").exists():
                (group / "memory.swap.max").write_text("0")
            limit.write_text(str(size * 6 // 5))
            for words in ("types", "leaks", "owners"):
                seen = looked_in(group, subject.pid, words)
                assert (seen.returncode, json.loads(seen.stdout)["complete"]) == (2, False), seen.stderr
                assert len(seen.stderr.splitlines()) == 1
            assert looked_in(group, subject.pid, "arenas").returncode == 0
            limit.write_text(str(size + 450 * MIB))
            seen = looked_in(group, subject.pid, "leaks", "live_copy.FOLDERS = ('/dev/shm',)")
            assert seen.returncode == 2, seen.stderr
            for words in ("types", "leaks", "owners"):
                seen = looked_in(group, subject.pid, words, "live_copy.copy_process = None")
                assert seen.returncode in (0, 1), seen.stderr  # 1: there are leaks
                assert valid(json.loads(seen.stdout))["complete"]
            assert kills(group) == 0
            # and where it is wrong about what it takes
            limit.write_text(str(size + 40 * MIB))
            seen = looked_in(group, subject.pid, "leaks", "live_copy._memory_for_copy = lambda size: 0")
            assert seen.returncode == -signal.SIGKILL
            assert subject.poll() is None
            assert thread_state(subject.pid, subject.pid) in "RSD"
        finally:
            subject.kill()


def spans_of_data(path):
    """Where the kernel says that a file has data; all else are holes."""
    spans, at = [], 0
    with open(path, "rb") as file, suppress(OSError):
        while True:
            start = os.lseek(file.fileno(), at, os.SEEK_DATA)
            at = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            spans.append((start, at))
    return spans


def digest(path):
    with open(path, "rb") as file:
        sums = hashlib.sha256()
        while block := file.read(1 << 20):
            sums.update(block)
    return os.stat(path).st_size, spans_of_data(path), sums.hexdigest()


@pytest.fixture
def writers(monkeypatch):
    """Which kinds of writer copied a process that was held."""
    made = []
    for kind in (MemoryWriter, CoreWriter):
        copy = kind.copy
        monkeypatch.setattr(kind, "copy", lambda self, *few, copy=copy: (made.append(type(self)), copy(self, *few))[1])
    return made


@pytest.mark.parametrize("words", ["save", "save --redact"])
@pytest.mark.parametrize(
    "fixture", [("hoard", "3", "12"), *in_full(("owners",), ("mystery", "scattered", "4"))], ids=lambda each: each[0]
)
def test_a_file_is_the_same_by_way_of_memory(fixture, words, tmp_path, monkeypatch, writers):
    """To the byte, with the same holes: of a process that stands still, at one time."""
    monkeypatch.setattr(save_process.time, "time", lambda: 1.7e9)
    cores = [str(tmp_path / name) for name in ("by_memory", "at_once")]
    with Subject(*fixture) as subject:
        stop(subject.pid)
        try:
            # the kernel maps pages of files where they are read for the first time
            assert look(subject.pid, f"{words} {tmp_path / 'first'}").error is None
            writers.clear()
            assert look(subject.pid, f"{words} {cores[0]}").error is None
            assert writers[0] is MemoryWriter
            writers.clear()
            monkeypatch.setattr(live_copy, "_memory_for_copy", lambda size: 0)
            assert look(subject.pid, f"{words} {cores[1]}").error is None
            assert writers[0] is CoreWriter
        finally:
            os.kill(subject.pid, signal.SIGCONT)
        assert subject.quit() == 0
    assert digest(cores[0]) == digest(cores[1])


def test_what_could_not_be_read_stays_a_hole(tmp_path, monkeypatch):
    """By way of memory as without."""
    lost, fill = [], ProcessImage.fill

    def gone(self, address, block):
        if address >= lost[0]:
            raise MemoryReadError(address, len(block))
        return fill(self, address, block[: max(1, min(len(block), lost[0] - address))])

    monkeypatch.setattr(save_process.time, "time", lambda: 1.7e9)
    cores = [str(tmp_path / name) for name in ("by_memory", "at_once")]
    with Subject("hoard", "3", "12") as subject, ProcessImage(subject.pid) as process:
        stop(subject.pid)
        pages = list(anonymous_pages(process))
        lost.append(pages[len(pages) // 2])
        monkeypatch.setattr(ProcessImage, "fill", gone)
        process.room = save_process.room_in_memory(process, 1 << 40)
        saved = [process.save(core, (), lambda: 0.0) for core in cores]
        os.kill(subject.pid, signal.SIGCONT)
        assert subject.quit() == 0
    assert saved[0].lost > 1 << 20
    assert (saved[0], digest(cores[0])) == (saved[1], digest(cores[1]))


def test_ctrl_c_leaves_no_half_file(tmp_path, monkeypatch):
    """The process runs on by then."""
    states = []
    with Subject("hoard", "3", "12") as subject:

        def interrupt(self, data, offset):
            if threading.current_thread() is threading.main_thread():
                states.append(thread_state(subject.pid, subject.pid))
                raise KeyboardInterrupt

        monkeypatch.setattr(CoreWriter, "put", interrupt)
        with pytest.raises(KeyboardInterrupt):
            look(subject.pid, f"save {tmp_path / 'core'}")
        assert subject.quit() == 0
    assert states
    assert not {"t", "T"} & set(states)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", ["save", "save --redact"])
def test_what_cannot_be_written_is_refused_beforehand(words, tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(process_hold.Freeze, "hold", lambda *each: done.append("held"))
    monkeypatch.setattr(CopyBytes, "touch", lambda *each: done.append("touched"))
    (tmp_path / "mine").write_text("a file of the user's")
    with Subject("bins") as subject:
        for path in (tmp_path / "mine", tmp_path / "missing" / "core"):
            seen = look(subject.pid, f"{words} {path}")
            assert (seen.status, done) == (2, [])
        assert subject.quit() == 0
