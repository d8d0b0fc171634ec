"""What each block is: every recogniser in its order, which is nowhere else.

Where a program puts words of its own in front of its blocks (`mysql.py`, `jvm.py`), all this is asked
of what comes after them.

1. A vtable in the first word: C++ objects, named as people write them (`cplusplus.py`, `base/class_names.py`). Certain.
2. A type in the words where CPython or GObject has it (`python.py`, `gobject.py`). Certain.
3. The structs of well-known programs, where these run. Certain, but for what says so.
4. Links that lead back. A guess.
5. What the contents look like (`contents.py`). Guesses, but for zeros.
6. The size.

Nothing overrides what is certain; what holders tell (`named_by_holders.py`) comes after all of it, and overrides
guesses only.
"""

from __future__ import annotations

from array import array
from typing import Callable, Collection, Iterator, Mapping, NamedTuple, Optional, Protocol, Sequence, runtime_checkable

from ...base.heap_model import BY_SIZE, Kind
from ...base.progress_bar import Unseen
from ...engine import CONTENTS, EngineImage, fill, places_of
from ...glibc.malloc_chunk import SIZE_BITS
from ...sources.target import Span, joined
from .container_words import LIST, PAGES, TREE
from .cplusplus import Classes
from .glib import Glib
from .gobject import GObjects
from .jvm import Jvm, Nmt
from .memcached import Memcached
from .module_memory import LoadedModules
from .mysql import Mysql
from .nginx import Nginx
from .perl import Perl
from .php import Php
from .postgres import Postgres
from .python import Python
from .redis import Redis
from .ruby import Ruby
from .selection import ENCODINGS, USABLE, USER, Found, Front, Numbers, Selection
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
        program = ground.modules.program
        self.runs = program is not None and program.name in PROGRAMS

    def kinds(self, blocks: Selection) -> Found:
        limit, before = USER.word(0), USER.word(1)
        size = (before.word(-1) & ~SIZE_BITS) - 8
        is_sound = (USABLE >= LEAST) & (limit - USER).fits() & before.is_multiple(FRONT)
        yield blocks.where(is_sound & ((before == 0) | (before.word() - before).fits(size))), CHUNK


class Recogniser(Protocol):
    """The structs of one program, or the objects of one runtime."""

    @property
    def runs(self) -> bool: ...

    def kinds(self, blocks: Selection) -> Found:
        """What some of these are."""


@runtime_checkable
class RuntimeKeeper(Protocol):
    """A runtime whose objects keep blocks."""

    holders: Collection[str]
    """What blocks are called that are objects, or full of them."""
    apart: bool
    """Others lie in memory that it maps by itself."""
    past: Sequence[int]
    """How far into such a block they may point."""

    def kept(self, pointers: Selection) -> Found:
        """What blocks are that words lead to, by the numbers of these: USER is where a word lies, USABLE what is usable
        of the block, BASE the block that has the word, or 0."""


class Fronts(Protocol):
    """What a program puts in front of its blocks."""

    runs: bool
    sizes: Sequence[int]
    """How many bytes that may be."""

    def fronts(self, blocks: Selection) -> Iterator[tuple[Numbers, Front]]:
        """What some of these have in front, what is surest first."""


