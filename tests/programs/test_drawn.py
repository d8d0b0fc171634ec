"""Of the blocks that have a name, certain or not, none that is drawn is wrong, by a reading of its bytes that is not
arenascope's; and most bytes have one."""

from __future__ import annotations

import os
import random
import re
import signal
from collections import defaultdict
from typing import Sequence

import pytest
from programs import PROGRAMS, SINGLE
from readings import Block, Process, after_front, reading_of
from running import Running
from test_programs import await_stop

from arenascope.base.model import Kind
from arenascope.blocks.name_all_blocks import live_kinds
from arenascope.cli.shell import How, ShellDoor
from arenascope.session.session import Session

DRAWN, OF_EACH = 50, 6
"""Blocks of all that have a name, and of those that are read alike."""
UNNAMED = ("size", "zeros", "pointers", "text")
SHARES = {
    "python": 0.95,
    "node": 0.5,
    "node-streams": 0.8,
    "rust": 0.9,
    "java": 0.5,
    "java-tracked": 0.5,
    "perl": 0.9,
    "memcached": 0.9,
    "php": 0.5,
    "ruby": 0.9,
    "postgres": 0.9,
    "sqlite": 0.9,
    "redis-on-glibc": 0.9,
    "mariadbd": 0.5,
}
"""Of the bytes in use, at least."""
FRONTED = ("mariadbd", "java-tracked")
"""Programs that have words of their own in front of their blocks."""
WHOLE = r"MEM_ROOT block|mem_heap block|glibc's thread cache|.* \(NMT\)"
"""What is told together with these."""
Named = list[tuple[Block, Kind]]


def named_in(pid: int) -> tuple[Named, float]:
    """The blocks that have one; and how much of all bytes these are, without those of which only their looks tell."""
    session = Session(ShellDoor(str(pid), How("none", declared=False)).target())
    live, header, word = live_kinds(session), session.layout.header, session.layout.word
    blocks = [
        (chunk + header, size - word, live.kinds[kind])
        for heap in live.heaps
        for chunk, size, _, kind in live.blocks(heap)
        if kind >= 0
    ]
    for block, number in live.mmapped:
        user = block.chunk + header
        blocks.append((user, block.base + block.bytes - user, live.kinds[number]))
    named = sum(usable for _, usable, kind in blocks if kind.kind not in UNNAMED)
    found = [(Block(user, usable, kind.name, kind.how), kind) for user, usable, kind in blocks if kind.kind != "size"]
    return found, named / sum(usable for _, usable, _ in blocks)


def drawn(found: Named, program: str) -> Named:
    """Always the same of the same blocks."""
    rng = random.Random(1)
    some = rng.sample(found, min(DRAWN, len(found)))
    alike: dict[object, Named] = defaultdict(list)
    readings = {kind: reading_of(kind.name, kind.kind, program) for _, kind in found}
    for each in found:
        alike[readings[each[1]]].append(each)
    for others in alike.values():
        some += rng.sample(others, min(OF_EACH, len(others)))
    return some


def wrong_ones(process: Process, some: Sequence[tuple[Block, Kind]], program: str) -> list[str]:
    wrong = []
    for block, kind in some:
        reading = reading_of(block.name, kind.kind, program)
        if program in FRONTED and not re.fullmatch(WHOLE, block.name):
            block = after_front(process, block)
        if reading is None or not reading(process, block):
            shown = process.read(block.user, 48).hex(" ", 8)
            wrong.append(f"{block}: {reading and reading.__name__} {shown}")
    return wrong


NAMES = [each.name for each in (*PROGRAMS, *SINGLE)]


@pytest.mark.parametrize("serving", NAMES, indirect=True)
def test_none_is_wrong(serving: Running, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["serving"]
    os.kill(serving.pid, signal.SIGSTOP)
    try:
        await_stop(serving.pid)
        found, share = named_in(serving.pid)
        some = drawn(found, name)
        process = Process(serving.pid, [block for block, _ in found], [block for block, _ in some])
        try:
            assert len(found) >= DRAWN
            assert wrong_ones(process, some, name) == []
        finally:
            process.close()
    finally:
        os.kill(serving.pid, signal.SIGCONT)
    assert share >= SHARES.get(name, 0)
