"""Blocks that are named by what holds them: bodies of strings, vectors, deques and hash tables, by the words of the
container that points to them.

Each form is one of libstdc++'s, libc++'s or Rust's. A container says how large its body is, which must be what was
asked of malloc for it: so close a fit is no coincidence where a container may lie. Elsewhere, in a block of which
nothing is known, what it was before may have left a container's words: one that proves itself (`Body.proven`) has as
many nodes as it counts, that lead back to it, or text that ends where it says.
"""

from __future__ import annotations

import sys
from itertools import groupby
from typing import TYPE_CHECKING, Callable, Iterator, NamedTuple, Optional, Sequence

from ...sources.memory import Memory
from ...sources.target import Span
from .module_memory import fits
from .selection import PLAIN, SHORTEST

if TYPE_CHECKING:
    from ..block_index import Index

TREE, LIST, PAGES = "std::map or set node", "list node", "pages, linked"
GROUP = 16
GROUPS = (GROUP, 8)
"""So many control bytes are looked at together, and repeated after their end: with SSE2, and without."""
FREE = DELETED = 0x80
"""Empty or deleted; a smaller one is of an entry."""
EMPTY = 0xFF
LEAST_PLACES, MOST_PLACES = 4, 1 << 32
LOOKED_AT = 256
TAKEN = bytes(range(FREE))


class RawTable(NamedTuple):
    """As its holder has it."""

    control: int
    places: int
    entries: int

    @property
    def control_bytes(self) -> int:
        return self.places + GROUP

    def fills(self, block: Span, control: bytes) -> bool:
        """Whether these are its control bytes, in this block, with as many entries as it says."""
        own = control[: self.places]
        if self.places - len(own.translate(None, TAKEN)) != self.entries:
            return False
        for group in GROUPS:
            again = control[max(self.places, group) :][: min(self.places, group)]
            if fits(self.control + self.places + group - block.start, block.bytes) and again == own[: len(again)]:
                return block.start < self.control
        return False

    def runs(self, block: Span, control: bytes) -> Iterator[Span]:
        """Where in the block entries lie, beside each other; what is between may be left from others."""
        size = (self.control - block.start) // self.places
        at = 0
        for free, places in groupby(control[: self.places], key=FREE.__le__):
            count = len(list(places))
            if not free:
                end = self.control - block.start - at * size
                yield Span(end - count * size, end)
            at += count


TABLE_WORDS = 4


def table_in(words: Sequence[int], index: int) -> Optional[RawTable]:
    """RawTable: where the control bytes are, how many places but one, how many may yet be filled, how many are."""
    if index + 3 >= len(words):
        return None
    control, mask, left, entries = words[index : index + 4]
    room = mask if mask < 8 else (mask + 1) // 8 * 7
    if mask & mask + 1 or not LEAST_PLACES <= mask + 1 <= MOST_PLACES or not 0 < entries <= room - left:
        return None
    return RawTable(control, mask + 1, entries)


def is_table(memory: Memory, start: int, usable: int, past: int) -> bool:
    """Whether a block whose holder is not known is one, with its control bytes `past` its start."""
    most = min(past, usable - past - GROUP)
    if past % GROUP or most < 4:
        return False
    return any(
        _has_control(memory, start + past, 1 << bits)
        for bits in range(2, most.bit_length())
        if fits(past + (1 << bits) + GROUP, usable)
    )


def _has_control(memory: Memory, at: int, places: int) -> bool:
    first = memory.try_read(at, min(places, LOOKED_AT)) or b""
    if places < GROUP:
        again = memory.try_read(at, GROUP + places) == first + b"\xff" * (GROUP - places) + first
    else:
        again = memory.try_read(at + places, GROUP) == first[:GROUP]
    return again and EMPTY in first and all(each < DELETED or each in (EMPTY, DELETED) for each in first)


STDIO = 0xFBAD
"""_IO_MAGIC, in the upper half of a FILE's flags."""
MOST_NODES = 1 << 24
MOST_ROOM = 1 << 40
MOST_CODE = 1 << 30
"""So far apart are functions of one module at most, mostly."""
ONES = 0xFFFFFFFF


