"""What a kind of block holds back, against what leaves memory once the subject has freed all of that kind."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import pytest
from looks import Live
from marks import in_full
from platforms import ELSEWHERE, HOST, Platform
from shell_door import SHELL
from subjects import Subject

from arenascope.analysis.pinning_blocks import HeldBack, Typed
from arenascope.base.heap_model import ArenaHeader, ChunkRun, Heap
from arenascope.blocks.type_figures import held_back, in_memory
from arenascope.glibc.sweep import blocks
from arenascope.session.session import Session
from arenascope.sources.live.live_target import ProcessTarget
from arenascope.sources.live.process import ProcessImage

UNCACHED = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
"""So that what the subject frees is free."""


class Look:
    """One look at a parked subject: its blocks by the size of their chunks."""

    def __init__(self, pid: int) -> None:
        target = ProcessTarget(ProcessImage(pid), (), False)
        target.look(None)
        self.session = Session(target)
        self.blocks: dict[int, int] = {}
        present = in_memory(self.session)
        self._held = held_back(self.session, present, self._by_size)
        self.heaps = [(heap.address, heap.end) for heap in present]

    def _by_size(self, header: ArenaHeader, heap: Heap) -> Iterator[Typed]:
        for piece in self.session.sweep(header, heap):
            if not isinstance(piece, ChunkRun):
                yield piece.address, piece.bytes, piece.kind, -1
                continue
            for chunk, size, state in blocks(piece, self.session.listed):
                self.blocks[size] = self.blocks.get(size, 0) + (state == "used")
                yield chunk, size, state, size

    def held(self, size: int) -> HeldBack:
        found = self._held.of(size)
        assert found is not None
        return found


def in_heaps(subject: Subject, heaps: Sequence[tuple[int, int]]) -> int:
    """What is in memory of the mappings that these heaps lie in, by the kernel's own count."""
    parts: dict[tuple[int, int], Any] = subject.smaps("Anonymous")
    return sum(size for (low, high), size in parts.items() if any(low < end and start < high for start, end in heaps))


def chunk_bytes(requested: int, word: int) -> int:
    return max((requested + word + 15) // 16 * 16, 4 * word)


@pytest.mark.parametrize("platform", [HOST, *in_full(*ELSEWHERE)], ids=lambda platform: platform.id)
def test_each_of_ten_holds_back_what_leaves_memory_without_it(platform: Platform) -> None:
    """One after the other: what is left is another heap each time."""
    held, unmapped = [], 0
    with Subject("holding", env=UNCACHED, platform=platform) as subject:
        for size in subject.truth["notes"]["sizes"]:
            look = Look(subject.pid)
            kind = chunk_bytes(size, platform.pointer_bytes)
            subject.send("trim")
            before = in_heaps(subject, look.heaps)
            assert subject.send(f"freesize {size}") == f"freed {look.blocks[kind]}"
            subject.send("trim")
            left = subject.smaps("Anonymous")
            fall = before - in_heaps(subject, look.heaps)
            assert look.held(kind).resident == fall, f"blocks of {size}: {look.held(kind)}"
            held.append(fall)
            unmapped += sum(not any(low <= start < high for low, high in left) for start, _ in look.heaps)
        assert subject.quit() == 0
    assert min(held) > 0
    assert unmapped  # a whole heap of one size


@pytest.mark.parametrize("numbers", [range(3), *in_full(range(10))], ids=len)
def test_each_of_ten_classes_by_its_name(numbers: range) -> None:
    """One after the other: what is left is another heap each time."""
    held = []
    with Subject("ten_classes", env=UNCACHED) as subject:
        image = Live(subject.pid, subject.program)
        for number in numbers:
            name = f"Kind<{number}>"
            (outcome,) = SHELL.run(image, [f"types --match {name} --json"])
            (row,) = outcome.json()["types"]
            assert (row["type"], row["kind"], row["certain"]) == (name, "declared", True)
            subject.send("trim")
            before = subject.rollup("Anonymous")
            assert subject.send(f"forget {number}") == f"forgotten {row['blocks']}"
            subject.send("trim")
            assert row["holds_back_bytes"] == before - subject.rollup("Anonymous"), name
            held.append(row["holds_back_bytes"])
        assert subject.quit() == 0
    assert min(held) > 0
