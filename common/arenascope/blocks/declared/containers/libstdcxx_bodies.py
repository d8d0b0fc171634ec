"""libstdc++'s containers of which the elements lie beside each other: vectors, deques, strings."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Iterable, Mapping, NamedTuple, Optional, Sequence

from ....sources.debug_info_types import TypeFacts
from ..claims import CONTAINER, Claim, Container, Reader, Types
from .forms import Bodies, Body, Form, OfBody, OfText, between
from .parts import Table, argument, find, known, table_of_links, words_at

if TYPE_CHECKING:
    from ....base.array_types import Numbers
    from .forms import Words

BUFFER = 512
"""Bytes of a deque's buffer, for elements that are smaller (`__deque_buf_size`)."""
INSIDE = 16
"""Bytes of the letters that a string has inside, with the 0 after them."""
MOST_LETTERS = 1 << 40
UNSIGNED = 4
"""Bytes of the number of a bit in a word."""


class Vector(OfBody):
    """vector, of all but bool."""

    def __init__(self, start: int, element: int, size: int) -> None:
        super().__init__(element, size)
        self._start = start

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        words = reader.words(address + self._start, 3)
        return None if words is None else between(reader, words, self.size)

    def many(self, numpy: ModuleType, words: Words, at: Numbers) -> Optional[Bodies]:
        start, finish, end = (words(at + numpy.uint64(self._start + 8 * each)) for each in range(3))
        if start is None or finish is None or end is None:
            return None
        used, room = (each.astype(numpy.int64) - start.astype(numpy.int64) for each in (finish, end))
        sure = (start <= finish) & (finish <= end) & (used % self.size == 0) & (room % self.size == 0)
        return Bodies(start, used // self.size, room // self.size, sure=sure, empty=(start | finish | end) == 0)


class Bits(OfBody):
    """vector<bool>: its words of bits begin a block; where its last bit is, a word and a number tell."""

    def __init__(self, places: Sequence[int], element: int, size: int) -> None:
        """`places`: of the first word, the last one, the bit in it, the end."""
        super().__init__(element, size, words=False)
        self._places = places

    def _read(self, reader: Reader, address: int) -> Optional[Sequence[int]]:
        start, finish, of_bit, end = self._places
        words, bit = words_at(reader, address, (start, finish, end)), reader.number(address + of_bit, UNSIGNED)
        return None if words is None or bit is None or bit >= self.size * 8 else (*words[:2], bit, words[2])

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        words = self._read(reader, address)
        if words is None:
            return None
        start, finish, bit, end = words
        return between(reader, (start, finish + self.size * (bit > 0), end), self.size)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        body, words = self.body(reader, address), self._read(reader, address)
        if body is None or words is None:
            return None
        return (body.used - (words[2] > 0)) * self.size * 8 + words[2]


def _vector(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    start, element = find(types, type, "_M_impl._M_start"), argument(types, facts, 0)
    if start is None or element is None:
        return None
    pointer = types.facts(start.type)
    if pointer.form == "struct":
        return _bits(types, type)
    places = known(start, *(find(types, type, f"_M_impl.{name}") for name in ("_M_finish", "_M_end_of_storage")))
    if pointer.form != "pointer" or places != [start.offset + number * pointer.size for number in range(3)]:
        return None
    return Vector(start.offset, element, types.facts(element).size)


def _bits(types: Types, type: int) -> Optional[Container]:
    names = ("_M_start._M_p", "_M_finish._M_p", "_M_finish._M_offset", "_M_end_of_storage")
    found = [find(types, type, f"_M_impl.{name}") for name in names]
    places, bits = known(*found), types.facts(found[0].type).target if found[0] is not None else None
    return Bits(places, bits, types.facts(bits).size) if places and bits is not None else None


class Iterator(NamedTuple):
    """A place in a deque, as libstdc++ has it."""

    cur: int
    first: int
    last: int
    """The end of the buffer."""
    node: int
    """Where the map leads to the buffer."""


class Buffers(NamedTuple):
    """What a deque has proved."""

    start: Iterator
    finish: Iterator
    buffers: Sequence[int]
    map: int
    room: int
    """Of the map, in buffers."""


class Deque:
    """deque: a map of buffers; the elements begin somewhere in the first one."""

    def __init__(self, places: Sequence[int], element: int, size: int, of_map: Table) -> None:
        """`places`: of the map, its size, and of the words of two iterators."""
        self._places, self._element, self._size, self._map = places, element, size, of_map
        self._each = max(1, BUFFER // size)

    def _buffers(self, reader: Reader, address: int) -> Optional[Buffers]:
        """None unless it has proved itself."""
        word, bytes = reader.word_size, self._each * self._size
        words = words_at(reader, address, self._places)
        if words is None:
            return None
        map, room, start, finish = words[0], words[1], Iterator(*words[2:6]), Iterator(*words[6:])
        if not map and not start.node:
            return Buffers(start, finish, (), map=0, room=0) if start.cur == finish.cur else None
        if not map <= start.node <= finish.node < map + room * word or not reader.holds(map, room * word):
            return None
        if any((each.node - map) % word or (each.cur - each.first) % self._size for each in (start, finish)):
            return None
        if any(each.last - each.first != bytes or not each.first <= each.cur < each.last for each in (start, finish)):
            return None
        used = (finish.node - start.node) // word + 1
        buffers = reader.words(start.node, used)
        if buffers is None or (buffers[0], buffers[-1]) != (start.first, finish.first) or len(set(buffers)) < used:
            return None
        if (used == 1 and finish.cur < start.cur) or not all(reader.holds(each, bytes) for each in buffers):
            return None
        return Buffers(start, finish, buffers, map=map, room=room)

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        known = self._buffers(reader, address)
        if known is None or not known.map:
            return None if known is None else ()
        front = known.start.node - known.map
        map = Claim(known.map, self._map.type, CONTAINER, " (map)", front=front, name=self._map.name)
        map = map._replace(elements=len(known.buffers), capacity=known.room - front // reader.word_size)
        return [map, *self._of_buffers(known)]

    def _of_buffers(self, known: Buffers) -> Iterable[Claim]:
        size, number = self._size, 0
        for buffer in known.buffers:
            begin = known.start.cur if buffer == known.start.first else buffer
            end = known.finish.cur if buffer == known.finish.first else buffer + self._each * size
            claim = Claim(buffer, self._element, CONTAINER, "", number=number, front=begin - buffer)
            count, room = (end - begin) // size, self._each - (begin - buffer) // size
            yield claim._replace(elements=count, capacity=room)
            number += count

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        known = self._buffers(reader, address)
        return None if known is None else sum(each.elements or 0 for each in self._of_buffers(known))


def _deque(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    element, table = argument(types, facts, 0), find(types, type, "_M_impl._M_map")
    inner = ["_M_map", "_M_map_size"]
    for side in ("_M_start", "_M_finish"):
        inner += [f"{side}.{name}" for name in ("_M_cur", "_M_first", "_M_last", "_M_node")]
    places = known(*(find(types, type, f"_M_impl.{name}") for name in inner))
    if element is None or table is None or not places:
        return None
    of_map = table_of_links(types, f"{facts.name} map", types.facts(table.type).size)
    return Deque(places, element, types.facts(element).size, of_map)


class Letters(NamedTuple):
    """Of a string: their type, how large each is, and what a block of them is called."""

    type: int
    size: int
    body: str


class String(OfText):
    """basic_string of the ABI of GCC 5 and later: short ones lie inside."""

    def __init__(self, places: Sequence[int], letters: Letters, word: int) -> None:
        """`places`: of the pointer, the letters inside, the length, the capacity, which lie at whole words."""
        super().__init__(letters.type, letters.size, words=False, name=letters.body)
        pointer, self.inside, length, room = places
        self._first = min(pointer, length, room)
        self._pointer, self._length, self._room = ((each - self._first) // word for each in (pointer, length, room))
        self._span, self.after = max(self._pointer, self._length, self._room) + 1, 1

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        words = reader.words(address + self._first, self._span)
        if words is None:
            return None
        start, count = words[self._pointer], words[self._length]
        if start == address + self.inside:
            most = INSIDE // self.size - 1
            return Body(0, count, most) if count <= most else None
        capacity = words[self._room]
        if not count <= capacity or not reader.holds(start, (capacity + 1) * self.size):
            return None
        ended = reader.bytes(start + count * self.size, self.size) == bytes(self.size)
        return Body(start, count, capacity) if ended else None

    def many(self, numpy: ModuleType, words: Words, at: Numbers) -> Optional[Bodies]:
        places = (self._first + 8 * each for each in (self._pointer, self._length, self._room))
        start, count, room = (words(at + numpy.uint64(each)) for each in places)
        if start is None or count is None or room is None or self.size != 1:
            return None
        empty = (start == at + numpy.uint64(self.inside)) & (count < INSIDE)
        # a bound below which sums of them do not overflow
        sure = ~empty & (count <= room) & (room < MOST_LETTERS)
        last = numpy.where(sure, start + count, start[sure][0] if sure.any() else 0)
        ended = words(last & ~numpy.uint64(7))
        if ended is None:
            return None
        sure &= ended >> ((last & numpy.uint64(7)) << numpy.uint64(3)) & numpy.uint64(255) == 0
        return Bodies(start, count.astype(numpy.int64), room.astype(numpy.int64), sure=sure, empty=empty)


class SharedString(OfText):
    """basic_string of the old ABI: a pointer to its letters, before which lie length, capacity and how many more
    share them. The one that all empty strings share is no block."""

    def __init__(self, pointer: int, letters: Letters, word: int) -> None:
        super().__init__(letters.type, letters.size, words=False, name=letters.body)
        self._pointer, self.front, self.after = pointer, 3 * word, 1

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        letters = reader.word(address + self._pointer)
        head = reader.words(letters - self.front, 2) if letters else None
        if letters is None or head is None:
            return None
        start, (count, room) = letters - self.front, head
        if not count and not room and reader.usable(start) is None:
            return Body(0, 0, 0)
        if not count <= room or not reader.holds(start, self.front + (room + 1) * self.size):
            return None
        ended = reader.bytes(letters + count * self.size, self.size) == bytes(self.size)
        return Body(start, count, room) if ended else None


def _string(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    pointer, letter = find(types, type, "_M_dataplus._M_p"), argument(types, facts, 0)
    if pointer is None or letter is None:
        return None
    word, letters = types.facts(pointer.type).size, Letters(letter, types.facts(letter).size, f"{facts.name} body")
    others = ("_M_local_buf", "_M_string_length", "_M_allocated_capacity")
    places = known(pointer, *(find(types, type, name) for name in others))
    if places:
        return String(places, letters, word)
    return SharedString(pointer.offset, letters, word) if facts.size == word else None


class Values(OfBody):
    """valarray: how many, and where."""

    def __init__(self, places: Sequence[int], element: int, size: int) -> None:
        super().__init__(element, size)
        self._places = places

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        words = words_at(reader, address, self._places)
        if words is None or (words[0] and not reader.holds(words[1], words[0] * self.size)):
            return None
        count, data = words
        return Body(data if count else 0, count, count)


def _valarray(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    places, element = known(find(types, type, "_M_size"), find(types, type, "_M_data")), argument(types, facts, 0)
    return Values(places, element, types.facts(element).size) if places and element is not None else None


BODIES: Mapping[str, Form] = {"vector": _vector, "deque": _deque, "basic_string": _string, "valarray": _valarray}
