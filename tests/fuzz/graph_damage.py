"""Graph files in which anything may stand, and whose sum is right all the same."""

from __future__ import annotations

import json
import random
import zlib
from array import array
from typing import Any

from snapshot_damage import ODD, replace_one

from arenascope.blocks.graph.graph_file import MAGIC, PARTS

OWNERS = "owners"


class GraphFile:
    """A file of --graph, taken apart."""

    def __init__(self, data: bytes) -> None:
        head, _, body = data[len(MAGIC) :].partition(b"\n")
        self.magic = data[: len(MAGIC)]
        self.head: dict[str, Any] = json.loads(head)
        self.parts: dict[str, array[int]] = {}
        at = 0
        for name, code in PARTS.items():
            numbers = array(code)
            size = self.head["lengths"][name] * numbers.itemsize
            numbers.frombytes(body[at : at + size])
            self.parts[name], at = numbers, at + size
        assert at == len(body)

    @property
    def owners(self) -> Any:
        return json.loads(bytes(self.parts[OWNERS]))

    @owners.setter
    def owners(self, rows: Any) -> None:
        self.parts[OWNERS] = array("B", json.dumps(rows).encode("utf-8", "surrogatepass"))

    def written(self) -> bytes:
        body = b"".join(self.parts[name].tobytes() for name in PARTS)
        lengths = {name: len(self.parts[name]) for name in PARTS}
        head = {**self.head, "lengths": {**self.head["lengths"], **lengths}, "sum": zlib.crc32(body)}
        return self.magic + json.dumps(head).encode() + b"\n" + body


def damaged(rng: random.Random, data: bytes) -> tuple[bytes, str]:
    """The file's bytes, and what was done to them."""
    file, said = GraphFile(data), []
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        kind = rng.random()
        if kind < 0.7:
            said.append(_numbers(rng, file))
        elif kind < 0.95:
            rows = file.owners
            said.append(f"owners: {replace_one(rng, rows)}")
            file.owners = rows
        else:
            name = rng.choice([each for each in file.head if each != "sum"])
            file.head = {**file.head, name: rng.choice(ODD)} if name != "lengths" else file.head
            said.append(f"the head's {name}")
    return file.written(), "; ".join(said)


def _numbers(rng: random.Random, file: GraphFile) -> str:
    name = rng.choice([each for each in PARTS if each != OWNERS])
    numbers = file.parts[name]
    kind = rng.random()
    if kind < 0.1 or not numbers:
        more = [_value(rng, numbers, file) for _ in range(rng.choice((1, 2, 8)))]
        numbers.extend(more)
        return f"{name}: {more} more"
    if kind < 0.2:
        del numbers[rng.randrange(len(numbers)) :]
        return f"{name}: {len(numbers)} of them left"
    if kind < 0.3:
        at, to = rng.randrange(len(numbers)), rng.randrange(len(numbers))
        numbers[at], numbers[to] = numbers[to], numbers[at]
        return f"{name}: {at} and {to} changed places"
    changed = []
    for _ in range(rng.choice((1, 1, 3, 20))):
        at = rng.randrange(len(numbers))
        numbers[at] = _value(rng, numbers, file)
        changed.append(f"{at} = {numbers[at]}")
    return f"{name}: {', '.join(changed)}"


def _value(rng: random.Random, numbers: array[int], file: GraphFile) -> int:
    bits = 8 * numbers.itemsize
    low = -(1 << bits - 1) if numbers.typecode.islower() else 0
    old = rng.choice(numbers) if numbers else 0
    count = len(file.parts["starts"])
    others = file.parts[rng.choice([each for each in PARTS if file.parts[each]] or [OWNERS])]
    value = rng.choice(
        (
            0,
            1,
            -1,
            low,
            low + (1 << bits) - 1,
            old,
            old + 1,
            old - 1,
            old + 8,
            old + 4096,
            2 * old,
            old ^ (1 << rng.randrange(bits)),
            rng.getrandbits(bits),
            rng.randrange(count or 1),
            rng.randrange(2 * count or 1),
            count,
            rng.choice(others) if others else 0,
        )
    )
    return (value - low) % (1 << bits) + low
