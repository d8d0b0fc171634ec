"""CPython's objects (3.9 to 3.14) by their types.

Behind a count of references an object has its type, which is an object itself: its type, or that one's, is `type`. What
the garbage collector knows has two words in front, and since 3.11 perhaps two more. Objects of up to 512 bytes lie in
arenas that pymalloc maps by itself: malloc has the larger ones.
"""

from __future__ import annotations

import re
from typing import Optional, Sequence

from .ground import PAGE_SHIFT, Ground
from .kinds import Kind

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


class Python:
    """The types of one interpreter."""

    def __init__(self, ground: Ground, low: int, high: int) -> None:
        self._ground = ground
        self._word = ground.memory.pointer_size
        self._low, self._high = low, high
        self._own: Optional[int] = _type_type(ground)
        self._offset = 1
        """Of an object's type, in words; without the global lock there is more in front."""
        self._kinds: dict[int, Optional[Kind]] = {}
        self._sizes: dict[int, int] = {}
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
        return None

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


def _type_type(ground: Ground) -> Optional[int]:
    for module in ground.modules.all:
        if "python" in module.name or module is ground.modules.program:
            exported = ground.modules.exported(module, (TYPE_TYPE,))
            if exported:
                return exported[TYPE_TYPE]
    return None
