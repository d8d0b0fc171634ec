"""Writes a profile for pprof: profile.proto of github.com/google/pprof, gzipped.

A message is a sequence of fields. Each has a number and a wire type: 0 is a varint, 2 is a length and so many bytes.
"""

from __future__ import annotations

import gzip
from typing import Iterable, NamedTuple, Sequence

NUMBER, BYTES = 0, 2


class Sample(NamedTuple):
    """The values of one place, without those of places below it."""

    stack: Sequence[int]
    """Indexes of names, the innermost first."""
    values: Sequence[int]


class ValueType(NamedTuple):
    """The name and unit of a value."""

    name: str
    unit: str


def profile(
    names: Sequence[str], types: Sequence[ValueType], samples: Iterable[Sample], comments: Sequence[str]
) -> bytes:
    """pprof shows the last of `types` by default."""
    texts: dict[str, int] = {"": 0}

    def text(said: str) -> int:
        return texts.setdefault(said, len(texts))

    parts = [_bytes(1, _number(1, text(each.name)) + _number(2, text(each.unit))) for each in types]
    for each in samples:
        stack = b"".join(varint(name + 1) for name in each.stack)
        values = b"".join(map(varint, each.values))
        parts.append(_bytes(2, _bytes(1, stack) + _bytes(2, values)))
    for number, name in enumerate(names, 1):
        # each location has one line of one function, and no address
        parts.append(_bytes(4, _number(1, number) + _bytes(4, _number(1, number))))
        parts.append(_bytes(5, _number(1, number) + _number(2, text(name))))
    parts += [_number(13, text(each)) for each in comments]
    parts.append(_number(14, text(types[-1].name)))
    parts += [_bytes(6, each.encode(errors="replace")) for each in texts]
    return gzip.compress(b"".join(parts), mtime=0)


def varint(value: int) -> bytes:
    """Encodes a number as LEB128."""
    pieces = bytearray()
    while value > 127:
        pieces.append(value & 127 | 128)
        value >>= 7
    return bytes([*pieces, value])


def _number(field: int, value: int) -> bytes:
    return varint(field << 3 | NUMBER) + varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return varint(field << 3 | BYTES) + varint(len(value)) + value
