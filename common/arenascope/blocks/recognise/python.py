"""CPython's objects (3.9 to 3.14) by their types.

After a count of references an object has its type, which is an object itself: its type, or that one's, is `type`. What
the garbage collector knows has two words in front, and since 3.11 perhaps two more. Objects of up to 512 bytes lie in
arenas that pymalloc maps by itself: malloc has the larger ones, and what small objects keep apart: a list's items, the
table of a dict's keys, which says how large it is.
"""

from __future__ import annotations

import re
from typing import Callable, NamedTuple, Optional, Sequence

from ...base.model import POINTED, Kind
from .module_memory import LARGEST_PAGE, PAGE_SHIFT, LoadedModules, fits

TYPE_TYPE = "PyType_Type"
IN_FRONT = (0, 2, 4)
"""Words before the object itself."""
PLAIN_STR = 5
"""Words of PyASCIIObject, since 3.12; it had six."""
MOST_REFERENCES = 1 << 24
IMMORTAL = (0x3FFFFFFF, 0xFFFFFFFF)
"""Since 3.12: from the first of these on, in 32 bits."""
DEEPEST = 3
_NAME = re.compile(rb"[A-Za-z_<][\w.<>\[\] -]{0,199}")
MOST_REFUSED = 1 << 16
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


class PythonBody(NamedTuple):
    """What an object of a type keeps apart: where its pointer is, in words, and how large it is, in words or bytes."""

    place: int
    name: str
    words: Callable[[Sequence[int]], Optional[int]]
    """How many words or bytes by the object's own; None where it does not say."""
    unit: Optional[int] = None
    """Bytes of each; None for a word's."""


DEQUE_BLOCK = "deque block"
DEQUE_NEXT = 65
"""The word of such a block that leads to the next."""
_SET = (PythonBody(5, "set table", lambda own: 2 * (own[4] + 1)),)
_END = PythonBody(3, DEQUE_BLOCK, lambda own: DEQUE_NEXT + 1)
FORMS: dict[str, tuple[PythonBody, ...]] = {
    "list": (PythonBody(3, "list items", lambda own: own[4] if own[2] <= own[4] else 0),),
    "set": _SET,
    "frozenset": _SET,
    "bytearray": (PythonBody(4, "bytearray bytes", lambda own: own[3] if own[2] <= own[3] else 0, 1),),
    "collections.deque": (_END, _END._replace(place=4)),
    "numpy.ndarray": (PythonBody(2, "numpy.ndarray data", lambda own: None if not own[6] else 0),),
}
OWN_WORDS = 7