def programs_in(ground: LoadedModules) -> Sequence[Recogniser]:
    if ground.memory.pointer_size != 8 or ground.memory.byte_order != "little":
        return ()
    every: Sequence[Recogniser] = (
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
ZEROS = Kind("zeros", "zeros", how="its bytes")
BEGINS = Kind("first bytes are zero", "zeros", certain=False, how="its first bytes")
POINTERS = Kind("mostly pointers", "pointers", certain=False, how="its words")
TEXTS = {name: Kind(f"text, {name}", "text", certain=False, how="its bytes") for name in ENCODINGS}
NODES = {name: Kind(name, "node", certain=False, how="its links, which lead back") for name in (TREE, LIST, PAGES)}
UNTOLD = Kind("remains of objects", "size", how=BY_SIZE)
"""It begins as an array does, of something of another size."""


KINDS = {
    "zeros": ZEROS,
    "begins with zeros": BEGINS,
    **TEXTS,
    "tree node": NODES[TREE],
    "list node": NODES[LIST],
    "linked pages": NODES[PAGES],
    "pointers": POINTERS,
}
"""By what the engine calls contents."""


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


class BlockKinds(NamedTuple):
    """What the blocks of a table are by their own words."""

    kinds: array[int]
    """The numbers of their kinds."""
    has_table: bytearray
    """Of each whether it begins with a vtable."""


class InFront(NamedTuple):
    """What a block has in front of what it is for."""

    bytes: int
    holds_pieces: bool
    """What comes after it is handed out in small pieces."""


NOTHING = InFront(0, False)


class Catalogue:
    """The kinds of one image, as far as they have been met."""

    def __init__(self, ground: LoadedModules, low: int, high: int, blocks: Callable[[], EngineImage]) -> None:
        """All heaps lie within [low, high); `blocks` makes the table of all live blocks."""
        self.entries: list[KindOfSize] = []
        self._index: dict[KindOfSize, int] = {}
        self.ground = ground
        self._word = ground.memory.pointer_size
        self.low, self.high = low, high
        self._blocks = blocks
        self._classes = Classes(ground)
        self._tables: dict[int, Optional[Kind]] = {}
        """What begins with it, by the first word of blocks; None: it is no vtable."""
        self._by_size: Sizes = {}
        self.python = Python(ground, low, high)
        runtimes: Sequence[Recogniser] = (self.python, GObjects(ground, low, high))
        self._recognisers = [*(each for each in runtimes if each.runs), *programs_in(ground)]
        self.keepers = [each for each in self._recognisers if isinstance(each, RuntimeKeeper)]
        fronts: Sequence[Fronts] = (Mysql(ground), Nmt(ground))
        self._fronts = next((each for each in fronts if each.runs), None)
        self._in_front: Optional[dict[int, InFront]] = None if self._fronts is not None else {}
        """By the blocks that have a front."""

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

    def kinds_of(self, engine: EngineImage) -> BlockKinds:
        """What all blocks of its table are."""
        found = self._without_fronts(engine)
        if self._fronts is not None:
            blocks = Selection(engine)
            fronts: dict[int, Front] = {}
            for numbers, front in self._fronts.fronts(blocks):
                fronts.update((each, front) for each in numbers if each not in fronts and not found.has_table[each])
            self._in_front = self._behind(engine, fronts, found.kinds)
        return found

    def _without_fronts(self, engine: EngineImage) -> BlockKinds:
        blocks = Selection(engine)
        usables = blocks.column(USABLE)
        kinds, has_table = array("i", [NONE]) * blocks.count, bytearray(blocks.count)
        for first, block, step in engine.beginning_with(self.ground.page_spans, Unseen()):
            kinds[block] = self._of_table(first, usables[block], step)
            has_table[block] = kinds[block] != NONE
        for recogniser in self._recognisers:
            for numbers, kind in recogniser.kinds(blocks):
                fill(kinds, numbers, self.plain(kind))
        data = [Span(each.start, each.end) for each in self.ground.regions if each.writable]
        contents = engine.contents(self.low, self.high, joined(sorted(data)), kinds, Unseen())
        for number, name in enumerate(CONTENTS):
            if name in KINDS:
                fill(kinds, places_of(number, contents), self.plain(KINDS[name]))
        rest = places_of(NONE & 0xFFFFFFFF, kinds)
        sizes = array("Q", map(usables.__getitem__, rest))
        by_size = {size: self.by_size(size) for size in {*sizes}}
        for block, size in zip(rest, sizes):
            kinds[block] = by_size[size]
        return BlockKinds(kinds, has_table)

    def _behind(self, engine: EngineImage, fronts: Mapping[int, Front], kinds: array[int]) -> dict[int, InFront]:
        """Puts down what those blocks are by what comes after their fronts, and returns the fronts by address."""
        order = sorted(fronts)
        starts, ends, sizes = engine.blocks()
        users = array("Q", [starts[each] + fronts[each].bytes for each in order])
        behind = engine.beside(users, *(array("Q", [one[each] for each in order]) for one in (ends, sizes)))
        blocks, own = Selection(behind), self._without_fronts(behind).kinds
        in_front = {}
        places: dict[int, tuple[Front, array[int]]] = {}
        for number, block in enumerate(order):
            front = fronts[block]
            places.setdefault(id(front), (front, array("I")))[1].append(number)
        for front, numbers in places.values():
            held = {each: name for name, holds in front.holds.items() for each in blocks.where(holds, numbers)}
            for number, asked in zip(numbers, blocks.column(front.asked, numbers)):
                kind = own[number]
                name = held.get(number)
                if self.entries[kind].kind.kind in ("size", "zeros"):
                    how = "its own header, after its allocator's" if name else "its allocator's header"
                    told = name or f"{front.of}: {_sized(asked)}"
                    kind = self.plain(Kind(told, "holder" if name else "size", how=how))
                kinds[order[number]] = kind
                in_front[starts[order[number]]] = InFront(front.bytes, name is not None)
        return in_front

    def _of_table(self, first: int, usable: int, step: int) -> int:
        """The number of the kind of a block that begins with this word; NONE where that is no vtable. `step`: so far
        from one to the next it has the word, at equal steps; 0: it does not."""
        if first not in self._tables:
            self._tables[first] = self._classes.of(first)
        kind = self._tables[first]
        if kind is None:
            return NONE
        if step:
            return self.index_of(KindOfSize(kind._replace(name=f"{kind.name}[]"), step, kind))
        return self.index_of(KindOfSize(kind, usable))

    def in_front(self, user: int) -> InFront:
        """What an allocator of the program's has in front of what a block is for."""
        if self._in_front is None:
            self.kinds_of(self._blocks())
        return (self._in_front or {}).get(user, NOTHING)

    def front(self, user: int) -> int:
        """How many bytes of it there are."""
        return self.in_front(user).bytes

    @property
    def asks_blocks_alone(self) -> bool:
        """Whether no runtime and no program has words of its own, which may tell of other blocks."""
        return not (self._recognisers or self._fronts)

    @property
    def has_fronts(self) -> bool:
        return self._fronts is not None

    @property
    def front_sizes(self) -> Sequence[int]:
        return self._fronts.sizes if self._fronts is not None else ()

    def by_size(self, usable: int) -> int:
        index = self._by_size.get(usable)
        if index is None:
            name = _sized(usable + self._word)
            index = self._by_size[usable] = self.plain(Kind(name, "size", how=BY_SIZE))
        return index
