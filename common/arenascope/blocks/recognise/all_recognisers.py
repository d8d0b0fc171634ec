"""What each block is: every recogniser in its order, which is nowhere else.

Where a program puts words of its own in front of its blocks (`mysql.py`, `jvm.py`), all this is asked
of what comes after them.

1. A vtable in the first word: C++ objects, named as people write them (`cplusplus.py`, `base/class_names.py`). Certain.
2. A type in the words where CPython or GObject has it (`python.py`, `gobject.py`). Certain.
3. The structs of well-known programs, where these run. Certain, but for what says so.
4. Links that lead back (`containers.py`). A guess.
5. What the contents look like (`contents.py`). Guesses, but for zeros.
6. The size.

Nothing overrides what is certain; what holders tell (`containers.py`) comes after all of it, and overrides guesses
only.
"""

from __future__ import annotations

import struct
from itertools import repeat
from typing import Collection, Iterable, Mapping, NamedTuple, Optional, Protocol, Sequence, runtime_checkable

from ...base.model import BY_SIZE, Kind
from ...glibc.chunk import SIZE_BITS
from ...sources.memory import Memory
from .containers import LIST, PAGES, TREE, NodeLinks
from .contents import ENCODINGS, LETTERS, LOOKED_AT, STARTS, are_addresses, text_in
from .cplusplus import Classes, ClassName
from .glib import Glib
from .gobject import GObjects
from .jvm import Jvm, Nmt
from .memcached import Memcached
from .module_memory import PAGE_SHIFT, Front, Fronts, LoadedModules, fits
from .mysql import Mysql
from .nginx import Nginx
from .perl import Perl
from .php import Php
from .postgres import Postgres
from .python import Python
from .redis import Redis
from .ruby import Ruby
from .sqlite import Sqlite
from .v8 import V8
from .zlib_streams import Zlib

CHUNK = Kind("obstack chunk", "holder", how="its own end, and that of the chunk before")
PROGRAMS = ("gdb", "cc1", "cc1plus", "lto1", "as", "ld", "ld.bfd", "bison")
FRONT = 16
LEAST = 256


class Obstacks:
    """The chunks of one process (struct _obstack_chunk)."""

    def __init__(self, ground: LoadedModules) -> None:
        self._ground = ground
        program = ground.modules.program
        self.runs = program is not None and program.name in PROGRAMS

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        if usable < LEAST:
            return None
        limit, before = struct.unpack_from("<2Q", head)
        if not fits(limit - user, usable) or before % FRONT:
            return None
        return CHUNK if not before or self._is_chunk(before) else None

    def _is_chunk(self, chunk: int) -> bool:
        words = self._ground.words(chunk - 8, 2)
        return words is not None and fits(words[1] - chunk, (words[0] & ~SIZE_BITS) - 8)


class Program(Protocol):
    """The structs of one program."""

    runs: bool

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        """Of a block of so many bytes; `head` is its beginning."""


@runtime_checkable
class RuntimeKeeper(Protocol):
    """A runtime whose objects keep blocks."""

    holders: Collection[str]
    """What blocks are called that are objects, or full of them."""
    apart: bool
    """Others lie in memory that it maps by itself."""
    past: Sequence[int]
    """How far into such a block they may point."""

    def kept_by(self, words: Sequence[int], at: int, usable: int) -> Optional[Kind]:
        """What a block of so many bytes is that words[at] points to."""


def programs_in(ground: LoadedModules) -> Sequence[Program]:
    if ground.memory.pointer_size != 8 or ground.memory.byte_order != "little":
        return ()
    every: Sequence[Program] = (
        Glib(ground),
        Jvm(ground),
        Memcached(ground),
        Nginx(ground),
        Obstacks(ground),
        Perl(ground),
        Php(ground),
        Postgres(ground),
        Redis(ground),
        Ruby(ground),
        Sqlite(ground),
        V8(ground),
        Zlib(ground),
    )
    return [each for each in every if each.runs]