class Python:
    """The types of one interpreter."""

    holders = FORMS
    apart = True
    past = (0,)

    def __init__(self, ground: LoadedModules, low: int, high: int) -> None:
        self._ground = ground
        self._word = ground.memory.pointer_size
        self._low, self._high = low, high
        self._own: Optional[int] = _type_type(ground)
        self._offset = 1
        """Of an object's type, in words; without the global lock there is more in front."""
        self._kinds: dict[int, Optional[Kind]] = {}
        self._sizes: dict[int, int] = {}
        self._dict_places: dict[int, Optional[int]] = {}
        words = ground.words(self._own, 4) if self._own else None
        if words is None or self._own not in (words[1], words[3]):
            self._own = None
        elif words[1] != self._own:
            self._offset = 3

    @property
    def runs(self) -> bool:
        return self._own is not None

    def kind_of(self, words: Sequence[int], at: int, count: int, usable: int) -> Optional[Kind]:
        """Of a block of so many bytes, of which `count` words are known, from `at` on."""
        for front in IN_FRONT:
            place = front + self._offset
            if place >= count:
                break
            pointer = words[at + place]
            # types are static, or large blocks themselves
            if pointer % (2 * self._word) or not (
                self._low <= pointer < self._high or pointer >> PAGE_SHIFT in self._ground.pages
            ):
                continue
            kind = self._kinds[pointer] if pointer in self._kinds else self._learn(pointer)
            if (
                kind is not None
                and self._counts(words[at + front])
                and not (front and words[at + front - 2] % self._word)
                and front * self._word + self._sizes[pointer] <= usable
            ):
                return kind
        if self._offset != 1 or count <= 5:
            return None
        if self._is_shared_keys(words, at, usable):
            return SHARED_KEYS
        return DICT_KEYS if self._is_keys(words, at, usable) else None

    def _is_shared_keys(self, words: Sequence[int], at: int, usable: int) -> bool:
        """As below since 3.11, but its room shrinks with each new object; its index tells what is taken."""
        references, size, room, taken, index = words[at : at + 5]
        log = size & 0xFF
        if size & 0xFFFFFF != log | log << 8 | SPLIT << 16 or log not in (5, 6) or self._word != 8:
            return False
        if self._ground.memory.byte_order != "little" or not 0 < references < MOST_REFERENCES:
            return False
        places = index.to_bytes(8, "little")
        entries = (2 << log) // 3
        return (
            room + taken <= min(entries, MOST_SHARED)
            and all(place < taken or place == 0xFF for place in places)
            and self._fits(entries * BY_STR, usable - FROM_3_11 - (1 << log), usable)
        )

    def _is_keys(self, words: Sequence[int], at: int, usable: int) -> bool:
        """The counts of struct _dictkeysobject say together how large it is."""
        references, size, third, fourth, fifth = words[at : at + 5]
        if not 0 < references < MOST_REFERENCES:
            return False
        word = self._word
        # since 3.11: the logarithms of its size and its index's, what its keys are
        log, index, kind = size & 0xFF, size >> 8 & 0xFF, size >> 16 & 0xFF
        if self._ground.memory.byte_order == "little" and 3 <= log < 40 and kind < 3 and log <= index <= log + 3:
            entries = (2 << log) // 3
            if third + fourth == entries:
                rest = usable - (FROM_3_11 if word == 8 else 20) - (1 << index)
                return self._fits(entries * (BY_STR if kind else WHOLE) * word // 8, rest, usable)
        if size < 8 or size & size - 1 or third >> PAGE_SHIFT not in self._ground.pages:
            return False
        entries, wide = size * 2 // 3, 1 if size <= 0xFF else 2 if size <= 0xFFFF else 4 if size <= 0xFFFFFFFF else 8
        if fourth + fifth != entries:
            return False
        return self._fits(entries * WHOLE * word // 8, usable - BEFORE_3_11 * word // 8 - size * wide, usable)

    def _fits(self, size: int, room: int, usable: int) -> bool:
        """`room`: what is usable of it, without a header."""
        return fits(usable - room + size, usable, LARGEST_PAGE)

    def kept_by(self, words: Sequence[int], at: int, usable: int) -> Optional[Kind]:
        """What a block of so many bytes is that words[at] points to, which lies in an object."""
        if self._offset != 1:
            return None
        for place in range(2, min(FARTHEST, at + 1)):
            start = at - place
            kind = self._type_at(words[start + 1])
            if kind is None or not self._counts(words[start]):
                continue
            form = next((each for each in FORMS.get(kind.name, ()) if each.place == place), None)
            if form is not None and start + OWN_WORDS <= len(words):
                count = form.words(words[start : start + OWN_WORDS])
                size = None if count is None else count * (form.unit or self._word)
                if size is None or (size and self._fits(size, usable, usable)):
                    return Kind(form.name, "python", kind.module, how="the words of the object whose it is")
            if (place + 1) * self._word <= self._sizes[words[start + 1]]:
                owner = f"{kind.name}+{place * self._word}"
                return Kind(f"{owner} body", "holder", None, False, how=POINTED, owner=owner)
            return None
        return None

    def block_of(self, words: Sequence[int], address: int, at: int) -> Optional[int]:
        """Where the block of pymalloc's begins that words[at] lies in, of memory from `address` on; None: in none."""
        if self._word != 8 or self._ground.memory.byte_order != "little" or self._offset != 1:
            return None
        for pool in POOLS:
            head = ((address + 8 * at) // pool * pool - address) // 8
            first = head + POOL_WORDS
            if head >= 0 and at >= first:
                # struct pool_header: szidx, and where the last block begins
                size = ((words[head + 4] >> 32) + 1) * POOL_GRAIN
                if size <= MOST_POOLED and size + (words[head + 5] >> 32) == pool:
                    return at - (at - first) % (size // 8)
        return None

    def is_dict_of(self, words: Sequence[int], block: int, at: int) -> bool:
        """Whether words[at], of a block that begins at words[block], is a dict's word for its table of keys."""
        start = self._object_in(words, block)
        kind = self._kinds[words[start + 1]] if start is not None and start == at - TO_KEYS else None
        return kind is not None and kind.name == "dict"

    def keys_of(self, words: Sequence[int], block: int, at: int) -> Optional[Kind]:
        """What a table of keys is whose dict words[at] points to: an object's, if its type has that word for it."""
        start = self._object_in(words, block)
        if start is None or self._dict_place(words[start + 1]) != at - start:
            return None
        kind = self._kinds[words[start + 1]]
        return kind and DICT_KEYS._replace(module=kind.module, how="the object whose __dict__ it is", owner=kind.name)

    def _object_in(self, words: Sequence[int], block: int) -> Optional[int]:
        """Where the object begins that a block has: what is in front of one cannot be a count of references."""
        for front in IN_FRONT:
            start = block + front
            if start + 1 >= len(words):
                break
            pointer = words[start + 1]
            known = (pointer == self._own and pointer in self._kinds) or self._type_at(pointer) is not None
            if known and self._counts(words[start]):
                return start
        return None

    def _dict_place(self, pointer: int) -> Optional[int]:
        """In words, where objects of a type have their dict; None: nowhere, or that depends on their size."""
        if pointer not in self._dict_places:
            words = self._ground.words(pointer, TYPE_DICT_OFFSET + 1)
            place = None
            if words is not None:
                offset = words[TYPE_DICT_OFFSET]
                if words[TYPE_FLAGS] & MANAGED and offset >> 8 * self._word - 1:
                    place = IN_FRONT_OF_ALL
                elif offset % self._word == 0 and offset < FARTHEST_DICT * self._word:
                    place = offset // self._word or None
            self._dict_places[pointer] = place
        return self._dict_places[pointer]

    def _type_at(self, pointer: int) -> Optional[Kind]:
        if pointer % (2 * self._word) or pointer == self._own:
            return None
        if pointer not in self._kinds and not (
            self._low <= pointer < self._high or pointer >> PAGE_SHIFT in self._ground.pages
        ):
            return None
        return self._kinds[pointer] if pointer in self._kinds else self._learn(pointer)

    def _counts(self, word: int) -> bool:
        """Whether that can be a count of references: a pointer cannot."""
        if self._offset != 1:
            return True  # a thread's number
        low = word & 0xFFFFFFFF
        if self._word == 8 and word >> 32 & 0xFFFF:
            return False
        return (0 < low < MOST_REFERENCES and not self._low <= low < self._high) or IMMORTAL[0] <= low <= IMMORTAL[1]

    def _learn(self, pointer: int) -> Optional[Kind]:
        if len(self._kinds) > MOST_REFUSED:
            self._kinds = {each: kind for each, kind in self._kinds.items() if kind is not None}
        self._kinds[pointer] = kind = self._read(pointer)
        return kind

    def _read(self, pointer: int) -> Optional[Kind]:
        words = self._ground.words(pointer, self._offset + 4)
        if words is None or not self._is_type(words[self._offset], 0):
            return None
        name = self._ground.string(words[self._offset + 2], 256)
        if name is None or not _NAME.fullmatch(name) or words[self._offset + 3] > 1 << 20:
            return None
        # a str of ASCII has less than the struct of all of them
        self._sizes[pointer] = PLAIN_STR * self._word if name == b"str" else words[self._offset + 3]
        return Kind(name.decode(), "python", self._ground.module_name(pointer), how="ob_type")

    def _is_type(self, pointer: int, depth: int) -> bool:
        """Whether that is `type`, or a metaclass."""
        if pointer == self._own:
            return True
        if not pointer or pointer % self._word or depth >= DEEPEST:
            return False
        above = self._ground.word(pointer + self._offset * self._word)
        return above is not None and above != pointer and self._is_type(above, depth + 1)


def _type_type(ground: LoadedModules) -> Optional[int]:
    for module in ground.modules.all:
        if "python" in module.name or module is ground.modules.program:
            exported = ground.modules.exported(module, (TYPE_TYPE,))
            if exported:
                return exported[TYPE_TYPE]
    return None
