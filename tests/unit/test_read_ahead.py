"""Reading ahead by a thread: the same words as by asking for them, whatever the order, and its end."""

from __future__ import annotations

import _thread
import gc
import json
import os
import random
import signal
import sys
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


@pytest.mark.parametrize("word", [4, 8])
@pytest.mark.parametrize("ends", [(), (8, 4096, 5000, 70_000)])
def test_whatever_is_asked_for_next(word: int, ends: tuple[int, ...], data: bytes) -> None:
    dice = random.Random(word + len(ends))
    ahead = ReadAhead(filler(data, ends), word)
    for _ in range(20):
        end = dice.randrange(word, len(data) // word + 1) * word
        ahead.begin(end)
        address = 0
        while address < end:
            words = ahead.words_from(address)
            assert len(words), address
            assert memoryview(words).tobytes() == data[address : address + len(words) * word]
            # chunk by chunk, over a few blocks, and sometimes back
            address = max(0, address + dice.choice([1, 5, 600, 2000, -3]) * word)
        assert not len(ahead.words_from(end))


def test_what_cannot_be_read_is_not_there(data: bytes) -> None:
    ahead = ReadAhead(filler(data, holes=(range(8192, 20_000),)), 8)
    ahead.begin(len(data))
    assert len(ahead.words_from(8000)) == 24
    assert not len(ahead.words_from(8192))
    assert not len(ahead.words_from(16_000))
    assert memoryview(ahead.words_from(20_000)).tobytes() == data[20_000:24_096]


def test_a_stretch_begins_anew() -> None:
    """A process may have run on in between."""
    content = bytearray(1 << 16)
    ahead = ReadAhead(lambda address, block: filler(bytes(content))(address, block), 8)
    for turn in range(1, 4):
        content[:] = bytes([turn]) * len(content)
        ahead.begin(len(content))
        assert set(memoryview(ahead.words_from(0)).tobytes()) == {turn}


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


def test_signals_are_not_for_that_thread(data: bytes) -> None:
    seen: list[set[Any]] = []

    def fill(address: int, block: memoryview) -> int:
        seen.append(set(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
        return filler(data)(address, block)  # type: ignore[no-any-return]

    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    ahead = ReadAhead(fill, 8)
    ahead.begin(len(data))
    assert len(ahead.words_from(0))
    assert signal.SIGINT in seen[0]
    assert signal.SIGCHLD in seen[0]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


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


@pytest.mark.full
def test_ctrl_c_between_any_two_lines(data: bytes) -> None:
    """Whatever was being done: the next stretch is read right, and nobody waits forever."""

    def walk(ahead: ReadAhead) -> None:
        ahead.begin(len(data))
        address = 0
        while address < len(data):
            words = memoryview(ahead.words_from(address))
            assert words.tobytes() == data[address : address + words.nbytes]
            address += words.nbytes

    def interrupted(after: int) -> bool:
        """Whether the walk was, in one of our own lines."""
        left = after

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename != background.__file__:
                return None
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            walk(ahead)
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
        return False

    ahead = ReadAhead(filler(data, (5000, 70_000)), 8)
    lines = 1
    while interrupted(lines):
        walk(ahead)
        lines += 1
    assert lines > 100