HEAD = 10
"""Words of a block from which its allocator's header, and what follows, is told."""
NONE = -1
"""No live block."""
EXACT = 1024
"""Blocks up to here are told apart by their very size; larger ones by powers of two."""
Sizes = dict[int, int]
"""A kind's index, by what is usable of a block."""
GRAIN = 16
"""Sizes are rounded up to as much, and a rest of as much is handed out, too."""
ALIKE = 8
"""Blocks of each of several sizes that one class may have: after an object there may be room for more."""
SEVERAL = "{}, of several sizes as frequent"
LONGEST_ARRAY = 64 << 10
ZEROS = Kind("zeros", "zeros", how="its bytes")
BEGINS = Kind("first bytes are zero", "zeros", certain=False, how="its first bytes")
POINTERS = Kind("mostly pointers", "pointers", certain=False, how="its words")
TEXTS = {name: Kind(f"text, {name}", "text", certain=False, how="its bytes") for name in ENCODINGS}
NODES = {name: Kind(name, "node", certain=False, how="its links, which lead back") for name in (TREE, LIST, PAGES)}
UNTOLD = Kind("remains of objects", "size", how=BY_SIZE)
"""It begins as an array does, of something of another size."""


def true_sizes(sizes: Mapping[int, int]) -> Sequence[int]:
    """What blocks of one class have, by how many have which: one size, or several where no one is the most frequent;
    none where of these there are too few, so that either may be what a block was before.

    A free chunk that is too small to split is handed out whole, so that some have more.
    """
    highest = max(sizes.values())
    best: list[int] = []
    for size in sorted(size for size, blocks in sizes.items() if blocks == highest):
        if not best or size - best[-1] > GRAIN:
            best.append(size)
    return best if len(best) == 1 or highest >= ALIKE else ()


def _size_text(size: int) -> str:
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift:
            return f"{size >> shift} {unit}"
    return f"{size} bytes"


def _sized(size: int) -> str:
    """As the kinds are called of which nothing but that is known."""
    if size <= EXACT:
        return _size_text(size)
    low = 1 << size.bit_length() - 1
    return f"{_size_text(low)} to {_size_text(2 * low)}"


class KindOfSize(NamedTuple):
    """A kind, or as much of it as has one size: where a class is told by its vtable alone, its size tells more."""

    kind: Kind
    usable: Optional[int] = None
    element: Optional[Kind] = None
    """Of an array: what it is of, and `usable` is the distance between two."""


class _Table:
    """A vtable, and the blocks that begin with it."""

    def __init__(self, of: ClassName, word: bytes) -> None:
        self.of = of
        self.word = word
        """The vtable's address, as it lies in memory."""
        self.sizes: Sizes = {}
        """Of blocks that hold one object each."""


UNSEEN = _Table(ClassName("", None, ""), b"")
"""In place of a word's table where it is not known yet whether it has one."""


def _repeats(data: bytes, word: int) -> Optional[int]:
    """How far it is from the first word to where it stands again, as often as there is room for; None where it does
    not, or not at equal steps."""
    first = data[:word]
    step = data.find(first, word)
    while step > 0 and step % word:
        step = data.find(first, step + 1)
    if step < 0:
        return None
    again = data.count(first, word)
    places = sum(1 for at in range(step, len(data) - word + 1, step) if data[at : at + word] == first)
    return step if places == again else None


