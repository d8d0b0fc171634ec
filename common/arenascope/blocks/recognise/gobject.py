"""Instances of GObject's types, by their classes.

An instance has the address of its class, which begins with its type: the address of a TypeNode, but for fundamental
types. That leads back: among its words are its own address, the first of all that it is derived from, and its data,
which has the class and says how large an instance is. So nothing passes for an instance by chance. What a type keeps to
itself lies in front of its instances. A type's name is a GQuark, a number in libglib's own array.

GSlice, up to GLib 2.74, has arenas of its own unless G_SLICE=always-malloc says otherwise: since 2.76 it is malloc's.
"""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple, Optional

from ...base.heap_model import Kind
from .module_memory import LoadedModules
from .selection import USABLE, USER, Condition, Found, Selection, Value, any_of, value

TYPES, QUARKS = "libgobject-2.0.so", "libglib-2.0.so"
IN_FRONT = 32
"""Words in which an instance's class is looked for."""
NODE_WORDS, DATA_WORDS = 13, 11
BITS, NODE_DATA, NAME = 2, 4, 5
"""Words of a TypeNode: n_children with n_supers and more after it, TypeData, the name's number."""
SUPERS = (8, 9, 10)
"""Where its list of what it is derived from has begun so far."""
CLASS = (7, 6, 8)
"""The class in InstanceData; the sizes of an instance, and of what lies in front, come next."""
CLASS_INIT = 4
FUNDAMENTAL = 255 << 2
OBJECT = 20 << 2
MOST_REFERENCES = 1 << 24
OWN_NAME, FIRST_QUARKS = b"GObject", 1024
"""It is among so many of the first."""
MOST_QUARKS = 1 << 20
_NAME = re.compile(rb"[A-Za-z_][\w+-]{2,199}")


class _Class(NamedTuple):
    """A class, and where its instances have its address."""

    kind: Kind
    front: int
    """In words."""
    bytes: int
    """Of an instance, with what lies in front."""
    counted: bool
    """A count of references comes next."""


class GObjects:
    """The types of one process."""

    def __init__(self, ground: LoadedModules, low: int, high: int) -> None:
        self._ground = ground
        self._low, self._high = low, high
        self._little = ground.memory.byte_order == "little"
        self._quarks: Optional[int] = None
        if ground.memory.pointer_size == 8 and any(each.name.startswith(TYPES) for each in ground.modules.all):
            self._quarks = self._find_quarks()

    @property
    def runs(self) -> bool:
        return self._quarks is not None

    def kinds(self, blocks: Selection) -> Found:
        """An instance's class is a block itself."""
        classes = {}
        for address in blocks.column(USER, blocks.where(self._is_class(USER))):
            class_ = self._read(address)
            if class_ is not None:
                classes[address] = class_
        for front in sorted({each.front for each in classes.values() if each.front < IN_FRONT}):
            alike = {address: each for address, each in classes.items() if each.front == front}
            have_one = blocks.where((8 * front < USABLE) & USER.word(front).is_in(alike))
            for address, some in blocks.grouped(USER.word(front), have_one):
                class_ = alike[address]
                is_whole = value(class_.bytes).fits()
                references = (USER + (8 * front + 8)).number(4)
                is_counted = references.between(1, MOST_REFERENCES) if class_.counted else is_whole
                yield blocks.where(is_whole & is_counted, some), class_.kind

    def _is_class(self, class_: Value) -> Condition:
        """By its type, which has its own address among its words, and leads to the class by its data."""
        node = class_.word()
        data = node.word(NODE_DATA)
        is_type = any_of(node.word(place) == node for place in SUPERS)
        leads_back = any_of(data.word(place) == class_ for place in CLASS)
        return node.between(self._low, self._high) & node.is_multiple(8) & is_type & leads_back

    def _half(self, word: int, number: int) -> int:
        """The first or second four bytes of a word."""
        return word >> 32 * (number if self._little else 1 - number) & 0xFFFFFFFF

    def _short(self, word: int, number: int) -> int:
        return word >> 16 * (number if self._little else 3 - number) & 0xFFFF

    def _read(self, pointer: int) -> Optional[_Class]:
        """The class there, if it is one."""
        node = self._ground.word(pointer)
        if not node or not self._low <= node < self._high or node % 8:
            return None
        words = self._ground.words(node, NODE_WORDS)
        start = next((place for place in SUPERS if words and words[place] == node), None)
        if words is None or start is None:
            return None
        bits = self._half(words[BITS], 1)
        above = self._ground.word(node + 8 * (start + (bits & 0xFF if self._little else bits >> 24)))
        if not above or above > FUNDAMENTAL or above % 4:
            return None
        data = self._ground.words(words[NODE_DATA], DATA_WORDS)
        place = next((place for place in CLASS if data and data[place] == pointer), None)
        name = self._name(self._half(words[NAME], 0))
        if data is None or place is None or name is None:
            return None
        size, front = self._short(data[place + 1], 0), self._short(data[place + 1], 1)
        if size < 8 or front % 8:
            return None
        module = self._ground.module_name(data[CLASS_INIT])
        return _Class(Kind(name, "gobject", module, how="its GTypeClass"), front // 8, front + size, above == OBJECT)

    def _name(self, number: int) -> Optional[str]:
        if not self._quarks or not 0 < number < MOST_QUARKS:
            return None
        address = self._ground.word(self._quarks + 8 * number)
        text = self._ground.string(address, 256) if address else None
        return text.decode() if text and _NAME.fullmatch(text) else None

    # names

    def _find_quarks(self) -> Optional[int]:
        """The array of all quarks' strings: known by GObject's name, as no symbol tells where it is."""
        for word in self._variables():
            if word % 8 or not word:
                continue
            first = self._ground.words(word, 4)
            if first is None or first[0] or not all(self._ground.string(each, 256) for each in first[1:]):
                continue
            if any(text == OWN_NAME for text in self._strings(word)):
                return word
        return None

    def _variables(self) -> Iterator[int]:
        """What libglib's variables hold."""
        following = {region.start: region for region in self._ground.regions if not region.path}
        for module in self._ground.modules.all:
            if module.name.startswith(QUARKS):
                for region in [*module.regions, *filter(None, [following.get(module.regions[-1].end)])]:
                    if region.writable and region.present:
                        yield from self._ground.words(region.start, min(region.size, 1 << 20) // 8) or ()

    def _strings(self, array: int) -> Iterator[bytes]:
        for number in range(1, FIRST_QUARKS):
            address = self._ground.word(array + 8 * number)
            text = self._ground.string(address, 256) if address else None
            if text is None:
                return
            yield text
