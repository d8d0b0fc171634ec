"""Blocks that are named by what holds them: bodies of strings, vectors, deques and hash tables, by the words of the
container that points to them.

Each form is one of libstdc++'s or libc++'s. A container says how large its body is, which must be what was asked of
malloc for it: so close a fit is no coincidence.
"""

from __future__ import annotations

from typing import Callable, Iterator, Optional, Protocol, Sequence

from ...base.records import NamedTuple
from .sizes import fits

LOCAL = 15
"""Letters that libstdc++'s strings have inside."""
ONE = 0x3F800000
"""1.0 as a float: the load factor that hash tables begin with, which hardly anybody changes."""
STDIO = 0xFBAD
"""_IO_MAGIC, in the upper half of a FILE's flags."""
STREAM_WORDS = 8
"""Pointers that follow them: read_ptr, read_end, read_base, write_base, write_ptr, write_end, buf_base, buf_end."""
HASHED = "std::unordered_map node"
SLACK = 32
"""How much larger than asked for a block can be: rounded up, and a rest too small for another."""
MOST_NODES = 1 << 24
POOL = "libstdc++'s emergency pool"
LEAST_POOL = 16 << 10
"""Of a usual one: GLIBCXX_TUNABLES can make it smaller, and then nothing tells it from another buffer."""

VEC_BYTES, VEC = "Vec<u8> or String body", "Vec body"
LEAST_ROOM, MOST_ELEMENT = 4, 1024
"""Of a Vec that is known by its words: fewer elements, and larger ones, fit too many blocks."""


def is_pool(words: Sequence[int], usable: int) -> bool:
    """Of libstdc++'s emergency pool (eh_alloc.cc): the first free entry, where it is, how large."""
    free, arena, size = words
    return LEAST_POOL <= size <= usable < size + SLACK and arena <= free < arena + size


class Body(NamedTuple):
    """A block, and what it is by its container."""

    user: int
    name: str
    kind: str
    offset: int
    """Where in the holder the container is."""
    inside: int = 0
    """So many bytes of it hold the container's elements, which may be containers."""


class Blocks(Protocol):
    """The blocks of which nothing certain is known yet."""

    def usable(self, user: int) -> Optional[int]:
        """None where no such block begins."""

    def words(self, address: int, count: int) -> Optional[Sequence[int]]: ...

    def byte(self, address: int) -> Optional[int]: ...

    def is_code(self, address: int) -> bool: ...


Form = Callable[[Sequence[int], int, int], Sequence[Body]]


