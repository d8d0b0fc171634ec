"""Damaged images by chance: a short run among all tests, a long one by `make fuzz` (forked.py)."""

from __future__ import annotations

import ctypes
import json
import random
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Callable, Iterator, Optional, Sequence

import pytest
from fake_door import FakeDoor, run_json
from forked import Endless, Failure, Run, fuzz, fuzz_many, seeds
from heap_mixtures import everything, random_image
from schemas import valid
from subjects import Subject

from arenascope.base.errors import ArenascopeError, MemoryReadError
from arenascope.base.heap_model import ChunkRun, Statement
from arenascope.commands.framework.command import execute
from arenascope.commands.framework.find_command import COMMAND_NAMES, find_command
from arenascope.glibc.sweep import blocks
from arenascope.session.session import Session
from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.shell_target import ShellTarget


@dataclass
class Wound:
    """What is done to an image."""

    patches: list[tuple[int, bytes]] = field(default_factory=list)
    cuts: list[tuple[int, int]] = field(default_factory=list)
    """(start, end) of what the image lacks."""
    failing: float = 0.0
    """How many of all reads fail."""
    labels: list[str] = field(default_factory=list)
    """Which fields were written over, by name."""

    def __str__(self) -> str:
        parts = [f"{label} at {address:#x} = {data.hex()}" for label, (address, data) in zip(self.labels, self.patches)]
        parts += [f"{start:#x}-{end:#x} is missing" for start, end in self.cuts]
        if self.failing:
            parts.append(f"{self.failing:.1%} of all reads fail")
        return "; ".join(parts) or "nothing"


class DamagedTarget:
    """`image` is any Target; what is not written here comes from it."""

    def __init__(self, image: Any, wound: Wound, rng: random.Random, most_reads: int = 0, most_bytes: int = 0) -> None:
        self._image = image
        self._wound = wound
        self._rng = rng
        self._most = most_reads, most_bytes
        self.reads = self.bytes_read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._image, name)

    def read(self, address: int, size: int) -> bytes:
        self.reads += 1
        if self._most[0] and (self.reads > self._most[0] or self.bytes_read > self._most[1]):
            raise Endless(f"{self.reads} reads, {self.bytes_read} bytes")
        wound, end = self._wound, address + size
        if any(start < end and address < stop for start, stop in wound.cuts):
            raise MemoryReadError(address, size)
        if wound.failing and self._rng.random() < wound.failing:
            raise MemoryReadError(address, size)
        data: bytes = self._image.read(address, size)
        for at, written in wound.patches:
            if at < end and address < at + len(written):
                low, high = max(at, address), min(at + len(written), end)
                data = data[: low - address] + written[low - at : high - at] + data[high - address :]
        self.bytes_read += size
        return data

    def fill(self, address: int, block: memoryview) -> int:
        """As far as there is memory, as a file gives it."""
        size = len(block)
        while True:
            try:
                block[:size] = self.read(address, size)
                return size
            except MemoryReadError:
                if size <= 64:
                    raise
                size //= 2

    @property
    def image(self) -> DamagedImage:
        return DamagedImage(self._image.image, self._wound)


class DamagedImage:
    """Says what it lacks; for the rest it is as it was."""

    def __init__(self, image: Any, wound: Wound) -> None:
        self._image = image
        self._wound = wound

    def __getattr__(self, name: str) -> Any:
        return getattr(self._image, name)

    def shortage(self) -> Sequence[Statement]:
        return [Statement("core-cut", text="parts of it were cut out")] if self._wound.cuts else []


def values(rng: random.Random, word: int, order: Any, old: bytes, pointers: Sequence[int]) -> bytes:
    """What takes a word's place: a flipped bit or byte, nothing, a small number, text, noise, another pointer."""
    kind = rng.randrange(9)
    number = int.from_bytes(old, order)
    if kind < 3:
        number ^= 1 << rng.randrange(8 * len(old))
    elif kind == 3:
        number ^= rng.randrange(256) << 8 * rng.randrange(len(old))
    elif kind == 4:
        number = rng.choice((0, 1, rng.randrange(1 << 12), (1 << 8 * len(old)) - 1))
    elif kind == 5:
        number += rng.choice((-2, -1, 1, 2)) * 2 * word
    elif kind == 6:
        number = rng.getrandbits(8 * len(old))
    elif kind == 7:
        number = int.from_bytes(b"AAAAAAAA", order)
    else:
        number = rng.choice(pointers)
    return (number & ((1 << 8 * len(old)) - 1)).to_bytes(len(old), order)


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


