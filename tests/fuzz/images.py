"""The images that are damaged: cores of real processes, held open, and heaps built for other machines and releases."""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Callable, Iterator

import pytest
from damaged import DamagedTarget, Wound, values
from fake_door import FakeDoor, run_json
from heap_mixtures import everything, random_image
from subjects import Subject

from arenascope.base.errors import MemoryReadError
from arenascope.base.model import ChunkRun
from arenascope.commands.all_commands import find_command
from arenascope.commands.framework.command import execute
from arenascope.glibc.sweep import blocks
from arenascope.session.session import Session
from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.shell_target import ShellTarget

ADDR_NO_RANDOMIZE = 0x0040000
CHUNKS = 300
"""How many of an arena's chunks are written over: the others are like them."""
REAL = (("bins",), ("tcache", "2"), ("foreign_sbrk", "plain"), ("mmapped",), ("many_heaps", "3", "plain"))
BUILT = ("2.17-64", "2.26-i386", "2.31-arm", "2.36-64", "2.36-s390x", "2.36-ppc32", "2.42.x-64", "2.43-64")


@dataclass(frozen=True)
class Place:
    """A field that matters to malloc."""

    label: str
    address: int
    size: int


@dataclass
class Image:
    """A whole heap, what there is to damage in it, and what its figures are."""

    name: str
    target: Any
    needs: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By command: how many reads and bytes it takes undamaged."""

    def door(self, wound: Wound, rng: random.Random, most_reads: int = 0, most_bytes: int = 0) -> FakeDoor:
        return FakeDoor(DamagedTarget(self.target, wound, rng, most_reads, most_bytes))  # type: ignore[arg-type]

    @cached_property
    def figures(self) -> dict[str, Any]:
        return run_json(self.target, "arenas")

    def need(self, command: str) -> tuple[int, int]:
        if command not in self.needs:
            door = self.door(Wound(), random.Random(0))
            execute(find_command(command), [*self.words(command, random.Random(0)), "--json"], door)
            self.needs[command] = door.image.reads, door.image.bytes_read
        return self.needs[command]

    def words(self, command: str, rng: random.Random) -> list[str]:
        """What a command must be told."""
        return (
            [f"{rng.choice(self.pointers) + rng.choice((0, 0, 16, 1000)):#x}"]
            if command in ("chunk", "refs", "owner")
            else []
        )

    @cached_property
    def places(self) -> list[Place]:
        return list(_places(Session(self.target)))

    @cached_property
    def pointers(self) -> list[int]:
        return [place.address for place in self.places if place.label.startswith(("chunk", "arena", "heap"))]

    def wound(self, rng: random.Random) -> Wound:
        """One to four words, sometimes memory that is missing, sometimes reads that fail."""
        wound = Wound()
        kind = rng.randrange(10)
        if kind == 0:
            wound.failing = rng.choice((0.002, 0.02, 0.2))
        if kind == 1:
            start = rng.choice(self.pointers) & -4096
            wound.cuts.append((start, start + 4096 * rng.choice((1, 1, 16, 1 << 20))))
        if kind > 1:
            for place in rng.choices(self.places, k=rng.choice((1, 1, 1, 2, 4))):
                old = self.target.read(place.address, place.size)
                new = values(rng, self.target.pointer_size, self.target.byte_order, old, self.pointers)
                if new != old:
                    wound.patches.append((place.address, new))
                    wound.labels.append(place.label)
        return wound


def _places(session: Session) -> Iterator[Place]:
    """By kind, so that the few words of an arena come as often as the many of its chunks."""
    layout, word = session.layout, session.layout.word
    kinds: dict[str, list[Place]] = {}

    def add(kind: str, label: str, address: int, size: int = word) -> None:
        try:
            session.memory.read(address, size)
        except MemoryReadError:
            return
        kinds.setdefault(kind, []).append(Place(label, address, size))

    listed = dict(session.listed)
    for arena in session.arenas:
        header = arena.header
        for name, offset in layout.arena.offsets.items():
            size = 4 if name in ("mutex", "flags", "have_fastchunks", "binmap") else word
            add("arena", f"arena.{name}", header.address + offset, size)
        for index in range(254):
            add("bins", "arena.bins", header.address + layout.arena["bins"] + index * word)
        for heap in arena.heaps if not header.main else ():
            for name, offset in layout.heap.offsets.items():
                add("heap", f"heap.{name}", heap.address + offset)
        found = [
            each for piece in session.sweep(header) if isinstance(piece, ChunkRun) for each in blocks(piece, listed)
        ]
        for chunk, _, state in random.Random(1).sample(found, min(len(found), CHUNKS)):
            names = ("prev_size", "size", "fd", "bk", "fd_nextsize", "bk_nextsize")
            for index, name in enumerate(names if state != "used" else names[:2]):
                add("chunk", f"chunk.{state}.{name}", chunk + index * word)
        add("arena", "chunk.top.size", header.top + word)
    if session.params is not None:
        for name, offset in layout.params.offsets.items():
            add("mp_", f"mp_.{name}", session.params.address + offset, 4)
    for cache in session.thread_caches:
        if cache.address and layout.tcache:
            for index in range(layout.tcache.bins):
                add("tcache", "tcache.entries", cache.address + layout.tcache.entries + index * word)
                add(
                    "tcache",
                    "tcache.counts",
                    cache.address + layout.tcache.counts + index * layout.tcache.count_bytes,
                    layout.tcache.count_bytes,
                )
    most = max(map(len, kinds.values()))
    for places in kinds.values():
        yield from places * max(1, most // len(places) // 2)


def built(row: str, seed: int) -> Image:
    image = everything(row) if not seed else random_image(row, seed)
    return Image(f"{row}/{seed}", image.target(symbols=seed % 2 == 0))


class Still(Subject):
    """At the same addresses every time, so that a seed does the same damage again."""

    def _prepare(self) -> None:
        super()._prepare()
        ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)


def real(*words: str) -> Image:
    """The kernel's core stays open while its file is gone."""
    with Still(*words) as subject:
        return Image(" ".join(words), ShellTarget(CoreImage(str(subject.kernel_core()))))


def makers() -> list[Callable[[], Image]]:
    found: list[Callable[[], Image]] = [lambda words=words: real(*words) for words in REAL]  # type: ignore[misc]
    found += [lambda row=row, seed=seed: built(row, seed) for row in BUILT for seed in (0, 1)]  # type: ignore[misc]
    return found


def all_images() -> list[Image]:
    images = []
    for make in makers():
        try:
            images.append(make())
        except pytest.skip.Exception:
            continue
    return images
