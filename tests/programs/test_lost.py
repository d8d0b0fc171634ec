"""Real programs under load: what is said to be lost for good is lost, as each one's source says."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any, Callable, Mapping

import pytest
from partial import look
from running import Running
from schemas import valid

LOST = 1
PROGRAMS = (
    "python",
    "nginx",
    "postgres",
    "mariadbd",
    "memcached",
    "git",
    "cc1plus",
    "perl",
    "php",
    "sqlite",
    "redis-on-glibc",
)
MOST = 256


class Held:
    """A process that stands still, and its memory."""

    def __init__(self, running: Running) -> None:
        self.pid, self.folder = running.pid, running.folder
        self._memory = os.open(f"/proc/{running.pid}/mem", os.O_RDONLY)

    def bytes(self, address: int) -> bytes:
        """None where that is no address."""
        try:
            return os.pread(self._memory, MOST, address)
        except (OSError, OverflowError):
            return b""

    def text(self, address: int) -> bytes:
        return self.bytes(address).partition(b"\0")[0]

    def close(self) -> None:
        os.close(self._memory)


def environment(held: Held, block: int) -> bool:
    """save_ps_display_args() moves the environment to a block of its own, and setenv(3) to the next."""
    words = memoryview(held.bytes(block)).cast("Q")
    return all(b"=" in held.text(word) for word in words[:4])


def option(held: Held, block: int) -> bool:
    """PostmasterMain() keeps a copy of what -D says while it starts."""
    return held.text(block) == bytes(held.folder / "data")


def directory(held: Held, block: int) -> bool:
    """register_include_chains() makes a path of it; memcheck says the same of every run."""
    return held.text(block).startswith(b"c++/")


Explained = Callable[[Held, int], bool]
LOSES: Mapping[str, tuple[Explained, ...]] = {"postgres": (environment, option), "cc1plus": (directory,)}
"""One block each."""


def definite(image: object) -> list[dict[str, Any]]:
    status, said, complained = look(Path(str(image)), "leaks", "--json")
    assert status in (0, LOST), complained
    document = valid(json.loads(said))
    assert document["unknown"]["blocks"] == 0, document["problems"]
    assert document["reached"]["blocks"] > 50
    perhaps = [each for each in document["leaks"] if each["strength"] == "possible"]
    assert sum(each["bytes"] + each["indirect_bytes"] for each in perhaps) < document["reached"]["bytes"] / 100
    return [each for each in document["leaks"] if each["strength"] == "definite"]


@pytest.mark.parametrize("serving", [pytest.param(each, id=each) for each in PROGRAMS], indirect=True)
def test_nothing_else_is_lost(serving: Running, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    name = request.node.callspec.params["serving"]
    saved = tmp_path / "saved.core"
    os.kill(serving.pid, signal.SIGSTOP)
    held = Held(serving)
    try:
        live = definite(serving.pid)
        assert look(Path(str(serving.pid)), f"save {saved}")[0] == 0
        blocks = [int(sample, 16) for row in live for sample in row["samples"]]
        assert len(blocks) == sum(row["blocks"] + row["indirect_blocks"] for row in live), live
        left = [block for block in blocks if not any(known(held, block) for known in LOSES.get(name, ()))]
        assert left == [], [(row, held.bytes(int(row["samples"][0], 16))) for row in live]
        assert len(blocks) <= len(LOSES.get(name, ()))
    finally:
        held.close()
        os.kill(serving.pid, signal.SIGCONT)
    assert definite(saved) == live
