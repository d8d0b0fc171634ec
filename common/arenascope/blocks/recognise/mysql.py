"""What MariaDB and MySQL put in front of blocks: whose account they are on and how many bytes were asked for.

Without it their blocks would be told by their size alone, as what they hold begins after it, and pointers lead there.
That it says how large the block is, to the byte, proves it. What comes after it is told as of any block.
"""

from __future__ import annotations

from typing import Iterator, Sequence

from .module_memory import LARGEST_PAGE, LoadedModules
from .selection import USABLE, USER, Condition, Front, Numbers, Selection, Value

ALLOCATOR = "my_malloc"
MAGIC = 1234
MOST_KEYS = 1 << 20
LENGTH = 5
"""So many words of mem_block_info_t are in front of that, or one more since 10.6."""
ROOT_BLOCK, HEAP_BLOCK = "MEM_ROOT block", "mem_heap block"


class Mysql:
    """MariaDB's or MySQL's headers in one process."""

    sizes: Sequence[int] = (24, 32)

    def __init__(self, ground: LoadedModules) -> None:
        self.runs = ground.memory.pointer_size == 8 and ground.has(ALLOCATOR, "mysql", "mariadb")

    def fronts(self, blocks: Selection) -> Iterator[tuple[Numbers, Front]]:
        first, second, third = map(USER.word, range(3))
        is_long = USABLE >= 32
        # struct my_memory_header of MariaDB: owner, size with two marks (one thread's; counted), key
        is_counted = is_long & (second & 6 == 2) & _fits(second & ~3, 24) & _owns(first)
        for of_thread, name in enumerate((ALLOCATOR, f"{ALLOCATOR} for one thread")):
            asked = USER.word(-2) & ~3
            yield (
                blocks.where(is_counted & (second & 1 == of_thread)),
                Front(24, name, asked, {ROOT_BLOCK: _root(asked)}),
            )
        # ut_new_pfx_t of its InnoDB: key, owner, size with this itself
        is_pfx = is_long & _fits(third - 24, 24) & _owns(second) & (USER.number(4) < MOST_KEYS)
        asked = USER.word(-1) - 24
        yield blocks.where(is_pfx), Front(24, "InnoDB", asked, {HEAP_BLOCK: _heap_block(asked)})
        # struct my_memory_header of MySQL: key and a magic number, size, owner
        is_magic = is_long & ((USER + 4).number(4) == MAGIC) & _fits(second, 32) & _owns(third)
        asked = USER.word(-3)
        yield blocks.where(is_magic), Front(32, ALLOCATOR, asked, {ROOT_BLOCK: _root(asked)})


def _fits(size: Value, front: int) -> Condition:
    return (size > 0) & (size + front).fits(page=LARGEST_PAGE)


def _owns(word: Value) -> Condition:
    """A thread's record of the performance schema, or none."""
    return word.is_multiple(8) & (word >> 48 == 0)


def _root(asked: Value) -> Condition:
    """st_used_mem: the next one, what is left, the size."""
    first, second, third = map(USER.word, range(3))
    return (asked >= 24) & (third == asked) & (second <= third) & first.is_multiple(8)


def _heap_block(asked: Value) -> Condition:
    """mem_block_info_t: the list of its blocks, of which it is the first; in each its neighbours, and its length."""
    is_first = USER.word(0).between(1, MOST_KEYS) & (USER.word(1) == USER)
    return (asked >= 24) & (is_first | (USER.word(LENGTH) == asked) | (USER.word(LENGTH + 1) == asked))