READS, BYTES = 200_000, 1 << 30
FACTOR = 30
"""A damaged heap is looked at more often than a whole one: for another layout, or for where chunks go on."""
FIGURES = ("system_bytes", "fast", "bins", "top_bytes", "tcache", "used_bytes")
NAMES = tuple(name for name in COMMAND_NAMES if name not in ("snapshot", "save", "diff", "trend"))
"""Those that look at nothing but the image."""
FREE_OF_REDUNDANCY = ("arena.fastbinsY", "chunk.fast.fd")
"""Fields whose value nothing else in memory tells, so that what they say is the truth: fast chunks look used, and
nothing counts them."""
SEEN_BY_CHECK = ("chunk.free.size",)
"""Fields that walks take as malloc_info does, within what their list allows: `check` holds them against neighbours."""


def one_run(images: Sequence[Image], seed: str) -> Run:
    """One image, one wound, one command; the same for the same seed."""
    rng = random.Random(seed)
    image = rng.choice(images)
    wound = image.wound(rng)
    name = rng.choice((*NAMES, *["arenas"] * (len(NAMES) // 2)))
    words = [*image.words(name, rng), *(["--json"] if name == "arenas" or rng.random() < 0.5 else [])]

    def act() -> None:
        text = answer(image, wound, rng, name, words)
        if text is not None and "--json" in words:
            document = valid(json.loads(text))
            if name == "arenas":
                check_totals(image, wound, document)

    return Run(f"{seed} {name} {' '.join(words)} on {image.name}; {wound}", act)


def answer(image: Image, wound: Wound, rng: random.Random, name: str, words: list[str]) -> Optional[str]:
    """The command's output; None where it refused in so many words."""
    reads, size = image.need(name)
    door = image.door(wound, rng, FACTOR * reads + READS, FACTOR * size + BYTES)
    try:
        execute(find_command(name), words, door)
    except ArenascopeError as error:
        if not error.message:
            raise Failure("an error that says nothing") from error
        return None
    return "".join(door.written)


def check_totals(image: Image, wound: Wound, found: dict[str, Any]) -> None:
    """What is shown as complete is what the whole image holds."""
    if not found["complete"] or any(label in FREE_OF_REDUNDANCY for label in wound.labels):
        return
    if "arena.next" in wound.labels and _is_shorter_ring(image, found):
        return
    for name in FIGURES:
        told, true = found["totals"][name], image.figures["totals"][name]
        if told != true:
            if any(label in SEEN_BY_CHECK for label in wound.labels) and not _is_sound(image, wound):
                return
            raise Failure(f"{name} is {told}, but {true} in the whole image")


def _is_shorter_ring(image: Image, found: dict[str, Any]) -> bool:
    """A link that leads to a later arena of the ring: nothing tells of one between that no thread is attached to."""
    true = {arena["address"]: arena for arena in image.figures["arenas"]}
    left_out = true.keys() - {arena["address"] for arena in found["arenas"]}
    same = all(
        arena["address"] in true and arena[name] == true[arena["address"]][name]
        for arena in found["arenas"]
        for name in FIGURES
    )
    return same and bool(left_out) and not any(true[address]["threads"] for address in left_out)


def _is_sound(image: Image, wound: Wound) -> bool:
    text = answer(image, wound, random.Random(0), "check", ["--json"])
    return text is not None and not valid(json.loads(text))["breaches"]


SHORT = 500


@pytest.fixture(scope="module")
def images() -> list[Image]:
    return all_images()


@pytest.mark.timeout(1200)
@seeds(SHORT // 16, SHORT // 4)
def test_a_few(images: list[Image], seed: str, runs: int) -> None:
    fuzz(lambda seed, index: one_run(images, f"{seed}:{index}"), runs, seed)


@pytest.mark.fuzz
def test_many(images: list[Image]) -> None:
    fuzz_many(lambda seed, index: one_run(images, f"{seed}:{index}"))
