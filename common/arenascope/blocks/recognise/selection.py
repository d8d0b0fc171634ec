"""Selections of blocks by what their words are: a recogniser says by an expression what its blocks look like, and gets
the numbers of all that look so.

An expression is made of USER (where a block begins), USABLE (how many bytes it has), numbers and what lies in memory;
the engine computes it of each block. What cannot be read has no value, and no comparison with it holds.
"""

from __future__ import annotations

from array import array
from functools import reduce
from typing import Collection, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

from ...base.heap_model import Kind
from ...engine import Buffer, EngineImage, Operation
from ...glibc.malloc_chunk import SIZE_BITS
from ...sources.target import Span, joined
from .module_memory import MAPPED, PAGE_SLACK, SLACK

SHORTEST = 4
"""Letters: fewer are a number as well."""
PLAIN = bytes(range(32, 127)) + b"\t\n\r\x0b\x0c\x1b"
ENCODINGS = ("ASCII", "UTF-8", "UTF-16", "UTF-32")


MOST = (1 << 64) - 1
LONGEST_TEXT = 256
"""No more of a text is looked at."""


class Expression:
    """Something about a block that the engine computes."""

    def __init__(
        self, operation: Operation, *operands: Expression, number: int = 0, ranges: Sequence[Span] = ()
    ) -> None:
        self.operation = operation
        self.operands = operands
        self.constant = number
        self.ranges = ranges


class Condition(Expression):
    """Something that holds or does not."""

    def __and__(self, other: Condition) -> Condition:
        return Condition("both", self, other)

    def __or__(self, other: Condition) -> Condition:
        return Condition("either", self, other)

    def __invert__(self) -> Condition:
        return Condition("not", self)


class Value(Expression):
    """A number of 64 bits; sums wrap."""

    def __add__(self, other: Number) -> Value:
        return self if isinstance(other, int) and not other else Value("add", self, value(other))

    def __sub__(self, other: Number) -> Value:
        return self if isinstance(other, int) and not other else Value("subtract", self, value(other))

    def __mul__(self, other: Number) -> Value:
        return Value("multiply", self, value(other))

    def __mod__(self, other: Number) -> Value:
        return Value("remainder", self, value(other))

    def __and__(self, other: Number) -> Value:
        return Value("bits", self, value(other))

    def __lshift__(self, other: Number) -> Value:
        return Value("up", self, value(other))

    def __rshift__(self, other: Number) -> Value:
        return Value("down", self, value(other))

    def __eq__(self, other: Number) -> Condition:  # type: ignore[override]
        return Condition("equal", self, value(other))

    def __ne__(self, other: Number) -> Condition:  # type: ignore[override]
        return (self < other) | (self > other)

    def __lt__(self, other: Number) -> Condition:
        return Condition("less", self, value(other))

    def __gt__(self, other: Number) -> Condition:
        return Condition("less", value(other), self)

    def __le__(self, other: Number) -> Condition:
        return Condition("at most", self, value(other))

    def __ge__(self, other: Number) -> Condition:
        return Condition("at most", value(other), self)

    __hash__ = None  # type: ignore[assignment]

    def between(self, low: Number, high: Number) -> Condition:
        """Whether it is one of low to high, without that."""
        return self - low < (high - low if isinstance(high, int) and isinstance(low, int) else value(high) - low)

    def is_in(self, numbers: Collection[int]) -> Condition:
        return self.lies_in([Span(each, each + 1) for each in sorted(numbers)])

    def lies_in(self, ranges: Sequence[Span]) -> Condition:
        """`ranges` are in order."""
        return Condition("within", self, ranges=joined(ranges))

    def is_multiple(self, of: int) -> Condition:
        """`of` is a power of two."""
        return self & (of - 1) == 0

    def least(self, other: Number) -> Value:
        return either(self < other, self, value(other))

    def fits(self, usable: Optional[Value] = None, page: int = PAGE_SLACK) -> Condition:
        """Whether a block was asked for with so many bytes: see fits() of module_memory.py."""
        room = USABLE if usable is None else usable
        return (self - 1 < room) & (room - self < either(room < MAPPED, value(SLACK), value(page)))

    # what lies at an address

    def number(self, size: int = 8) -> Value:
        """The number of so many bytes there; 0: the word."""
        return Value("load", self, number=size)

    def word(self, place: int = 0) -> Value:
        """The word of 64 bits in that place of what is there."""
        return (self + 8 * place).number()

    def usable(self) -> Value:
        """What is usable of the block there, by malloc's header."""
        return (self.word(-1) & ~SIZE_BITS) - 8

    def is_plain(self, length: Value) -> Condition:
        """Whether there is nothing but letters of ASCII, at most LONGEST_TEXT."""
        return Condition("text", self, length)

    def is_java_text(self, length: Value) -> Condition:
        return Condition("text", self, length, number=1)


