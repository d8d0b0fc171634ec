"""libc++'s containers of which the elements lie beside each other: vectors, deques, strings. What holds an allocator
beside it lies in a "compressed pair", whose first part is `__value_`, and since LLVM 20 is a member of its own."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence

from ....sources.debug_info_types import TypeFacts
from ..claims import CONTAINER, Claim, Container, Reader, Types
from .forms import Body, Form, OfBody, OfText, between
from .libstdcxx_bodies import Vector
from .parts import PlacedMember, Table, argument, find, known, table_of_links, words_at

BUFFER, LEAST = 4096, 16
"""Bytes of a deque's buffer, and how many elements it has at least (`__deque_block_size`)."""


def first(types: Types, type: int, *paths: str) -> Optional[PlacedMember]:
    """The first of these members that there is; of a compressed pair its first part."""
    for path in paths:
        found = find(types, type, f"{path}.__value_") or find(types, type, path)
        if found is not None:
            return found
    return None


def _vector(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    begin, element = find(types, type, "__begin_"), argument(types, facts, 0)
    if begin is None or element is None:
        return None
    size = types.facts(element).size
    if types.facts(element).form == "boolean":
        bits, room = types.facts(begin.type).target, first(types, type, "__cap_alloc_", "__cap_")
        places = known(begin, first(types, type, "__size_"), room)
        return Bits(places, bits, types.facts(bits).size) if places and bits is not None else None
    places = known(begin, find(types, type, "__end_"), first(types, type, "__end_cap_", "__cap_"))
    word = types.facts(begin.type).size
    return Vector(places[0], element, size) if places == [begin.offset + at * word for at in range(3)] else None


class Bits(OfBody):
    """vector<bool>: where its words begin, how many bits it has, and how many words there is room for."""

    def __init__(self, places: Sequence[int], element: int, size: int) -> None:
        super().__init__(element, size, words=False)
        self._places = places

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        words = words_at(reader, address, self._places)
        if words is None or words[1] > words[2] * self.size * 8:
            return None
        start, bits, room = words
        if not room or not reader.holds(start, room * self.size):
            return Body(0, 0, 0) if not room and not start else None
        return Body(start, -(-bits // (8 * self.size)), room)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        return reader.word(address + self._places[1]) if self.body(reader, address) is not None else None


class String(OfText):
    """basic_string: a long one has a mark in the word of its capacity, the length of a short one is in a byte there."""

    def __init__(self, places: Sequence[int], inside: PlacedMember, letters: PlacedMember, name: str) -> None:
        """`places`: of a long one's letters, length and capacity; `inside`: of a short one's letters; `letters`: how
        many bytes the whole has, and their type."""
        super().__init__(letters.type, inside.type, words=False, name=name)
        self._places, self.inside, self._whole, self.after = places, inside.offset, letters.offset, 1
        self._is_last = places[2] > places[0]

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        words = words_at(reader, address, self._places)
        mark = reader.number(address + (self._whole - 1 if self._is_last else self._places[2]), 1)
        if words is None or mark is None:
            return None
        start, count, room = words
        if not mark & (0x80 if self._is_last else 1):
            count, most = mark if self._is_last else mark >> 1, self._whole // self.size - (self.inside > 0) - 1
            return Body(0, count, most) if count <= most else None
        room &= (1 << 8 * reader.word_size - 1) - 1 if self._is_last else ~1
        if not count < room or not reader.holds(start, room * self.size):
            return None
        ended = reader.bytes(start + count * self.size, self.size) == bytes(self.size)
        return Body(start, count, room - 1) if ended else None


def _string(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    letter = argument(types, facts, 0)
    whole = next((each for each in ("__r_.__value_", "__r_", "__rep_") if find(types, type, f"{each}.__l")), None)
    if letter is None or whole is None:
        return None
    data, count = (find(types, type, f"{whole}.__l.{name}") for name in ("__data_", "__size_"))
    short, size = find(types, type, f"{whole}.__s.__data_"), types.facts(letter).size
    if data is None or count is None or short is None:
        return None
    word = types.facts(data.type).size
    # the capacity may have bits of its word: it has what the others leave
    left = {0, word, 2 * word} - {data.offset, count.offset}
    if len(left) != 1:
        return None
    places = (data.offset, count.offset, left.pop())
    return String(places, PlacedMember(short.offset, size), PlacedMember(facts.size, letter), f"{facts.name} body")


class Values(OfBody):
    """valarray: its begin and its end."""

    def __init__(self, begin: int, element: int, size: int) -> None:
        super().__init__(element, size)
        self._begin = begin

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        words = reader.words(address + self._begin, 2)
        return None if words is None else between(reader, (*words, words[1]), self.size)


def _valarray(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    begin, element = find(types, type, "__begin_"), argument(types, facts, 0)
    return Values(begin.offset, element, types.facts(element).size) if begin and element is not None else None


class Deque:
    """A vector of buffers; the elements begin somewhere in the first ones."""

    def __init__(self, places: Sequence[int], element: int, size: int, of_map: Table) -> None:
        """`places`: of the map's four words, of the first element's number, of how many there are."""
        self._places, self._element, self._size, self._map = places, element, size, of_map
        self._each = BUFFER // size if size * LEAST < BUFFER else LEAST

    def claims(self, reader: Reader, address: int) -> Optional[Sequence[Claim]]:
        word, each = reader.word_size, self._each
        words = words_at(reader, address, self._places)
        if words is None:
            return None
        start, begin, end, top, first, count = words
        if not start:
            return [] if not (begin or end or top or count) else None
        if not start <= begin <= end <= top or any((other - start) % word for other in (begin, end, top)):
            return None
        buffers = reader.words(begin, (end - begin) // word) if reader.holds(start, top - start) else None
        if buffers is None or first + count > len(buffers) * each or len(set(buffers)) < len(buffers):
            return None
        if not all(reader.holds(buffer, each * self._size) for buffer in buffers):
            return None
        map = Claim(start, self._map.type, CONTAINER, " (map)", front=begin - start, name=self._map.name)
        claims = [map._replace(elements=len(buffers), capacity=(top - begin) // word)]
        for number, buffer in enumerate(buffers):
            low, high = max(first, number * each), min(first + count, (number + 1) * each)
            used, front = max(0, high - low), low - number * each if high > low else 0
            claim = Claim(buffer, self._element, CONTAINER, "", number=low - first, front=front * self._size)
            claims.append(claim._replace(elements=used, capacity=each - front))
        return claims

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        return reader.word(address + self._places[-1]) if self.claims(reader, address) is not None else None


def _deque(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    element, begin = argument(types, facts, 0), find(types, type, "__map_.__begin_")
    map = [find(types, type, f"__map_.{name}") for name in ("__first_", "__begin_", "__end_")]
    last = first(types, type, "__map_.__end_cap_", "__map_.__cap_")
    places = known(*map, last, find(types, type, "__start_"), first(types, type, "__size_"))
    if element is None or begin is None or not places:
        return None
    of_map = table_of_links(types, f"{facts.name} map", types.facts(begin.type).size)
    return Deque(places, element, types.facts(element).size, of_map)


BODIES: Mapping[str, Form] = {"vector": _vector, "basic_string": _string, "valarray": _valarray, "deque": _deque}
