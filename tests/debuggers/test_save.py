"""arenascope save: the file answers every command as the process would have, and debuggers open it as a core."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from doors import DOORS, NEWEST, Core, Live
from looks import give_up, needs, plain_environment
from marks import full_after, in_full
from scenarios import BY_ID, Scenario, scenario
from schemas import valid
from shell_door import ARENASCOPE, arenascope, begin
from subjects import Subject
from waiting import state

COMMANDS = (
    "arenas",
    "arenas --quick",
    "heaps",
    "bins",
    "threads",
    "params",
    "trim --ranges",
    "mmapped",
    "chunks --summary",
    "check",
    "pins",
    "report",
    "info",
    "stats",
)
ASIDE = ("target", "door", "held_seconds")
SCENARIOS = (
    *(BY_ID[name] for name in ("hoard", "arenas14", "mmapped", "tcache", "bins-static", "dlmopen", "foreign_sbrk")),
    scenario("locked", "locked"),
    scenario("untouched", "untouched"),
)
MORE = tuple(each for each in BY_ID.values() if each.name in ("bins", "mmapped") and each not in SCENARIOS)


def in_turn(first: int) -> list[Any]:
    """Every sixth one for `make test`, and others for test-all: each in one test or in both."""
    rest = (*SCENARIOS[first + 3 :: 6], *SCENARIOS[(first + 2) % 3 :: 3], *MORE[first::2])
    return [
        *(pytest.param(each, id=each.id) for each in SCENARIOS[first::6]),
        *(pytest.param(each, id=each.id.replace("@", " on "), marks=pytest.mark.full) for each in rest),
    ]


def start(each: Scenario) -> Subject:
    return Subject(each.fixture, *each.arguments, env=dict(each.env), platform=each.platform)


def save(subject: Subject, path: Path) -> dict[str, Any]:
    return valid(json.loads(arenascope("save", subject.pid, path, "--json").stdout))


def said(document: dict[str, Any]) -> dict[str, Any]:
    """Without what names the image that was looked at, and pages of files and of the vdso, beside one: a look at
    a process reads some of these."""
    found = {key: value for key, value in document.items() if key not in ASIDE}
    if found["command"] == "report":
        found["rss_bytes"] -= sum(each["bytes"] for each in found["parts"] if each["part"] in ("files", "kernel"))
        found["parts"] = [each for each in found["parts"] if each["part"] not in ("files", "kernel")]
        # sums of which they are a part
        for key in ("verdict", "judgement"):
            found.pop(key)
        for each in found["advice"]:
            # nothing is done to a core: how it would be is not said of it
            for key in ("evidence", "text", "figures", "how"):
                each.pop(key)
    return found


@pytest.mark.parametrize("each", full_after(1, in_turn(0)))
def test_a_saved_core_answers_as_the_process_would_have(each: Scenario, tmp_path: Path) -> None:
    file = tmp_path / "saved.core"
    with start(each) as subject:
        before = subject.rollup("Rss"), subject.rollup("Anonymous")
        answer = save(subject, file)
        assert (subject.rollup("Rss"), subject.rollup("Anonymous")) == before
        # debug information is read of a core, and of a copy, but not while a process is held
        looks = [f"{command} --no-declared --json" for command in COMMANDS]
        live = DOORS["shell"].run(Live(subject.pid, subject.program), looks)
    saved = DOORS["shell"].run(Core(file, subject.program), looks)
    for command, one, other in zip(COMMANDS, live, saved):
        assert said(one.json()) == said(other.json()), command
    assert answer["held_seconds"] > 0
    # what is the process's alone is all there, what is a file's only in part
    assert answer["resident_bytes"] >= before[1]
    assert answer["bytes_written"] >= answer["resident_bytes"]


@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
def test_each_door_makes_and_reads_one(door: str, tmp_path: Path) -> None:
    if DOORS[door].available():
        give_up(DOORS[door].available() or "")
    file = tmp_path / "saved.core"
    with start(BY_ID["arenas14"]) as subject:
        image = Live(subject.pid, subject.program)
        made, *live = DOORS[door].run(image, [f"save {file} --json", "trim --json", "threads --json", "report --json"])
    document = made.json()
    assert (document["held_seconds"] is None) == (door != "shell")
    saved = DOORS[door].run(Core(file, subject.program), ["trim --json", "threads --json", "report --json"])
    for one, other in zip(live, saved):
        assert said(one.json()) == said(other.json())


def functions(debugger: list[str]) -> dict[str, list[str]]:
    """By thread, the functions of its frames, as GDB sees them."""
    done = subprocess.run(
        ["gdb", "-nx", "-q", "-batch", *debugger, "-ex", "thread apply all bt"],
        capture_output=True,
        text=True,
        timeout=100,
        env=plain_environment(),
        stdin=subprocess.DEVNULL,
    )
    _, *parts = re.split(r"^Thread \d+ \(.*?\(?LWP (\d+)\).*$", done.stdout, flags=re.MULTILINE)
    frames = re.compile(r"^#\d+ +(?:0x\w+ in )?(\w+)", re.MULTILINE)
    return {tid: frames.findall(text) for tid, text in zip(parts[::2], parts[1::2])}


def test_a_debugger_sees_the_threads_and_where_they_stand(tmp_path: Path) -> None:
    if DOORS["gdb"].available():
        give_up(DOORS["gdb"].available() or "")
    with start(BY_ID["arenas14"]) as subject:
        save(subject, tmp_path / "shell.core")
        DOORS["gdb"].run(Live(subject.pid, subject.program), [f"save {tmp_path / 'gdb.core'}"])
        live = functions(["-p", str(subject.pid)])
    assert len(live) == 7
    assert all(len(frames) > 2 for frames in live.values())
    for name in ("shell.core", "gdb.core"):
        assert functions([str(subject.program), str(tmp_path / name)]) == live, name


def nameless(document: dict[str, Any]) -> dict[str, Any]:
    """Without commands that name the file."""
    for each in document.get("advice", ()):
        del each["how"]
    return document


@pytest.mark.parametrize("image", ["kernel", pytest.param("gcore", marks=pytest.mark.full)])
def test_a_core_is_saved_as_what_it_tells(image: str, tmp_path: Path) -> None:
    """Without its holes, too, it tells residency then, if it did."""
    file = tmp_path / "saved.core"
    with start(BY_ID["arenas14"]) as subject:
        path = subject.kernel_core() if image == "kernel" else subject.gcore()
        looks = [f"{command} --json" for command in COMMANDS]
        first = DOORS["shell"].run(Core(path, subject.program), looks)
        for _ in range(2):
            # also over one that is there already
            arenascope("save", file, path, "--json")
    dense = tmp_path / "dense.core"
    subprocess.run(["cp", "--sparse=never", file, dense], check=True)
    for again in (file, dense):
        then = DOORS["shell"].run(Core(again, subject.program), looks)
        for command, one, other in zip(COMMANDS, first, then):
            assert nameless(one.json()) == nameless(other.json()), command


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    file, fifo = tmp_path / "saved.core", tmp_path / "fifo"
    file.write_text("mine")
    os.mkfifo(fifo)
    with start(BY_ID["bins"]) as subject:
        for each in (file, fifo):
            assert str(each) in arenascope("save", subject.pid, each, status=2).stderr
    assert file.read_text() == "mine"
    assert fifo.is_fifo()


def test_a_full_disk_leaves_no_file_and_lets_the_process_go(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small], capture_output=True).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        with start(BY_ID["hoard"]) as subject:
            done = arenascope("save", subject.pid, small / "saved.core", status=None)
            assert subject.send("check") == "intact"
        left = list(small.iterdir())
    finally:
        subprocess.run(["umount", small], check=True)
    assert done.returncode == 2
    assert os.strerror(errno.ENOSPC) in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2
    assert left == []


def being_written(pid: int, folder: Path) -> list[os.stat_result]:
    """The files below `folder` that a process has open, with a name or without one."""
    found = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if os.readlink(each).startswith(f"{folder}/"):
                found.append(each.stat())
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, *in_full(signal.SIGINT)])
@pytest.mark.parametrize(
    "words",
    ["save {pid} {file}", *in_full("save {pid} {file} --redact", "owners {pid}")],
)
def test_an_end_in_the_middle_leaves_the_process_running(words: str, number: int, tmp_path: Path) -> None:
    """And nothing of what was copied, which only its owner could have opened."""
    file = tmp_path / "saved.core"
    with Subject("big", "600") as subject:
        looking = begin(
            *words.format(pid=subject.pid, file=file).split(),
            stdout=subprocess.DEVNULL,
            env=plain_environment({"TMPDIR": str(tmp_path)}),
        )
        deadline = time.monotonic() + 60
        seen: list[os.stat_result] = []
        # others copy into memory
        to_file, copying = "{file}" in words, False
        while not copying and time.monotonic() < deadline:
            seen = being_written(looking.pid, tmp_path)
            copying = any(each.st_blocks > 64 for each in seen) if to_file else state(subject.pid) == "t"
        looking.send_signal(number)
        _, complained = looking.communicate(timeout=60)
        assert subject.send("check") == "intact"
    assert copying
    assert {(each.st_mode & 0o777, each.st_nlink) for each in seen} == ({(0o600, 0)} if to_file else set())
    assert looking.returncode == (-number if number == signal.SIGKILL else 130), complained
    assert list(tmp_path.iterdir()) == []


def test_a_saved_core_is_its_owner_s_alone(tmp_path: Path) -> None:
    file = tmp_path / "saved.core"
    with start(BY_ID["bins"]) as subject:
        save(subject, file)
    assert os.stat(file).st_mode & 0o777 == 0o600


REDACTED = ("arenas", "bins", "trim --ranges", "heaps", "check", "pins", "map", "chunks --summary", "mmapped")
REDACTED = (*REDACTED, "report --quick", "info", "stats", "threads")


@pytest.mark.parametrize("each", full_after(1, in_turn(1)))
def test_what_is_redacted_gives_the_same_figures(each: Scenario, tmp_path: Path) -> None:
    file = tmp_path / "saved.core"
    with start(each) as subject:
        done = arenascope("save", subject.pid, file, "--redact", "--json")
        looks = [f"{command} --json" for command in REDACTED]
        live = DOORS["shell"].run(Live(subject.pid, subject.program), looks)
    asked = [*looks, "types", "leaks", "owners", "refs 0x1000", "owner 0x1000"]
    saved = DOORS["shell"].run(Core(file, subject.program), asked)
    # zeros that lead nowhere would pass for an answer
    types, *others = ("save --redact" in (each.error or "") for each in saved[len(looks) :])
    assert types is (each.fixture != "untouched")
    assert all(others)
    assert valid(json.loads(done.stdout))["redacted"] is True
    for command, one, other in zip(REDACTED, live, saved):
        assert without_symbols(said(one.json())) == without_symbols(said(other.json())), command
    # one that nobody would give away
    assert [path.name for path in tmp_path.iterdir()] == ["saved.core"]


def without_symbols(document: dict[str, Any]) -> dict[str, Any]:
    """A pin's first word is the program's, and so is what tells a block's type."""
    document.pop("groups", None)
    for each in [*document.get("pins", ()), *(document.get("blocks") or ())]:
        for key in ("symbol", "type", "certain"):
            each.pop(key, None)
    return document


@pytest.mark.parametrize("source", ["live", "core"])
def test_symbols_are_where_they_were_said_to_be(source: str, tmp_path: Path) -> None:
    """By the files that the kernel was asked for once the copy stood: what is redacted is walked in it."""
    needs("strace")
    with Subject("bins") as subject:
        image = str(subject.pid) if source == "live" else str(tmp_path / "whole.core")
        if source == "core":
            arenascope("save", subject.pid, image)
        trace = tmp_path / "trace"
        words = ["save", str(tmp_path / "redacted"), image, "--redact", "--debug-dir", str(tmp_path / "symbols")]
        subprocess.run(
            ["strace", "-o", str(trace), "-e", "trace=file", *ARENASCOPE, *words], check=True, capture_output=True
        )
    asked = trace.read_text()
    if source == "live":
        asked = asked[asked.rindex(f"/proc/{image}/pagemap") :]
    assert f"{tmp_path}/symbols/.build-id/" in asked
