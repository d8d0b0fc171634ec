"""A Target with wrong bytes, missing memory, or reads that fail now and then: everything else is as in the image."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Sequence

from arenascope.base.errors import MemoryReadError
from arenascope.base.model import Statement


class Endless(BaseException):
    """More was read than any walk of this image can need."""


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
