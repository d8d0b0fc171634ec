"""CPython's objects (3.9 to 3.14) by their types.

After a count of references an object has its type, which is an object itself: its type, or that one's, is `type`. What
the garbage collector knows has two words in front, and since 3.11 perhaps two more. Objects of up to 512 bytes lie in
arenas that pymalloc maps by itself: malloc has the larger ones, and what small objects keep apart: a list's items, the
table of a dict's keys, which says how large it is.
"""

from __future__ import annotations

import re
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...base.heap_model import POINTED, Kind
from ...sources.elf.modules import Module
from .module_memory import LARGEST_PAGE, LoadedModules
from .selection import (
    BASE,
    LOW,
    PLACE,
    TRUE,
    USABLE,
    USER,
    Condition,
    Found,
    Numbers,
    Selection,
    Value,
    any_of,
    either,
    first,
    holds_in_each,
    value,
)

TYPE_TYPE, STR_TYPE = "PyType_Type", "PyUnicode_Type"
IN_FRONT = (0, 2, 4)
"""Words before the object itself."""
PLAIN_STR = 5
"""Words of PyASCIIObject, since 3.12; it had six."""
MOST_REFERENCES = 1 << 24
IMMORTAL = (0x3FFFFFFF, 0xFFFFFFFF)
"""Since 3.12: from the first of these on, in 32 bits."""
DEEPEST = 3
LARGEST_OBJECT = 1 << 20
_NO_NAMES = [each for each in range(256) if not re.match(rb"[A-Za-z_<]", bytes([each]))]
_NAME = re.compile(rb"[A-Za-z_<][\w.<>\[\] -]{0,199}")
FARTHEST = 16
"""Words of an object in which a pointer names what it leads to."""
DICT_KEYS = Kind("dict keys", "python", how="its own counts")
SHARED_KEYS = DICT_KEYS._replace(name="shared dict keys")
"""A class's, for all its instances; since 3.11 each has room for so many names, and none is larger."""
MOST_SHARED = 30
SPLIT = 2
"""dk_kind of these."""
BEFORE_3_11, FROM_3_11 = 40, 32
"""Bytes of struct _dictkeysobject in front of its table."""
WHOLE, BY_STR = 24, 16
"""Bytes of an entry: with the key's hash, or without, where all keys are strings."""
TO_KEYS = 4
"""The word of a dict that leads to its table of keys."""
TYPE_FLAGS, TYPE_DICT_OFFSET = 21, 36
"""Words of a type: what it is like, and where its objects have their dict, in bytes."""
MANAGED, IN_FRONT_OF_ALL = 1 << 4, -3
"""Since 3.11: a type whose objects have their dict in this word, in front of themselves."""
FARTHEST_DICT = 40
"""A type's own lies farthest from its start."""
POOLS = (16 << 10, 4 << 10)
"""Bytes of a pool of pymalloc's, which begins at a multiple of that: since 3.10, and before."""
POOL_WORDS, POOL_GRAIN, MOST_POOLED = 6, 16, 512
"""Of its header; bytes by which its blocks can differ, and of the largest."""


class PythonType(NamedTuple):
    """A type, and how large its objects are at least."""

    kind: Kind
    bytes: int


class PythonBody(NamedTuple):
    """What an object of a type keeps apart."""

    place: int
    """Where its pointer is, in words."""
    name: str
    holds: Callable[[Sequence[Value], int], Condition]
    """By the object's own words, each of so many bytes."""


def _fills(count: Value, unit: int) -> Condition:
    return (count > 0) & (count * unit).fits(page=LARGEST_PAGE)


OWN_WORDS = 7
DEQUE_BLOCK = "deque block"
DEQUE_NEXT = 65
"""The word of such a block that leads to the next."""
_SET = (PythonBody(5, "set table", lambda own, word: _fills((own[4] + 1) * 2, word)),)
_END = PythonBody(3, DEQUE_BLOCK, lambda _, word: _fills(value(DEQUE_NEXT + 1), word))
FORMS: dict[str, tuple[PythonBody, ...]] = {
    "list": (PythonBody(3, "list items", lambda own, word: (own[2] <= own[4]) & _fills(own[4], word)),),
    "set": _SET,
    "frozenset": _SET,
    "bytearray": (PythonBody(4, "bytearray bytes", lambda own, _: (own[2] <= own[3]) & _fills(own[3], 1)),),
    "collections.deque": (_END, _END._replace(place=4)),
    "numpy.ndarray": (PythonBody(2, "numpy.ndarray data", lambda own, _: own[6] == 0),),
}


