"""memcached's slab pages, by the items in them: each has its class, at equal steps to the page's end.

struct _stritem and item_chunk have it in the same place, after three pointers, times and counts; so have free ones.
How far apart items are is not known beforehand: the least step at which all have one class is theirs.
"""

from __future__ import annotations

from array import array
from itertools import compress
from typing import Optional

from ...base.heap_model import Kind
from .module_memory import LoadedModules
from .selection import USABLE, USER, Found, Selection, all_of

CLASS, CLASSES = 40, 63
"""Where in an item its class is, and the bits of it; the others say which queue it is in."""
FLAGS, MOST_FLAGS = 38, 1 << 12
SMALLEST, STEP = 48, 8
LEAST_PAGE, PAGE = 512 << 10, 1 << 20
FEWEST = 2
FEW = 32
OF_CLASS = bytes(byte & CLASSES for byte in range(256))


class Memcached:
    """The slabs of one process."""

    def __init__(self, ground: LoadedModules) -> None:
        self._memory = ground.memory
        self._steps: dict[int, int] = {}
        """How far apart the items of each class are."""
        program = ground.modules.program
        self.runs = program is not None and program.name == "memcached"

    def kinds(self, blocks: Selection) -> Found:
        number = (USER + CLASS).number(1) & CLASSES
        may_be = (USABLE >= LEAST_PAGE) & all_of((USER + at).number(1).is_multiple(STEP) for at in (0, 8, 16))
        for of, some in blocks.grouped(number, blocks.where(may_be & (number > 0))):
            users, sizes = blocks.column(USER, some), blocks.column(USABLE.least(PAGE), some)
            are_right = [self._are_items(user, size, of) for user, size in zip(users, sizes)]
            pages = array("I", compress(some, are_right))
            yield pages, Kind(f"slab pages of class {of}", "holder", how="its items, each with its class")

    def _are_items(self, page: int, size: int, number: int) -> bool:
        if self._has_known_step(page, size, number):
            return True
        data = self._memory.try_read(page, size)
        step = _step_of_items(data, number) if data is not None else None
        if step is not None:
            self._steps[number] = step
        return step is not None

    def _has_known_step(self, page: int, size: int, number: int) -> bool:
        """Whether items are as far apart as in another page of this class: not all of them need be read."""
        step = self._steps.get(number)
        if step is None:
            return False
        items = size // step
        few = range(0, items, max(1, items // FEW))
        found = [self._memory.try_read(page + item * step + CLASS, 1) for item in few]
        return all(each is not None and each[0] & CLASSES == number for each in found)


def _step_of_items(page: bytes, number: int) -> Optional[int]:
    classes = page.translate(OF_CLASS)
    for step in range(SMALLEST, len(page) // FEWEST + 1, STEP):
        items = len(page) // step
        # a few before all
        if classes[CLASS + step] == number and classes[CLASS::step][:items].count(number) == items:
            flags = zip(page[FLAGS::step], page[FLAGS + 1 :: step])
            return step if all(low + (high << 8) < MOST_FLAGS for low, high in list(flags)[:items]) else None
    return None
