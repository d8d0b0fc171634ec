"""Snapshots of any shape: JSON in which one thing stands for another."""

from __future__ import annotations

import copy
import gzip
import json
import random
from typing import Any

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    1 << 63,
    -(1 << 80),
    10**400,
    float("nan"),
    float("inf"),
    "",
    "text",
    "\x1b[31mred\x9b",
    "\ud800",
    "\u202etext",
    [],
    [[]],
    [None],
    {},
    {"a": 1},
    [1, "x", None],
    [{}],
)


def damaged(rng: random.Random, document: dict[str, Any]) -> bytes:
    """The file's bytes."""
    kind = rng.randrange(12)
    if kind == 0:
        deep = rng.choice((100, 200_000))
        return b'{"arenascope_snapshot":1,"report":' + rng.choice((b"[", b'{"a":')) * deep
    changed = json.loads(json.dumps(document))
    for _ in range(rng.choice((1, 1, 2, 5))):
        replace_one(rng, changed)
    data = json.dumps(changed, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    if kind == 1:
        data = data[: rng.randrange(len(data))]
    elif kind == 2:
        place = rng.randrange(len(data))
        data = data[:place] + rng.randbytes(rng.choice((1, 4))) + data[place:]
    elif kind == 3:
        data = b'{"arenascope_snapshot":1,"problems":[' + b"[]," * rng.choice((1000, 9_000_000))
    if kind in (4, 5, 6):
        packed = bytearray(gzip.compress(data if kind < 6 else data + b" " * (64 << 20), 1))
        if kind == 5:
            packed[rng.randrange(len(packed))] ^= 1 << rng.randrange(8)
        return bytes(packed[: rng.choice((len(packed), len(packed), rng.randrange(len(packed))))])
    return data


def replace_one(rng: random.Random, document: Any) -> str:
    """Something in it, at any depth; where."""
    inner: Any = document
    way = []
    while True:
        key = rng.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
        below = inner[key]
        way.append(str(key))
        if isinstance(below, (dict, list)) and below and rng.random() < 0.85:
            inner = below
            continue
        if rng.random() < 0.2 and key != "arenascope_snapshot":
            del inner[key]
        else:
            inner[key] = copy.deepcopy(rng.choice(ODD))
        return ".".join(way)