def may_have_streams(words: Sequence[int], high_half: bool) -> bool:
    """Whether one of them has the magic number of struct _IO_FILE in it. `high_half`: a word begins with that half."""
    if isinstance(words, memoryview):
        return STDIO.to_bytes(2, sys.byteorder) in words.tobytes()
    shift = 48 if high_half else 16
    return any(word >> shift & 0xFFFF == STDIO for word in words)


def may_be_of_rust(words: Sequence[int], index: int) -> bool:
    if index + 2 >= len(words):
        return False
    second, room = words[index + 1], words[index - 1] if index else 0
    return 0 < second <= room < MOST_ROOM or (0 < second < MOST_ROOM and not second & second + 1)


def may_be_of_cplusplus(words: Sequence[int], index: int) -> bool:
    if index + 2 >= len(words):
        return False
    first, second, third = words[index : index + 3]
    if second < MOST_ROOM:
        # a string, a hash table, a deque's map
        return second > 0 or (index + 3 < len(words) and third ^ words[index + 3] < MOST_CODE)
    # a vector, a tree, a list
    if first <= second <= third < first + MOST_ROOM or 0 < third < MOST_ROOM or words[index - 1] & ONES < 2:
        return True
    return index + 3 < len(words) and third ^ words[index + 3] < MOST_CODE


LOCAL = 15
"""Letters that libstdc++'s strings have inside."""
ONE = 0x3F800000
"""1.0 as a float: the load factor that hash tables begin with, which hardly anybody changes."""
STREAM_WORDS = 8
"""Pointers that follow them: read_ptr, read_end, read_base, write_base, write_ptr, write_end, buf_base, buf_end."""
HASHED = "std::unordered_map node"
BUCKETS = "std::unordered_map buckets"
FUNCTION, MANAGER = "std::function body", "_M_manager"
"""What copies and destroys a body is called so in each class that makes one."""
TEXT_LOOKED_AT = 256
POOL = "libstdc++'s emergency pool"
LEAST_POOL = 16 << 10
"""Of a usual one: GLIBCXX_TUNABLES can make it smaller, and then nothing tells it from another buffer."""

VEC_BYTES, VEC = "Vec<u8> or String body", "Vec body"
TABLE = "HashMap or HashSet table"
LEAST_ROOM, MOST_ELEMENT = 4, 1024
"""Of a Vec that is known by its words: fewer elements, and larger ones, fit too many blocks."""


def is_pool(words: Sequence[int], usable: int) -> bool:
    """Of libstdc++'s emergency pool (eh_alloc.cc): the first free entry, where it is, how large."""
    free, arena, size = words
    return size >= LEAST_POOL and fits(size, usable) and arena <= free < arena + size


class ContainerBlock(NamedTuple):
    """A block, and what it is by its container."""

    user: int
    name: str
    kind: str
    offset: int
    """Where in the holder the container is."""
    inside: int = 0
    """So many bytes of it hold the container's elements, which may be containers."""
    proven: bool = False
    """It is so wherever such words lie: what they lead to says the same."""
    sure: bool = True
    start: int = 0
    """Where in it the elements begin."""


Form = Callable[["Forms", Sequence[int], int, int], Sequence[ContainerBlock]]
"""Not bound: kept, they would lead back to what keeps them, and with that keep the process's files open."""


