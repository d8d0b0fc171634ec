"""What MariaDB and MySQL put in front of blocks: whose account they are on and how many bytes were asked for.

Without it their blocks would be told by their size alone, as what they hold begins after it, and pointers lead there.
That it says how large the block is, to the byte, proves it. What comes after it is told as of any block.
"""

from __future__ import annotations

from typing import Optional, Sequence

from .module_memory import LARGEST_PAGE, Front, LoadedModules, fits

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
        self._little = ground.memory.byte_order == "little"
        self._word = ground.memory.pointer_size
        self.runs = self._word == 8 and ground.has(ALLOCATOR, "mysql", "mariadb")

    def front_of(self, words: Sequence[int], at: int, count: int, usable: int) -> Optional[Front]:
        """Of a block of so many bytes, of which `count` words are known, from `at` on."""
        if count < 4:
            return None
        first, second, third = words[at], words[at + 1], words[at + 2]
        # struct my_memory_header of MariaDB: owner, size with two marks (one thread's; counted), key
        if second & 2 and self._fits(second & ~3, 24, usable) and not second & 4 and self._owns(first):
            return Front(3, second & ~3, f"{ALLOCATOR} for one thread" if second & 1 else ALLOCATOR)
        # ut_new_pfx_t of its InnoDB: key, owner, size with this itself
        if self._fits(third - 24, 24, usable) and self._owns(second) and self._key(first) < MOST_KEYS:
            return Front(3, third - 24, "InnoDB")
        # struct my_memory_header of MySQL: key and a magic number, size, owner
        if self._other_half(first) == MAGIC and self._fits(second, 32, usable) and self._owns(third):
            return Front(4, second, ALLOCATOR)
        return None

    def holds(self, front: Front, words: Sequence[int], user: int) -> Optional[str]:
        """What a block is that is known by no more than its front: memory that is handed out in small pieces."""
        if len(words) < front.words + 3 or front.bytes < 3 * self._word:
            return None
        first, second, third = words[front.words : front.words + 3]
        own = user + front.words * self._word
        # st_used_mem: the next one, what is left, the size
        if front.of != "InnoDB" and third == front.bytes and second <= third and not first % self._word:
            return ROOT_BLOCK
        if front.of != "InnoDB":
            return None
        # mem_block_info_t: the list of its blocks, of which it is the first; in each its neighbours, and its length
        is_first = 0 < first < MOST_KEYS and second == own
        return HEAP_BLOCK if is_first or front.bytes in words[front.words + LENGTH :][:2] else None

    def _fits(self, size: int, front: int, usable: int) -> bool:
        return size > 0 and fits(front + size, usable, LARGEST_PAGE)

    def _owns(self, word: int) -> bool:
        """A thread's record of the performance schema, or none."""
        return not word % self._word and not word >> 48

    def _key(self, word: int) -> int:
        return word & 0xFFFFFFFF if self._little else word >> 32

    def _other_half(self, word: int) -> int:
        return word >> 32 if self._little else word & 0xFFFFFFFF
