"""Servers under load are never called damaged: not while they run, and not in the core that one leaves."""

from __future__ import annotations

import os
import re
import resource
import signal
from pathlib import Path
from typing import Any

import pytest
from doors import DOORS, GDB, Core, Live, give_up
from running import Running

TIMES = 5
"""That memory is given back before the core."""
LOOKS = 1000


def image_of(running: Running) -> Live:
    return Live(running.pid, Path(os.readlink(f"/proc/{running.pid}/exe")))


def damage(document: dict[str, Any]) -> list[Any]:
    """A call that was in progress is none."""
    return [breach for breach in document["breaches"] if not breach["transient"]]


@pytest.mark.soak
@pytest.mark.parametrize("serving", ["memcached", "mariadbd", "postgres"], indirect=True)
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
