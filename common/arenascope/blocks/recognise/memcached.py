"""memcached's slab pages, by the items in them: each has its class, at equal steps to the page's end.

struct _stritem and item_chunk have it in the same place, after three pointers, times and counts; so have free ones.
How far apart items are is not known beforehand: the least step at which all have one class is theirs.
"""

from __future__ import annotations

from typing import Optional

from ...base.model import Kind
from .module_memory import LoadedModules

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

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        if (
            usable < LEAST_PAGE
            or not head[CLASS] & CLASSES
            or any(word % STEP for word in (head[0], head[8], head[16]))
        ):
            return None
        number = head[CLASS] & CLASSES
        if not self._has_known_step(user, min(usable, PAGE), number):
            page = self._memory.try_read(user, min(usable, PAGE))
            step = _step_of_items(page, number) if page is not None else None
            if step is None:
                return None
            self._steps[number] = step
        return Kind(f"slab pages of class {number}", "holder", how="its items, each with its class")

    def _has_known_step(self, user: int, size: int, number: int) -> bool:
        """Whether items are as far apart as in another page of this class: not all of them need be read."""
        step = self._steps.get(number)
        if step is None:
            return False
        items = size // step
        few = range(0, items, max(1, items // FEW))
        found = [self._memory.try_read(user + item * step + CLASS, 1) for item in few]
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