class Forms:
    """Finds containers in the words of a holder."""

    def __init__(
        self, blocks: Index, word: int, big: bool, classes: bool, rust: bool = False, libcxx: bool = True
    ) -> None:
        """`classes`: whether it is a program in C++, `rust`: in Rust; elsewhere its words are of something else.
        `libcxx`: whether libc++ may run; its strings and deques are few words, which others have, too."""
        self._blocks = blocks
        self._word = word
        self._big = big
        self._in_vain = MOST_NODES
        """So many nodes, or places of a table, are followed at most that are none in the end: damage could have each
        word lead through all."""
        self._classes = classes
        self._rust = rust
        self._libcxx = libcxx
        self._forms: tuple[Form, ...] = (Forms._vec,) if rust else ()
        if classes:
            of_libcxx = (Forms._other_deque, Forms._other_string) if libcxx else (None, None)
            every = (
                Forms._hash,
                Forms._map,
                Forms._list,
                Forms._deque,
                of_libcxx[0],
                Forms._vector,
                Forms._string,
                of_libcxx[1],
                Forms._function,
                Forms._pool,
            )
            self._forms = tuple(each for each in every if each is not None)

    @property
    def has_containers(self) -> bool:
        return self._classes or self._rust

    @property
    def leads_inside(self) -> bool:
        """Whether a form's pointer may lead into a block."""
        return self._rust

    def bodies(self, words: Sequence[int], likely: Sequence[int]) -> Iterator[ContainerBlock]:
        """`likely`: the indices of words that may point to blocks. What no container points to comes without a name."""
        usable_at, may_fit = self._blocks.usable, self._may_fit
        forms: Optional[Sequence[Form]] = None
        has_streams = False
        for index in likely:
            usable = usable_at(words[index])
            if usable is not None:
                if forms is None:
                    has_streams = may_have_streams(words, high_half=self._big and self._word == 8)
                    forms = (Forms._stdio, *self._forms) if has_streams else self._forms
                for form in forms if has_streams or (forms and may_fit(words, index, usable)) else ():
                    bodies = form(self, words, index, usable)
                    if bodies:
                        yield from bodies
                        break
                else:
                    yield ContainerBlock(words[index], "", "", index * self._word)
            elif self._rust:
                yield from self._table(words, index)

    def _may_fit(self, words: Sequence[int], index: int, usable: int) -> bool:
        """Whether a form but a stream's may, by numbers alone: in tables of pointers, which are long, none does."""
        if index + 3 >= len(words):
            return True
        user, second, third, fourth = words[index : index + 4]
        # what is as long as the block or less; how many nodes; where it ends; what manages a function's body
        return (
            second <= usable
            or third <= MOST_NODES
            or fourth <= MOST_NODES
            or user <= second <= user + usable
            or (self._libcxx and index > 1 and words[index - 1] <= usable)
            or self._blocks.is_code(third)
        )

    @property
    def may_be_body(self) -> Callable[[Sequence[int], int], bool]:
        """Whether one of the forms may fit that is looked for where nothing is known."""
        return may_be_of_rust if self._rust else may_be_of_cplusplus

    def _stdio(self, words: Sequence[int], index: int, usable: int) -> Sequence[ContainerBlock]:
        """struct _IO_FILE: a magic number, where it reads, where it writes, and where the buffer for both begins and
        ends. The number alone is no evidence: a pointer into a heap of gigabytes has it, too."""
        for at in range(max(0, index - STREAM_WORDS), index):
            flags = words[at] >> 32 if self._big and self._word == 8 else words[at] & 0xFFFFFFFF
            if flags >> 16 == STDIO and at + STREAM_WORDS < len(words):
                *places, start, end = words[at + 1 : at + 1 + STREAM_WORDS]
                within = all(not place or start <= place <= end for place in places)
                if start == words[index] and 0 < end - start <= usable and within:
                    return [ContainerBlock(start, "stdio buffer", "holder", at * self._word)]
        return ()

    def _vec(self, words: Sequence[int], index: int, usable: int) -> Sequence[ContainerBlock]:
        """Rust's Vec, String and VecDeque: how much room, where it is, how many elements."""
        if not index or index + 1 >= len(words):
            return ()
        room, user, length = words[index - 1 : index + 2]
        if not 0 < length <= room <= usable:
            return ()
        offset = (index - 1) * self._word
        if fits(room, usable):
            # a small block would have room for as many of two bytes and more as well
            text = self._is_text(user, length)
            told = text or not fits(2 * room, usable)
            proven = text and length > LOCAL // 2
            return [
                ContainerBlock(user, VEC_BYTES if told else VEC, "string" if told else "vector", offset, proven=proven)
            ]
        size = usable // room // self._word * self._word
        if room < LEAST_ROOM or not 0 < size <= MOST_ELEMENT or not fits(room * size, usable):
            return ()
        return [ContainerBlock(user, VEC, "vector", offset, length * size)]

    def _string(self, words: Sequence[int], index: int, usable: int) -> Sequence[ContainerBlock]:
        """libstdc++: where it is, how long, how much room."""
        if index + 2 >= len(words):
            return ()
        user, length, room = words[index : index + 3]
        return self._as_string(user, length, room, usable, index) if room > LOCAL else ()

    def _other_string(self, words: Sequence[int], index: int, usable: int) -> Sequence[ContainerBlock]:
        """libc++: how much room, with a mark in its lowest bit (or highest), how long, where it is."""
        if index < 2:
            return ()
        room, length, user = words[index - 2 : index + 1]
        mark = 1 << 8 * self._word - 1 if self._big else 1
        if not room & mark:
            return ()
        return self._as_string(user, length, (room & ~mark) - 1, usable, index - 2)

    def _as_string(self, user: int, length: int, room: int, usable: int, index: int) -> Sequence[ContainerBlock]:
        for width, name in ((1, "std::string body"), (2, "std::u16string body"), (4, "std::wstring body")):
            if length <= room and fits(width * (room + 1), usable):
                # all of a short one is read at once, with the zero after it
                seen = min(width * length, TEXT_LOOKED_AT)
                end = self._blocks.read(user + width * length - seen, seen + width)
                if end is not None and not any(end[seen:]):
                    proven = width == 1 and length > LOCAL // 2 and not end[:seen].translate(None, PLAIN)
                    return [ContainerBlock(user, name, "string", index * self._word, proven=proven)]
        return ()

    def _is_text(self, user: int, length: int) -> bool:
        text = self._blocks.read(user, min(length, TEXT_LOOKED_AT)) if length >= SHORTEST else None
        return text is not None and not text.translate(None, PLAIN)

    def _vector(self, words: Sequence[int], index: int, usable: int) -> Sequence[ContainerBlock]:
        if index + 2 >= len(words):
            return ()
        start, end, limit = words[index : index + 3]
        if start <= end <= limit and fits(limit - start, usable):
            return [ContainerBlock(start, "std::vector body", "vector", index * self._word, end - start)]
        return ()

    def _deque(self, words: Sequence[int], index: int, usable: int) -> Sequence[ContainerBlock]:
        """libstdc++: the map and its size, then where the elements begin and end: cur, first, last, node."""
        if index + 9 >= len(words) or not fits(words[index + 1] * self._word, usable):
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
        bodies = [
            ContainerBlock(node, "std::deque body", "vector", offset, min(room, usable), proven=True) for node in nodes
        ]
        return [ContainerBlock(table, "std::deque body", "vector", offset, proven=True), *bodies]

    def _other_deque(self, words: Sequence[int], index: int, usable: int) -> Sequence[ContainerBlock]:
        """libc++: the map, and where in it the blocks begin and end, and its own end; the first element's number, and
        how many there are."""
        if index + 5 >= len(words):
            return ()
        table, first, end, limit, _, size = words[index : index + 6]
        if not (table <= first < end <= limit and size and fits(limit - table, usable)):
            return ()
        nodes = self._blocks.words(first, (end - first) // self._word)
        sizes = {self._blocks.usable(node) for node in nodes or ()}
        if nodes is None or len(sizes) != 1 or None in sizes:
            return ()
        offset, room = index * self._word, sizes.pop() or 0
        bodies = [ContainerBlock(node, "std::deque body", "vector", offset, room) for node in nodes]
        return [ContainerBlock(table, "std::deque body", "vector", offset), *bodies]

    def _hash(self, words: Sequence[int], index: int, usable: int) -> Sequence[ContainerBlock]:
        """libstdc++: buckets and how many, the first node, how many elements, the load factor."""
        if index + 4 >= len(words) or not fits(words[index + 1] * self._word, usable):
            return ()
        node, count = words[index + 2 : index + 4]
        load = words[index + 4] >> 32 if self._big and self._word == 8 else words[index + 4] & 0xFFFFFFFF
        if load != ONE or count > MOST_NODES or (not node) != (not count):
            return ()
        offset = index * self._word
        bodies = [ContainerBlock(words[index], BUCKETS, "node", offset, proven=count > 0)]
        met: set[int] = set()
        for _ in range(count):
            room = self._blocks.usable(node) if node not in met else None
            following = self._blocks.words(node, 1) if room is not None else None
            if room is None or following is None or len(met) > self._in_vain:
                self._in_vain -= len(met)
                return ()
            met.add(node)
            bodies.append(ContainerBlock(node, HASHED, "node", offset, room, proven=True))
            (node,) = following
        # as many as are counted, and not one more
        self._in_vain -= count if node else 0
        return () if node else bodies

    def _map(self, words: Sequence[int], index: int, usable: int) -> Sequence[ContainerBlock]:
        """libstdc++'s std::map and set: in the header a colour, the root, the first and the last node, and how many."""
        if not index or index + 3 >= len(words) or not 0 < words[index + 3] <= MOST_NODES:
            return ()
        root, first, last, count = words[index : index + 4]
        top = self._blocks.words(root, 4)
        # the root's parent is the header, in these very words
        header = self._blocks.words(top[1], 5) if top is not None else None
        if top is None or header is None or list(header)[1:] != [root, first, last, count] or self._colour(header[0]):
            return ()
        bodies: list[ContainerBlock] = []
        left, ends = [(root, top[1])], set[int]()
        while left:
            node, parent = left.pop()
            room = self._blocks.usable(node)
            own = self._blocks.words(node, 4) if room is not None and len(bodies) < min(count, self._in_vain) else None
            if room is None or own is None or own[1] != parent or self._colour(own[0]) > 1:
                self._in_vain -= len(bodies)
                return ()
            bodies.append(ContainerBlock(node, TREE, "node", index * self._word, room, proven=True))
            ends.update((node,) if not (own[2] and own[3]) else ())
            left += [(each, node) for each in (own[2], own[3]) if each]
        self._in_vain -= 0 if len(bodies) == count else len(bodies)
        return bodies if len(bodies) == count and {first, last} <= ends else ()

    def _list(self, words: Sequence[int], index: int, usable: int) -> Sequence[ContainerBlock]:
        """std::list, or one like it: the next one, the one before, and how many; libc++ has the first two the other way
        round."""
        if index + 2 >= len(words) or not 0 < words[index + 2] <= MOST_NODES:
            return ()
        node, last, count = words[index : index + 3]
        links = self._blocks.words(node, 2)
        before = header = links[1] if links is not None else 0
        own = self._blocks.words(header, 3) if header else None
        if own is None or list(own) != [node, last, count]:
            return ()
        bodies: list[ContainerBlock] = []
        while node != header:
            room = self._blocks.usable(node)
            links = (
                self._blocks.words(node, 2) if room is not None and len(bodies) < min(count, self._in_vain) else None
            )
            if room is None or links is None or links[1] != before:
                self._in_vain -= len(bodies)
                return ()
            bodies.append(ContainerBlock(node, LIST, "node", index * self._word, room, proven=True))
            before, node = node, links[0]
        return bodies if len(bodies) == count and before == last else ()

    def _colour(self, word: int) -> int:
        """The first four bytes."""
        return word >> 32 if self._big and self._word == 8 else word & ONES

    def _table(self, words: Sequence[int], index: int) -> Sequence[ContainerBlock]:
        """Rust's hash tables, whose holder has the address of their control bytes."""
        table = table_in(words, index)
        block = self._blocks.around(words[index]) if table is not None else None
        if table is None or block is None or table.places > block.bytes or table.places > self._in_vain:
            return ()
        control = self._blocks.read(table.control, table.control_bytes)
        if control is None or not table.fills(block, control):
            self._in_vain -= table.places
            return ()
        runs = table.runs(block, control)
        return [
            ContainerBlock(block.start, TABLE, "holder", index * self._word, end - start, True, start=start)
            for start, end in runs
        ]

    def _pool(self, words: Sequence[int], index: int, usable: int) -> Sequence[ContainerBlock]:
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
        return [ContainerBlock(arena, POOL, "holder", index * self._word)]

    def _function(self, words: Sequence[int], index: int, usable: int) -> Sequence[ContainerBlock]:
        """libstdc++'s std::function: what it calls, unless that is small, and two functions that know how: one manages
        it, which its symbol says where there is one. A table of commands has as many functions, after a text mostly."""
        if index + 3 >= len(words) or not all(map(self._blocks.is_code, words[index + 2 : index + 4])):
            return ()
        manager = self._blocks.function(words[index + 2])
        text = (self._blocks.read(words[index], min(usable, TEXT_LOOKED_AT)) or b"").partition(b"\0")[0]
        if MANAGER not in manager if manager is not None else text and not text.translate(None, PLAIN):
            return ()
        named = manager is not None
        return [ContainerBlock(words[index], FUNCTION, "holder", index * self._word, proven=named, sure=named)]
