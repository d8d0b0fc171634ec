"""Reading ahead by a thread: the same words as by asking for them, whatever the order, and its end."""

from __future__ import annotations

import _thread
import gc
import json
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pytest
from fake_door import FakeDoor
from fake_target import FakeTarget
from heap_mixtures import everything
from marks import in_full
from schemas import valid

from arenascope.base import background
from arenascope.base.background import ReadAhead
from arenascope.base.errors import MemoryReadError
from arenascope.commands.all_commands import find_command
from arenascope.commands.framework.command import execute
from arenascope.sources import memory


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(background, "BLOCK", 4096)
    monkeypatch.setattr(memory, "LONG", 1)
    before = _thread._count()
    yield
    gc.collect()
    deadline = time.monotonic() + 10
    while _thread._count() > before:
        assert time.monotonic() < deadline, "a thread is left behind"
        time.sleep(0.01)


@pytest.fixture
def data(tmp_path: Path) -> bytes:
    return random.Random(1).randbytes(100_000)


def filler(data: bytes, ends: tuple[int, ...] = (), holes: tuple[range, ...] = ()) -> Any:
    """Reads out of `data`, never across an end, and not where there is a hole."""

    def fill(address: int, block: memoryview) -> int:
        if any(address in hole for hole in holes):
            raise MemoryReadError(address, len(block))
        stops = [end for end in (*ends, *(hole.start for hole in holes), len(data)) if end > address]
        size = min(len(block), min(stops) - address)
        block[:size] = data[address : address + size]
        return size

    return fill


def test_what_cannot_be_read_is_not_there(data: bytes) -> None:
    ahead = ReadAhead(filler(data, holes=(range(8192, 20_000),)), 8)
    ahead.begin(len(data))
    assert len(ahead.words_from(8000)) == 24
    assert not len(ahead.words_from(8192))
    assert not len(ahead.words_from(16_000))
    assert memoryview(ahead.words_from(20_000)).tobytes() == data[20_000:24_096]


@pytest.mark.parametrize("row", ["2.36-64", *in_full("2.31-i386")])
@pytest.mark.parametrize("command", ["chunks --limit 0", "check", "pins", "map"])
def test_a_sweep_finds_the_same(row: str, command: str) -> None:
    image = everything(row)
    outcomes = []
    asked: list[str] = []
    for threaded in (False, True):
        target = image.target()
        if threaded:

            def fill(address: int, block: memoryview, target: FakeTarget = target) -> int:
                asked.append(threading.get_ident())
                return FakeTarget.fill(target, address, block)

            target.threaded_fill = fill  # type: ignore[assignment]
        door = FakeDoor(target)
        name, *words = command.split()
        execute(find_command(name), [*words, "--json"], door)
        outcomes.append(valid(json.loads("".join(door.written))))
    assert asked
    assert threading.get_ident() not in asked
    assert outcomes[0] == outcomes[1]
    assert outcomes[0]["complete"]


def test_ctrl_c_while_it_waits(data: bytes) -> None:
    """The one who waits is interrupted, and can go on from there."""
    slow = threading.Event()

    def fill(address: int, block: memoryview) -> int:
        if not slow.is_set():
            slow.set()
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
        return filler(data)(address, block)  # type: ignore[no-any-return]

    ahead = ReadAhead(fill, 8)
    ahead.begin(len(data))

    def wait() -> None:
        ahead.words_from(0)
        time.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        wait()
    ahead.begin(len(data))
    assert memoryview(ahead.words_from(0)).tobytes() == data[:4096]
