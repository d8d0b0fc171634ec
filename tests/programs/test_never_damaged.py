"""Servers under load are never called damaged: not while they run, and not in the core that one leaves."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any, Callable, Mapping

import pytest
from doors import DOORS, GDB, Core, Live
from looks import give_up
from programs import keys, redis_on_glibc, redis_says
from running import Running

TIMES, OFTEN = 5, 20
"""That memory is given back before the core."""
SERVERS, TESTED = 13, 3
"""So many of each way to end, fifty and two more; and so many that test their memory before they end."""
TESTS_MEMORY = "memtest_"
"""How redis' functions begin that write patterns over all that is mapped, its own thread-local storage included. A
second SIGSEGV often ends them there, and the core has the patterns: that is what once was called damaged."""
LOOKS = 1000


def image_of(running: Running) -> Live:
    return Live(running.pid, Path(os.readlink(f"/proc/{running.pid}/exe")))


def damage(document: dict[str, Any]) -> list[Any]:
    """A call that was in progress is none."""
    return [breach for breach in document["breaches"] if not breach["transient"]]


@pytest.mark.soak
@pytest.mark.parametrize("serving", ["memcached", "mariadbd", "postgres", "redis", "redis-on-glibc"], indirect=True)
def test_a_thousand_looks(serving: Running) -> None:
    for _ in range(LOOKS):
        (outcome,) = DOORS["shell"].run(image_of(serving), ["check --json"])
        assert not damage(outcome.json())
    assert serving.alive()
    assert not serving.failures


@pytest.mark.parametrize("serving", ["memcached"], indirect=True)
def test_a_core_after_memory_was_given_back(serving: Running) -> None:
    if GDB.available():
        give_up(GDB.available() or "")
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if not re.fullmatch(r"[\w.-]+", pattern):
        pytest.skip(f"the kernel hands cores elsewhere: core_pattern is {pattern!r}, not a plain name")
    image = image_of(serving)
    for _ in range(TIMES):
        GDB.run(image, ["trim --apply --tops -y --json"])
        rounds = sum(serving.rounds)
        serving.await_that(lambda seen=rounds: sum(serving.rounds) > seen, "it does not answer")
    threads = len(list(Path(f"/proc/{serving.pid}/task").iterdir()))
    resource.prlimit(serving.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    serving.over.set()
    os.kill(serving.pid, signal.SIGABRT)
    serving.process.wait(60)
    (path,) = serving.folder.glob(f"{pattern}*")
    checked, seen = DOORS["shell"].run(Core(path, image.program), ["check --json", "threads --json"])
    assert not damage(checked.json())
    assert len(seen.json()["threads"]) == threads


def gcore(running: Running) -> Path:
    subprocess.run(["gcore", "-o", running.folder / "gcore", str(running.pid)], check=True, capture_output=True)
    return running.folder / f"gcore.{running.pid}"


def told_to(running: Running) -> Path:
    """Its handler reports, ends its threads, and tests its memory before the kernel writes."""
    with redis_says(running) as connection:
        connection.sendall(b"DEBUG SEGFAULT\r\n")
        return left_by(running)


def killed_by(number: signal.Signals) -> Callable[[Running], Path]:
    def end(running: Running) -> Path:
        os.kill(running.pid, number)
        return left_by(running)

    return end


def left_by(running: Running) -> Path:
    running.over.set()
    running.process.wait(120)
    (path,) = running.folder.glob("core*")
    return path


ENDS: Mapping[str, Callable[[Running], Path]] = {
    "abort": killed_by(signal.SIGABRT),
    "segv": killed_by(signal.SIGSEGV),
    "told-to": told_to,
    "gcore": gcore,
}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("tests", "server"), [*(("no", each) for each in range(SERVERS)), *(("yes", each) for each in range(TESTED))]
)
@pytest.mark.parametrize("end", ENDS)
def test_redis_after_memory_was_given_back(end: str, tests: str, server: int, tmp_path: Path) -> None:
    """On glibc's malloc, by both doors that can, under load. A core that is called damaged is kept."""
    # what its crash handler does is to happen
    options = ["--enable-debug-command", "yes", "--crash-memcheck-enabled", tests, "--logfile", tmp_path / "log"]
    running = redis_on_glibc(tmp_path, None, ["--io-threads", 3, *options])
    try:
        running.serve(tmp_path / "socket", keys, 50)
        image = image_of(running)
        resource.prlimit(running.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        for time in range(OFTEN):
            DOORS["shell" if time % 2 else "gdb"].run(image, ["trim --apply --tops -y --json"])
            rounds = sum(running.rounds)
            running.await_that(lambda seen=rounds: sum(running.rounds) > seen, "it does not answer")
        core = Core(ENDS[end](running), image.program)
    finally:
        running.end()
    checked, seen = (each.json() for each in DOORS["shell"].run(core, ["check --json", "threads --json"]))
    sound = not damage(checked) and not checked["problems"] and any(each["arena"] == 0 for each in seen["threads"])
    if not sound and tests == "yes":
        frames = GDB.start(["-c", str(core.path), str(core.program), "-ex", "bt"]).stdout
        assert TESTS_MEMORY in frames, (core.path, frames, checked, seen)
    else:
        assert sound, (core.path, checked, seen)
    core.path.unlink()
