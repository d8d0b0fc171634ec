"""A profile as pprof reads it: profile.proto of github.com/google/pprof, gzipped.

A message is fields one after another, each with its number, and how it is written: 0 a number of seven bits a byte, 2
bytes after their length.
"""

from __future__ import annotations

import gzip
from typing import Iterable, NamedTuple, Sequence

NUMBER, BYTES = 0, 2


class Sample(NamedTuple):
    """What one place has itself."""

    stack: Sequence[int]
    """Which names, the innermost first."""
    values: Sequence[int]


class ValueType(NamedTuple):
    """What a value counts."""

    name: str
    unit: str


def profile(
    names: Sequence[str], types: Sequence[ValueType], samples: Iterable[Sample], comments: Sequence[str]
) -> bytes:
    """The last type is what is shown unasked."""
    texts: dict[str, int] = {"": 0}

    def text(said: str) -> int:
        return texts.setdefault(said, len(texts))

    parts = [_bytes(1, _number(1, text(each.name)) + _number(2, text(each.unit))) for each in types]
    for each in samples:
        stack = b"".join(varint(name + 1) for name in each.stack)
        values = b"".join(map(varint, each.values))
        parts.append(_bytes(2, _bytes(1, stack) + _bytes(2, values)))
    for number, name in enumerate(names, 1):
        # a location with one line, of a function: there are no addresses
        parts.append(_bytes(4, _number(1, number) + _bytes(4, _number(1, number))))
        parts.append(_bytes(5, _number(1, number) + _number(2, text(name))))
    parts += [_number(13, text(each)) for each in comments]
    parts.append(_number(14, text(types[-1].name)))
    parts += [_bytes(6, each.encode(errors="replace")) for each in texts]
    return gzip.compress(b"".join(parts), mtime=0)


def varint(value: int) -> bytes:
    """LEB128."""
    pieces = bytearray()
    while value > 127:
        pieces.append(value & 127 | 128)
        value >>= 7
    return bytes([*pieces, value])


def _number(field: int, value: int) -> bytes:
    return varint(field << 3 | NUMBER) + varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return varint(field << 3 | BYTES) + varint(len(value)) + value