class Catalogue:
    """The kinds of one image, as far as they have been met."""

    def __init__(self, ground: LoadedModules, low: int, high: int) -> None:
        """All heaps lie within [low, high)."""
        self.entries: list[KindOfSize] = []
        self._index: dict[KindOfSize, int] = {}
        self.ground = ground
        self._memory: Memory = ground.memory
        self._word = ground.memory.pointer_size
        self.low, self.high = low, high
        self._classes = Classes(ground)
        self.tables: dict[int, Optional[_Table]] = {}
        """By the first word of blocks; None: it is no vtable."""
        self._by_size: Sizes = {}
        self._plain: dict[Kind, int] = {}
        self.python = Python(ground, low, high)
        runtimes = (self.python, GObjects(ground, low, high))
        self._runtimes = [each for each in runtimes if each.runs]
        self._programs = programs_in(ground)
        every: Sequence[object] = (self.python if self.python.runs else None, *self._programs)
        self.keepers = [each for each in every if isinstance(each, RuntimeKeeper)]
        self._links = NodeLinks(ground.memory, low, high)
        fronts: Sequence[Fronts] = (Mysql(ground), Nmt(ground))
        self._fronts = next((each for each in fronts if each.runs), None)
        little = ground.memory.byte_order == "little"
        self._half = 0 if little or self._word == 4 else 32
        """By how much a word is shifted that begins with a number of four bytes."""
        self._least_text = 256 if little and self._word == 8 else 1
        """A smaller number has no two letters, wide ones neither."""

    def kind(self, index: int) -> Kind:
        return self.entries[index].kind

    def index_of(self, entry: KindOfSize) -> int:
        if entry not in self._index:
            self._index[entry] = len(self.entries)
            self.entries.append(entry)
        return self._index[entry]

    def plain(self, kind: Kind) -> int:
        return self.index_of(KindOfSize(kind))

    def settle(self, counts: Mapping[int, int]) -> Sequence[int]:
        """For each index the one that counts, now that it is known how many blocks there are of each.

        Objects of one class are of one size. A block that begins with its vtable and has another size was something
        else before: only its size is known then.
        """
        sizes: dict[Kind, dict[int, int]] = {}
        for index, (kind, usable, element) in enumerate(self.entries):
            if usable is not None and element is None:
                sizes.setdefault(kind, {})[usable] = counts.get(index, 0)
        own = {kind: true_sizes(each) for kind, each in sizes.items()}
        settled = []
        for index, (kind, usable, element) in enumerate(list(self.entries)):
            several = own.get(element or kind, ())
            size = several[0] if len(several) == 1 else None
            if usable is None:
                settled.append(index)
            elif element is not None:
                fits = size is None or size - GRAIN < usable <= size
                settled.append(self.plain(kind if fits else UNTOLD))
            else:
                fits = any(each <= usable <= each + GRAIN for each in several)
                told = kind if size is not None else kind._replace(certain=False, how=SEVERAL.format(kind.how))
                settled.append(self.plain(told) if fits else self.by_size(usable))
        return [*settled, *range(len(settled), len(self.entries))]

    def classify(self, user: int, usable: int, head: bytes) -> int:
        """The index of a block's kind; `head` is its beginning, LOOKED_AT bytes or all of it."""
        return self.classify_many(self._memory.as_words(head), head, user, [user], [usable])[0]

    def classify_many(
        self,
        words: Sequence[int],
        data: bytes,
        base: int,
        users: Sequence[int],
        usables: Sequence[int],
        told: Iterable[int] = repeat(NONE),
    ) -> list[int]:
        """The same of blocks in address order that lie in `data`, which begins at `base`, with all of their heads. What
        is `told` counts, unless NONE, but where there is a vtable: what is not told may begin with the same."""
        indices: list[int] = []
        add, known, pages = indices.append, self.tables.get, self.ground.pages
        low, high, least_text, quick = self.low, self.high, self._least_text, not (self._runtimes or self._programs)
        text = self.known(TEXTS["ASCII"])
        shift = 3 if self._word == 8 else 2
        length, other = len(data), self._other
        for user, usable, number in zip(users, usables, told):
            start = user - base
            at = start >> shift
            first = words[at]
            table = known(first, UNSEEN)
            if table is UNSEEN:
                table = self._learn(first) if first >> PAGE_SHIFT in pages else None
            if table is None:
                if number != NONE:
                    add(number)
                    continue
                end = start + (usable if usable < LOOKED_AT else LOOKED_AT)
                if end > length:
                    end = length
                # as _other does, but without a call: it is what most blocks are of which something is to be told
                if quick and first >= least_text and not low <= first < high:
                    letters = LETTERS(data, start, end)
                    if letters is not None:
                        stop = letters.end()
                        if 2 * stop >= start + end and (stop == end or not data[stop]):
                            add(text)
                            continue
                add(other(words, data, at, end, base, usable))
            else:
                end = start + usable
                index = table.sizes.get(usable, NONE)
                # several objects side by side, or the first of its size
                if index == NONE or end > length or data.find(table.word, start + self._word, end) >= 0:
                    index = self._of_table(table, data, base, user, usable)
                add(index)
        return indices

    def _learn(self, first: int) -> Optional[_Table]:
        of = self._classes.of(first)
        word = first.to_bytes(self._word, self._memory.byte_order)
        self.tables[first] = _Table(of, word) if of is not None else None
        return self.tables[first]

    def of_table(self, first: int, usable: int, step: int) -> int:
        """The index of the kind of a block that begins with this word; NONE where that is no vtable. `step`: so far
        from one to the next it has the word, at equal steps; 0: it does not."""
        table = self.tables.get(first, UNSEEN)
        if table is UNSEEN:
            table = self._learn(first)
        if table is None:
            return NONE
        kind = Kind(table.of.name, table.of.kind, table.of.module, how=table.of.how)
        if step:
            return self.index_of(KindOfSize(kind._replace(name=f"{kind.name}[]"), step, kind))
        index = table.sizes.get(usable)
        if index is None:
            index = table.sizes[usable] = self.index_of(KindOfSize(kind, usable))
        return index

    def _of_table(self, table: _Table, data: bytes, base: int, user: int, usable: int) -> int:
        of, start, looked_at = table.of, user - base, min(usable, LONGEST_ARRAY)
        kind = Kind(of.name, of.kind, of.module, how=of.how)
        whole = data[start : start + looked_at]
        if len(whole) < looked_at:
            whole = self._memory.try_read(user, looked_at) or whole
        # new T[n], the body of a vector
        step = _repeats(whole, self._word)
        if step is not None:
            return self.index_of(KindOfSize(kind._replace(name=f"{of.name}[]"), step, kind))
        table.sizes[usable] = self.index_of(KindOfSize(kind, usable))
        return table.sizes[usable]

    def _other(self, words: Sequence[int], data: bytes, at: int, end: int, base: int, usable: int) -> int:
        """Whatever has no vtable; it begins with words[at], and `end` is how far data has it."""
        start = at * self._word
        count = (end - start) // self._word
        if self._fronts is not None:
            front = self._fronts.front_of(words, at, count, usable)
            if front is not None:
                return self._after_front(front, words, data, at, base, usable)
        for runtime in self._runtimes:
            kind = runtime.kind_of(words, at, count, usable)
            if kind is not None:
                return self.known(kind)
        for program in self._programs:
            kind = program.kind_of(base + start, usable, data[start:end])
            if kind is not None:
                return self.known(kind)
        first, low, high = words[at], self.low, self.high
        inside = low <= first < high
        if not first:
            if not data[start:end].strip(b"\0"):
                return self.known(ZEROS if usable <= LOOKED_AT else BEGINS)
        elif not inside and first >= self._least_text and STARTS[data[start]]:
            # an address can look like letters
            encoding = text_in(data, start, end)
            if encoding is not None:
                return self.known(TEXTS[encoding])
        # most have none: neither a colour, nor a pointer in front
        if count > 2 and (
            inside
            or low <= words[at + 1] < high
            or low <= words[at + 2] < high
            or not (first or words[at + 1])
            or first >> self._half & 0xFFFFFFFF < 2
        ):
            node = self._links.node_in(words, at, base, count, usable=usable)
            if node is not None:
                return self.known(NODES[node])
            if are_addresses(words[at : at + count], low, high, align=self._word, is_data=self.ground.is_data):
                return self.known(POINTERS)
        return self.by_size(usable)

    def _after_front(self, front: Front, words: Sequence[int], data: bytes, at: int, base: int, usable: int) -> int:
        """What a block is that has words of an allocator in front."""
        user, size = base + at * self._word, front.words * self._word
        fronts, self._fronts = self._fronts, None  # there is one header: damage may have another in each
        try:
            (index,) = self.classify_many(words, data, base, [user + size], [usable - size])
        finally:
            self._fronts = fronts
        if fronts is None or self.entries[index].kind.kind not in ("size", "zeros"):
            return index
        own = fronts.holds(front, words[at : at + HEAD], user)
        if own is not None:
            return self.known(Kind(own, "holder", how="its own header, after its allocator's"))
        return self.known(Kind(f"{front.of}: {_sized(front.bytes)}", "size", how="its allocator's header"))

    def front(self, user: int, usable: int) -> int:
        """How many bytes of an allocator's lie in front of what a block is for."""
        words = self._memory.try_words(user, min(4, usable // self._word)) if self._fronts is not None else None
        found = self._fronts.front_of(words, 0, len(words), usable) if self._fronts is not None and words else None
        return found.words * self._word if found is not None else 0

    def hands_out_pieces(self, user: int, usable: int) -> bool:
        """Whether what comes after such a header is a pool of the same program's."""
        words, fronts = self._memory.try_words(user, min(HEAD, usable // self._word)), self._fronts
        if fronts is None or words is None:
            return False
        front = fronts.front_of(words, 0, len(words), usable)
        return front is not None and fronts.holds(front, words, user) is not None

    @property
    def asks_blocks_alone(self) -> bool:
        """Whether no runtime and no program has words of its own, which may tell of other blocks."""
        return not (self._runtimes or self._programs or self._fronts)

    @property
    def has_fronts(self) -> bool:
        return self._fronts is not None

    @property
    def front_sizes(self) -> Sequence[int]:
        return self._fronts.sizes if self._fronts is not None else ()

    def known(self, kind: Kind) -> int:
        """The same as `plain` of a kind that has many blocks."""
        index = self._plain.get(kind)
        if index is None:
            index = self._plain[kind] = self.plain(kind)
        return index

    def by_size(self, usable: int) -> int:
        index = self._by_size.get(usable)
        if index is None:
            name = _sized(usable + self._word)
            index = self._by_size[usable] = self.plain(Kind(name, "size", how=BY_SIZE))
        return index