class Python:
    """The types of one interpreter."""

    apart = True
    past = (0,)

    def __init__(self, ground: LoadedModules, low: int, high: int) -> None:
        self._ground = ground
        self._word = ground.memory.pointer_size
        self._low, self._high = low, high
        _, exported = cpython(ground, STR_TYPE) or (None, dict[str, int]())
        self._own, self._str = exported.get(TYPE_TYPE), exported.get(STR_TYPE, 0)
        self._offset = 1
        """Of an object's type, in words; without the global lock there is more in front."""
        self._types: dict[int, Optional[PythonType]] = {}
        self.holders = FORMS
        words = ground.words(self._own, 4) if self._own else None
        if words is None or self._own not in (words[1], words[3]):
            self._own = None
        elif words[1] != self._own:
            self._offset = 3

    @property
    def runs(self) -> bool:
        return self._own is not None

    def kinds(self, blocks: Selection) -> Found:
        type_at = value(0)
        for front in reversed(IN_FRONT):
            start = USER + front * self._word
            is_one = self._is_object(start) & (start + self._size_of(start) <= USER + USABLE)
            if front:
                is_one = self._at(start, -2).is_multiple(self._word) & is_one
            type_at = either(is_one, self._at(start, self._offset), type_at)
        for address, some in blocks.grouped(type_at):
            type_ = self._type(address)
            if type_ is not None:
                yield some, type_.kind
        if self._offset == 1:
            has_counts = (6 * self._word <= USABLE) & self._at(USER, 0).between(1, MOST_REFERENCES)
            if self._has_pools:
                yield blocks.where(has_counts & any_of(map(_has_shared_keys, (5, 6)))), SHARED_KEYS
            yield blocks.where(has_counts & (self._has_keys() | self._has_older_keys())), DICT_KEYS

    def _at(self, start: Value, place: int) -> Value:
        return (start + place * self._word).number(0)

    def _size_of(self, start: Value) -> Value:
        """What an object has at least by its type. A str of ASCII has less than the struct of all of them."""
        pointer = self._at(start, self._offset)
        return either(pointer == self._str, value(PLAIN_STR * self._word), self._at(pointer, self._offset + 3))

    def _by_type(
        self, some: Selection, start: Value, condition: Condition, among: Optional[Numbers] = None
    ) -> Iterator[tuple[PythonType, Numbers]]:
        """Those for which it holds, by the types of the objects that begin at `start`."""
        for address, alike in some.grouped(self._at(start, self._offset), some.where(condition, among)):
            type_ = self._type(address)
            if type_ is not None:
                yield type_, alike

    @property
    def _has_pools(self) -> bool:
        return self._word == 8 and self._ground.memory.byte_order == "little"

    def _is_object(self, start: Value) -> Condition:
        """Types are static, or large blocks themselves."""
        pointer = self._at(start, self._offset)
        is_pointer = pointer.is_multiple(2 * self._word) & (
            pointer.between(self._low, self._high) | pointer.lies_in(self._ground.page_spans)
        )
        # its type is `type`, or a metaclass
        metas = [self._at(pointer, self._offset)]
        for _ in range(DEEPEST):
            metas.append(self._at(metas[-1], self._offset))
        is_type = any_of(each == (self._own or 0) for each in metas)
        # a core may lack the name
        is_named = ~self._at(pointer, self._offset + 2).number(1).is_in(_NO_NAMES)
        is_small = self._at(pointer, self._offset + 3) <= LARGEST_OBJECT
        return self._counts(self._at(start, 0)) & is_pointer & is_small & is_type & is_named

    def _counts(self, word: Value) -> Condition:
        """Whether that can be a count of references: a pointer cannot."""
        if self._offset != 1:
            return TRUE  # a thread's number
        low = word & LOW
        is_count = low.between(1, MOST_REFERENCES) & ~low.between(self._low, self._high)
        is_short = word >> 32 & 0xFFFF == 0 if self._word == 8 else TRUE
        return is_short & (is_count | low.between(IMMORTAL[0], IMMORTAL[1] + 1))

    def _has_keys(self) -> Condition:
        """Since 3.11 the counts of struct _dictkeysobject say together how large it is: the logarithms of its size and
        its index's, what its keys are, for how many more there is room, and how many there are."""
        size, room, used = (self._at(USER, place) for place in (1, 2, 3))
        log, index, kind = size & 0xFF, size >> 8 & 0xFF, size >> 16 & 0xFF
        is_size = log.between(3, 40) & (kind < 3) & (index - log <= 3)
        entries = room + used
        entry = either(kind > 0, value(BY_STR), value(WHOLE)) * self._word >> 3
        whole = (value(1) << index) + entries * entry + (FROM_3_11 if self._word == 8 else 20)
        is_little = TRUE if self._ground.memory.byte_order == "little" else ~TRUE
        # two thirds of its size
        return is_little & is_size & ((value(2) << log) - entries * 3 < 3) & whole.fits(page=LARGEST_PAGE)

    def _has_older_keys(self) -> Condition:
        size, lookup, room, used = (self._at(USER, place) for place in (1, 2, 3, 4))
        is_size = (size >= 8) & (size & size - 1 == 0) & lookup.lies_in(self._ground.page_spans)
        entries = room + used
        wide = either(size <= 0xFFFF, either(size <= 0xFF, value(1), value(2)), either(size <= LOW, value(4), value(8)))
        whole = size * wide + ((entries * WHOLE + BEFORE_3_11) * self._word >> 3)
        return is_size & (size * 2 - entries * 3 < 3) & whole.fits(page=LARGEST_PAGE)

    def kept(self, pointers: Selection) -> Found:
        """What lies in an object, by the nearest type in front."""
        if self._offset != 1:
            return
        is_object = self._is_object(USER - (PLACE + 2) * self._word)
        nearest = (
            first(is_object & (self._at(USER - (PLACE + 2) * self._word, 1) != (self._own or 0)), FARTHEST - 2) + 2
        )
        in_objects = pointers.where(nearest > 0)
        for place, some in pointers.grouped(nearest, in_objects):
            start = USER - place * self._word
            for type_, alike in self._by_type(pointers, start, TRUE, some):
                kind = type_.kind
                form = next((each for each in FORMS.get(kind.name, ()) if each.place == place), None)
                if form is not None:
                    is_own = form.holds([self._at(start, each) for each in range(OWN_WORDS)], self._word)
                    how = "the words of the object whose it is"
                    yield pointers.where(is_own, alike), Kind(form.name, "python", kind.module, how=how)
                if (place + 1) * self._word <= type_.bytes:
                    owner = f"{kind.name}+{place * self._word}"
                    yield alike, Kind(f"{owner} body", "holder", None, False, how=POINTED, owner=owner)

    # whose a dict's table is

    def dicts(self, pointers: Selection) -> Iterator[Numbers]:
        """The words of dicts that lead to their tables of keys."""
        start = self._object_around()
        for type_, some in self._by_type(pointers, start, USER - start == TO_KEYS * 8) if self._has_dicts else ():
            if type_.kind.name == "dict":
                yield some

    def keys(self, pointers: Selection) -> Found:
        """What a table of keys is whose dict one leads to: an object's, if its type has that word for it."""
        start = self._object_around()
        type_at = self._at(start, 1)
        flags, offset = self._at(type_at, TYPE_FLAGS), self._at(type_at, TYPE_DICT_OFFSET)
        is_managed = (flags & MANAGED > 0) & (offset >> 63 == 1)
        is_fixed = offset.between(1, FARTHEST_DICT * 8) & offset.is_multiple(8)
        place = either(is_managed, value(IN_FRONT_OF_ALL * 8), either(is_fixed, offset, value(1)))
        for type_, some in self._by_type(pointers, start, (start > 0) & (USER - start == place)):
            how = "the object whose __dict__ it is"
            yield some, DICT_KEYS._replace(module=type_.kind.module, how=how, owner=type_.kind.name)

    @property
    def _has_dicts(self) -> bool:
        return self._has_pools and self._offset == 1

    def _object_around(self) -> Value:
        """Where the object begins that a word lies in, which is a block of malloc's or pymalloc's; 0: in none. What is
        in front of one cannot be a count of references."""
        block = either(BASE > 0, BASE, value(0))
        for pool in reversed(POOLS):
            head = USER & ~(pool - 1)
            blocks = head + POOL_WORDS * 8
            # struct pool_header: szidx, and where the last block begins
            size = ((head.word(4) >> 32) + 1) * POOL_GRAIN
            is_pool = (blocks <= USER) & (size <= MOST_POOLED) & (size + (head.word(5) >> 32) == pool)
            block = either((BASE == 0) & is_pool, USER - (USER - blocks) % size, block)
        start = value(0)
        for front in reversed(IN_FRONT):
            start = either(self._is_object(block + front * 8), block + front * 8, start)
        return either(block > 0, start, value(0))

    def _type(self, address: int) -> Optional[PythonType]:
        if address not in self._types:
            self._types[address] = self._read(address)
        return self._types[address]

    def _read(self, pointer: int) -> Optional[PythonType]:
        words = self._ground.words(pointer, self._offset + 4)
        name = self._ground.string(words[self._offset + 2], 256) if words is not None else None
        if words is None or name is None or not _NAME.fullmatch(name):
            return None
        # a str of ASCII has less than the struct of all of them
        size = PLAIN_STR * self._word if name == b"str" else words[self._offset + 3]
        return PythonType(Kind(name.decode(), "python", self._ground.module_name(pointer), how="ob_type"), size)


def _has_shared_keys(log: int) -> Condition:
    """As other keys since 3.11, but its room shrinks with each new object; its index tells what is taken."""
    room, taken = USER.word(2), USER.word(3)
    entries = (2 << log) // 3
    place = (USER + PLACE + FROM_3_11).number(1)
    is_size = USER.word(1) & 0xFFFFFF == log | log << 8 | SPLIT << 16
    has_room = (room <= MOST_SHARED) & (taken <= MOST_SHARED) & (room + taken <= min(entries, MOST_SHARED))
    is_index = holds_in_each((place < taken) | (place == 0xFF), 8)
    return is_size & has_room & value(FROM_3_11 + (1 << log) + entries * BY_STR).fits(page=LARGEST_PAGE) & is_index


def cpython(ground: LoadedModules, *names: str) -> Optional[tuple[Module, Mapping[str, int]]]:
    """The module that has CPython, and where in it TYPE_TYPE is, and these as far as it exports them."""
    for module in ground.modules.all:
        if "python" in module.name or module is ground.modules.program:
            exported = ground.modules.exported(module, (TYPE_TYPE, *names))
            if TYPE_TYPE in exported:
                return module, exported
    return None