Number = Union[int, Value]


def value(number: Number) -> Value:
    return number if isinstance(number, Value) else Value("number", number=number & MOST)


USER, USABLE, BASE = Value("address"), Value("size"), Value("base")


LOW = 0xFFFFFFFF
"""The lower half of a word."""
TRUE = value(0) == 0


def either(condition: Condition, one: Value, other: Value) -> Value:
    """`one` where the condition holds, elsewhere `other`."""
    return Value("choice", condition, one, other)


def all_of(conditions: Iterable[Condition]) -> Condition:
    return reduce(Condition.__and__, conditions)


def any_of(conditions: Iterable[Condition]) -> Condition:
    return reduce(Condition.__or__, conditions)


PLACE = Value("place")
"""In a condition for `first`."""


def first(condition: Condition, count: Number) -> Value:
    """The first PLACE from 0 to before `count` in which it holds; no value where it holds in none."""
    return Value("first", value(count), condition)


def holds_in_each(condition: Condition, count: Number) -> Condition:
    """Whether it holds in every PLACE from 0 to before `count`."""
    return ~holds_in_one(~condition, count)


def holds_in_one(condition: Condition, count: Number) -> Condition:
    return first(condition, count) >= 0


class Places(NamedTuple):
    """What is looked at in place of blocks."""

    addresses: Buffer
    """In place of USER."""
    sizes: Buffer
    """Of each a number for USABLE."""
    bases: Buffer
    """And where what it lies in begins, for BASE."""


Numbers = Union["array[int]", memoryview]
Found = Iterator[tuple[Numbers, Kind]]
"""What some blocks are, by their numbers, what is surest first."""


class Front(NamedTuple):
    """What a program puts in front of blocks' own words. Its expressions are about the block behind it."""

    bytes: int
    of: str
    asked: Value
    """How many bytes were asked for after it."""
    holds: Mapping[str, Condition]
    """What a block is that is known by no more than its front, by which conditions."""


class Selection:
    """The blocks of an image, or other places of it."""

    def __init__(self, engine: EngineImage, places: Optional[Places] = None) -> None:
        self._engine, self._places = engine, places
        self.count = engine.count if places is None else len(places.addresses)

    def where(self, condition: Condition, among: Optional[Buffer] = None) -> Numbers:
        """The numbers of those for which it holds, in order, of all or of those `among` them."""
        return self._look(condition, among, "I")

    def column(self, of: Value, among: Optional[Buffer] = None) -> Numbers:
        """Its value of each of these, 0 where it has none."""
        return self._look(of, among, "Q")

    def grouped(self, of: Value, among: Optional[Numbers] = None) -> Iterator[tuple[int, Numbers]]:
        """(value, the numbers that have it) of those `among` them, or of all that have one but 0."""
        return self._engine.grouped(among, self.column(of, among))

    def _look(self, of: Expression, among: Optional[Buffer], code: str) -> Numbers:
        if not self.count or (among is not None and not len(among)):
            return array(code)
        nodes, ranges = _listed(of)
        return self._engine.select(nodes, ranges, self._places, among, code)


def _listed(of: Expression) -> tuple[list[tuple[Operation, Sequence[int], int]], Sequence[Span]]:
    """Each node after those that it refers to, once, and the ranges of all."""
    places: dict[int, int] = {}
    nodes: list[tuple[Operation, Sequence[int], int]] = []
    ranges: list[Span] = []

    def put(each: Expression) -> int:
        place = places.get(id(each))
        if place is None:
            operands = [put(one) for one in each.operands]
            number = each.constant
            if each.operation == "within":
                number = len(ranges) << 32 | len(each.ranges)
                ranges.extend(each.ranges)
            place = places[id(each)] = len(nodes)
            nodes.append((each.operation, operands, number))
        return place

    put(of)
    return nodes, ranges