class Forms:
    """Finds containers in the words of a holder."""

    def __init__(
        self, blocks: Blocks, word: int, big: bool, classes: bool, rust: bool = False, libcxx: bool = True
    ) -> None:
        """`classes`: whether it is a program in C++, `rust`: in Rust; elsewhere its words are of something else.
        `libcxx`: whether libc++ may run; its strings and deques are few words, which others have, too."""
        self._blocks = blocks
        self._word = word
        self._big = big
        self._in_vain = MOST_NODES
        """So many nodes are followed at most that are none in the end: damage could have each word lead through all."""
        self._classes = classes
        self._rust = rust
        self._libcxx = libcxx

    def _all(self) -> tuple[Form, ...]:
        """Made anew each time: kept, they would lead back here, and with that keep the process's files open."""
        if not self._classes:
            return (self._stdio, self._vec) if self._rust else (self._stdio,)
        if not self._libcxx:
            return (self._stdio, self._hash, self._deque, self._vector, self._string, self._function, self._pool)
        return (
            self._stdio,
            self._hash,
            self._deque,
            self._other_deque,
            self._vector,
            self._string,
            self._other_string,
            self._function,
            self._pool,
        )

    def bodies(self, words: Sequence[int], likely: Sequence[int]) -> Iterator[Body]:
        """`likely`: the indices of words that may point to blocks. What no container points to comes without a name."""
        usable_at = self._blocks.usable
        forms = self._all()
        for index in likely:
            usable = usable_at(words[index])
            if usable is not None:
                for form in forms:
                    bodies = form(words, index, usable)
                    if bodies:
                        yield from bodies
                        break
                else:
                    yield Body(words[index], "", "", index * self._word)

    def _fits(self, size: int, usable: int) -> bool:
        return 0 < size <= usable < size + SLACK

    def _stdio(self, words: Sequence[int], index: int, usable: int) -> Sequence[Body]:
        """struct _IO_FILE: a magic number, where it reads, where it writes, and where the buffer for both begins and
        ends. The number alone is no evidence: a pointer into a heap of gigabytes has it, too."""
        for at in range(max(0, index - STREAM_WORDS), index):
            flags = words[at] >> 32 if self._big and self._word == 8 else words[at] & 0xFFFFFFFF
            if flags >> 16 == STDIO and at + STREAM_WORDS < len(words):
                *places, start, end = words[at + 1 : at + 1 + STREAM_WORDS]
                within = all(not place or start <= place <= end for place in places)
                if start == words[index] and 0 < end - start <= usable and within:
                    return [Body(start, "stdio buffer", "holder", at * self._word)]
        return ()

    def _vec(self, words: Sequence[int], index: int, usable: int) -> Sequence[Body]:
        """Rust's Vec, String and VecDeque: how much room, where it is, how many elements."""
        if not index or index + 1 >= len(words):
            return ()
        room, user, length = words[index - 1 : index + 2]
        if not 0 < length <= room <= usable:
            return ()
        offset = (index - 1) * self._word
        if fits(room, usable):
            return [Body(user, VEC_BYTES, "string", offset)]
        size = usable // room // self._word * self._word
        if room < LEAST_ROOM or not 0 < size <= MOST_ELEMENT or not fits(room * size, usable):
            return ()
        return [Body(user, VEC, "vector", offset, length * size)]

    def _string(self, words: Sequence[int], index: int, usable: int) -> Sequence[Body]:
        """libstdc++: where it is, how long, how much room."""
        if index + 2 >= len(words):
            return ()
        user, length, room = words[index : index + 3]
        return self._as_string(user, length, room, usable, index) if room > LOCAL else ()

    def _other_string(self, words: Sequence[int], index: int, usable: int) -> Sequence[Body]:
        """libc++: how much room, with a mark in its lowest bit (or highest), how long, where it is."""
        if index < 2:
            return ()
        room, length, user = words[index - 2 : index + 1]
        mark = 1 << 8 * self._word - 1 if self._big else 1
        if not room & mark:
            return ()
        return self._as_string(user, length, (room & ~mark) - 1, usable, index - 2)

    def _as_string(self, user: int, length: int, room: int, usable: int, index: int) -> Sequence[Body]:
        for width, name in ((1, "std::string body"), (2, "std::u16string body"), (4, "std::wstring body")):
            if length <= room and self._fits(width * (room + 1), usable):
                end = [self._blocks.byte(user + width * length + place) for place in range(width)]
                if not any(byte is None or byte for byte in end):
                    return [Body(user, name, "string", index * self._word)]
        return ()

    def _vector(self, words: Sequence[int], index: int, usable: int) -> Sequence[Body]:
        if index + 2 >= len(words):
            return ()
        start, end, limit = words[index : index + 3]
        if start <= end <= limit and self._fits(limit - start, usable):
            return [Body(start, "std::vector body", "vector", index * self._word, end - start)]
        return ()

    def _deque(self, words: Sequence[int], index: int, usable: int) -> Sequence[Body]:
        """libstdc++: the map and its size, then where the elements begin and end: cur, first, last, node."""
        if index + 9 >= len(words) or not self._fits(words[index + 1] * self._word, usable):
            return ()
        table, size = words[index : index + 2]
        first, last = words[index + 5], words[index + 9]
        if not table <= first <= last < table + size * self._word or (last - first) % self._word:
            return ()
        nodes = self._blocks.words(first, (last - first) // self._word + 1)
        if nodes is None or (nodes[0], nodes[-1]) != (words[index + 3], words[index + 7]):
            return ()
        if any(self._blocks.usable(node) is None for node in nodes):
            return ()
        offset, room = index * self._word, words[index + 4] - words[index + 3]
        bodies = [Body(node, "std::deque body", "vector", offset, min(room, usable)) for node in nodes]
        return [Body(table, "std::deque body", "vector", offset), *bodies]

    def _other_deque(self, words: Sequence[int], index: int, usable: int) -> Sequence[Body]:
        """libc++: the map, and where in it the blocks begin and end, and its own end; the first element's number, and
        how many there are."""
        if index + 5 >= len(words):
            return ()
        table, first, end, limit, _, size = words[index : index + 6]
        if not (table <= first < end <= limit and size and self._fits(limit - table, usable)):
            return ()
        nodes = self._blocks.words(first, (end - first) // self._word)
        sizes = {self._blocks.usable(node) for node in nodes or ()}
        if nodes is None or len(sizes) != 1 or None in sizes:
            return ()
        offset, room = index * self._word, sizes.pop() or 0
        bodies = [Body(node, "std::deque body", "vector", offset, room) for node in nodes]
        return [Body(table, "std::deque body", "vector", offset), *bodies]

    def _hash(self, words: Sequence[int], index: int, usable: int) -> Sequence[Body]:
        """libstdc++: buckets and how many, the first node, how many elements, the load factor."""
        if index + 4 >= len(words) or not self._fits(words[index + 1] * self._word, usable):
            return ()
        node, count = words[index + 2 : index + 4]
        load = words[index + 4] >> 32 if self._big and self._word == 8 else words[index + 4] & 0xFFFFFFFF
        if load != ONE or count > MOST_NODES or (not node) != (not count):
            return ()
        offset = index * self._word
        bodies = [Body(words[index], "std::unordered_map buckets", "node", offset)]
        met: set[int] = set()
        for _ in range(count):
            room = self._blocks.usable(node) if node not in met else None
            following = self._blocks.words(node, 1) if room is not None else None
            if room is None or following is None or len(met) > self._in_vain:
                self._in_vain -= len(met)
                return ()
            met.add(node)
            bodies.append(Body(node, HASHED, "node", offset, room))
            (node,) = following
        # as many as are counted, and not one more
        self._in_vain -= count if node else 0
        return () if node else bodies

    def _pool(self, words: Sequence[int], index: int, usable: int) -> Sequence[Body]:
        """What libstdc++ throws from once malloc has nothing left: each entry begins with its size and the next one."""
        if index < 1 or index + 1 >= len(words):
            return ()
        free, arena, size = words[index - 1 : index + 2]
        end = arena + size
        if not is_pool((free, arena, size), usable):
            return ()
        entry = self._blocks.words(free, 2)
        if entry is None or not 0 < entry[0] <= end - free or not (entry[1] == 0 or free < entry[1] < end):
            return ()
        return [Body(arena, POOL, "holder", index * self._word)]

    def _function(self, words: Sequence[int], index: int, usable: int) -> Sequence[Body]:
        """libstdc++'s std::function: what it calls, unless that is small, and two functions that know how."""
        if index + 3 >= len(words) or not all(map(self._blocks.is_code, words[index + 2 : index + 4])):
            return ()
        return [Body(words[index], "std::function body", "holder", index * self._word)]
