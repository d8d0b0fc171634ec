"""Blocks named by their holders: a second pass, over globals, stacks and what is known already.

What a container tells is certain. A plain pointer from an object of a known class names what it points to after it:
"Session+40 body", a guess.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, deque
from itertools import chain
from typing import Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..base.class_names import APART
from ..base.heap_model import POINTED, Kind
from ..base.progress_bar import Meter
from ..engine import EngineImage, FoundBodies, HolderGround, fill
from ..glibc.mmapped_chunks import without
from ..session.session import Session
from ..sources.target import Region, Span, SymbolPlace, text_of
from .block_index import WEAK_EVIDENCE, Index, Known, is_weak
from .graph.blocks import EDGE_SHIFT
from .recognise.all_recognisers import EXACT, NONE, Catalogue, RuntimeKeeper
from .recognise.container_words import LIST, POOL, TREE
from .recognise.python import DEQUE_BLOCK, DEQUE_NEXT, DICT_KEYS, TO_KEYS, Python
from .recognise.selection import Places, Selection

MOST_BYTES = 16 << 30
HOLDER = 4096
"""So much of a block of objects that keep others."""
OBJECT = 512
"""So much of an object that is a block: what its type has a place for lies in front."""
Rows = tuple["array[int]", "array[int]"]
"""Where blocks, or what they are for, begin, in order, and what is usable of each."""


class BlockWords(NamedTuple):
    """Words that lead to some blocks."""

    words: Selection
    """USABLE is that of the block, BASE the block that has the word, or 0."""
    addresses: array[int]
    bases: array[int]
    targets: array[int]


class Searched(NamedTuple):
    """Where words are looked for."""

    arenas: Sequence[Span]
    blocks: Sequence[Span]


def words_to(engine: EngineImage, rows: Rows, where: Searched, meter: Meter, past: Sequence[int] = (0,)) -> BlockWords:
    """Those that lead to the beginnings of these, or so far past them."""
    starts, sizes = rows
    table = engine.beside(starts, array("Q", [start + max(past) for start in starts]), sizes)
    addresses, usables, bases, targets = (array("Q") for _ in range(4))
    arenas = len(where.arenas)
    for address, value, edge, span in table.pointers([*where.arenas, *where.blocks], meter):
        number = edge >> EDGE_SHIFT
        if value - starts[number] in past:
            addresses.append(address)
            usables.append(sizes[number])
            bases.append(where.blocks[span - arenas].start if span >= arenas else 0)
            targets.append(starts[number])
    return BlockWords(Selection(engine, Places(addresses, usables, bases)), addresses, bases, targets)


def _rows(index: Index, kinds: set[int], fronts: Sequence[int] = ()) -> Rows:
    """The blocks of these kinds, and what they are for, so far behind their beginnings."""
    rows = index.rows_of(kinds)
    if not fronts:
        return rows
    every = dict(zip(*rows))
    for user, usable in zip(*rows):
        front = index.front(user)
        if front:
            every[user + front] = usable - front
    return _in_order(every)


def _in_order(usables: Mapping[int, int]) -> Rows:
    return array("Q", sorted(usables)), array("Q", [usables[start] for start in sorted(usables)])


def name_bodies(
    session: Session, engine: EngineImage, index: Index, keeper: RuntimeKeeper
) -> Iterator[tuple[int, Kind]]:
    """What to call blocks of which nothing certain is known, by their addresses."""
    weak = {number for number in range(len(index.names)) if index.is_weak(number)}
    holders = {number for number, kind in enumerate(index.names) if kind.name in keeper.holders}
    blocks = [Span(user, user + min(usable, HOLDER)) for user, usable, _ in index.of_kinds(holders)]
    where = Searched(list(_arenas(session)) if keeper.apart else (), blocks)
    rows = _rows(index, weak, index.fronts) if any(where) else None
    if rows is None or not rows[0]:
        return
    with session.meter("looking into objects", sum(each.bytes for part in where for each in part)) as meter:
        found = words_to(engine, rows, where, meter, keeper.past)
    told, names = array("i", [NONE]) * len(found.targets), list[Kind]()
    for numbers, kind in keeper.kept(found.words):
        fill(told, numbers, len(names))
        names.append(kind)
    for target, base, name in zip(found.targets, found.bases, told):
        # in a block there may be what it was before
        if name != NONE and index.usable(target) is not None and (names[name].certain or not base):
            yield target, names[name]
            if names[name].name == DEQUE_BLOCK:
                yield from _next_ones(session, index, target, names[name])


def name_keys_of_objects(
    session: Session, engine: EngineImage, index: Index, python: Python
) -> Iterator[tuple[int, Kind]]:
    """Tables of keys of what objects have as their __dict__, by the type of these. Other dicts say nothing."""
    tables = {number for number, kind in enumerate(index.names) if kind == DICT_KEYS}
    rows = _rows(index, tables)
    if not rows[0]:
        return
    own = {number for number, kind in enumerate(index.names) if kind.kind == "python"} - tables
    objects = [Span(user, user + min(usable, OBJECT)) for user, usable, _ in index.of_kinds(own)]
    where = Searched(list(_arenas(session)), objects)
    with session.meter("looking for Python's dicts", 2 * sum(each.bytes for part in where for each in part)) as meter:
        to_tables = words_to(engine, rows, where, meter)
        dicts = {
            to_tables.addresses[each] - TO_KEYS * session.layout.word: to_tables.targets[each]
            for some in python.dicts(to_tables.words)
            for each in some
        }
        to_dicts = words_to(engine, _in_order(dict.fromkeys(dicts, 0)), where, meter)
    told: dict[int, Kind] = {}
    doubtful = set()
    for numbers, kind in python.keys(to_dicts.words):
        for each in numbers:
            if told.setdefault(to_dicts.targets[each], kind) != kind:
                doubtful.add(to_dicts.targets[each])
    for start, kind in told.items():
        if start not in doubtful:
            yield dicts[start], kind


def _next_ones(session: Session, index: Index, user: int, kind: Kind) -> Iterator[tuple[int, Kind]]:
    """The other blocks of a deque; each is named before the next is looked for."""
    while True:
        following = index.words(user + DEQUE_NEXT * session.layout.word, 1)
        if following is None or index.usable(following[0]) is None:
            return
        (user,) = following
        yield user, kind


def _arenas(session: Session) -> Iterator[Span]:
    """Where these lie: anonymous memory of the program's own that is not malloc's."""
    taken = sorted(
        [
            *session.heap_ranges,
            *((block.base, block.base + block.bytes) for block in session.mmapped),
        ]
    )
    pointers = [thread.stack_pointer for thread in session.target_threads if thread.stack_pointer]
    left = MOST_BYTES
    for region in session.regions:
        if _may_be(region) and not any(region.contains(pointer) for pointer in pointers):
            for start, end in without(region, taken):
                if 0 < end - start <= left:
                    left -= end - start
                    yield Span(start, end)


def _may_be(region: Region) -> bool:
    return not region.path and region.writable and region.readable and region.present and not region.shared


DEEPEST = 4
MOST_BLOCKS = 1 << 15
"""Blocks that are looked through."""
LARGEST_LOOK = 16 << 10
"""So much of each."""
MOST_OF_ONE = 64
"""Of what one block points to, so many are looked through."""
VAGUE = ("size", "zeros")


class VariablePath(NamedTuple):
    """To a block, from a variable."""

    user: int
    name: str
    deep: int


def name_by_ways(index: Index, ways: Iterable[VariablePath]) -> Iterator[tuple[int, Kind]]:
    """What to call them, by their addresses; `ways` are those of one pointer."""
    kinds = index.names
    left = sum(blocks for kind, blocks in Counter(index.kinds).items() if kind != NONE and kinds[kind].kind in VAGUE)
    met: set[int] = set()
    following = deque(ways)
    looked = 0
    while following and left and looked < MOST_BLOCKS:
        way = following.popleft()
        block = index.block(way.user)
        if block is None or way.user in met:
            continue
        met.add(way.user)
        looked += 1
        # what is small is one thing, and each place in it has its meaning
        single, followed = block.usable <= EXACT, 0
        for at, word in index.pointers(way.user, min(block.usable, LARGEST_LOOK)):
            led_to = index.block(word) if word not in met else None
            if led_to is None or led_to.kind == NONE or kinds[led_to.kind].kind not in WEAK_EVIDENCE:
                continue
            # one of a list
            alike = led_to.usable == block.usable
            name = way.name if alike else f"{way.name}->+{at}" if single else f"{way.name}[]"
            if led_to.usable > EXACT and kinds[led_to.kind].kind in VAGUE:
                yield word, Kind(f"{name} body", "holder", None, False, how=POINTED, owner=name)
                left -= 1
            if way.deep < DEEPEST and followed < MOST_OF_ONE:
                following.append(VariablePath(word, name, way.deep + (not alike)))
                followed += 1


DATA = Kind("ArrayBuffer data", "holder", how="its v8::BackingStore, and the length there")


# as in container_bodies.rs: what is told of kinds, of the program, of functions; names, and parts of what they are for
WEAK_KIND, HOLDER_KIND, PLAIN_KIND, CONTROL_KIND, NODE_KIND = 1, 2, 4, 8, 16
SINGLE_KIND, MEMBER_KIND, APART_KIND, APART_MEMBER, LINKS_SHIFT = 32, 64, 128, 256, 16
OF_CPLUSPLUS, OF_RUST, MAY_HAVE_LIBCXX = 1, 2, 4
NO_MANAGER, MANAGER, NAMELESS = 0, 1, 2
NOBODY, FIRST_NAME = (1 << 64) - 1, 1 << 32
ON_A_STACK = FIRST_NAME - 1
VARIABLE, BEHIND = 0, 1
MEMBERS = ("v8::BackingStore", "v8::internal::BackingStore")
"""Classes whose objects begin with a pointer to a block and how many bytes that has: buffer_start_, byte_length_."""
GLOBALS = 64 << 20
"""So much of a module's data."""
STACK = 1 << 20
STACKS = 64 << 20
"""So much of each stack, and of all."""
LARGE = 64 << 10
"""A block so large has a row for itself: by the very place that points to it."""
SELDOM = 8
"""A member is a pointer where one object in so many has one there."""
_SHARED = re.compile(re.escape(APART).replace(r"\{\}", "(.+)"))
HOLDERS = ("c++", "control", "gobject", "node")
PLAIN = ("size", "pointers")
HASHED = "std::unordered_map node"
LINKS = {TREE: 4, LIST: 2, HASHED: 1}
"""Words in front of what a node is for."""
BODIES = (
    ("stdio buffer", "holder"),
    ("Vec<u8> or String body", "string"),
    ("Vec body", "vector"),
    ("std::string body", "string"),
    ("std::u16string body", "string"),
    ("std::wstring body", "string"),
    ("std::vector body", "vector"),
    ("std::deque body", "vector"),
    ("std::unordered_map buckets", "node"),
    (HASHED, "node"),
    (TREE, "node"),
    (LIST, "node"),
    ("HashMap or HashSet table", "holder"),
    (POOL, "holder"),
    ("std::function body", "holder"),
)
"""What bodies are called, and their kinds, in the order of container_bodies.rs."""
MEMBER, APART_OBJECT = 15, 16
"""What a member points to, and the object of a control block that stands apart from it, come after these."""
MANAGES = "_M_manager"
"""What copies and destroys a std::function's body is called so in each class that makes one."""


def of_libstdcxx(variable: Optional[SymbolPlace]) -> bool:
    """Whether its emergency pool may be held there."""
    return variable is not None and (variable.name.startswith("libstdc++.so") or "emergency_pool" in variable.name)


def _flags(kind: Kind) -> int:
    """What the engine has to know of a kind."""
    apart = _SHARED.fullmatch(kind.name) if kind.kind == "control" else None
    told = {
        WEAK_KIND: is_weak(kind),
        HOLDER_KIND: kind.kind in HOLDERS,
        PLAIN_KIND: kind.kind in PLAIN,
        CONTROL_KIND: kind.kind == "control",
        NODE_KIND: kind.kind == "node",
        SINGLE_KIND: not kind.name.endswith("[]"),
        MEMBER_KIND: kind.name in MEMBERS,
        APART_KIND: apart is not None,
        APART_MEMBER: apart is not None and apart[1] in MEMBERS,
    }
    return sum(flag for flag, holds in told.items() if holds) | LINKS.get(kind.name, 0) << LINKS_SHIFT


class HolderPass:
    """Names what is not certain yet: the engine looks into holders, and here their bodies get names."""

    def __init__(self, session: Session, catalogue: Catalogue, engine: EngineImage, index: Index) -> None:
        """`engine` has the image's memory."""
        self._session, self._catalogue, self._engine = session, catalogue, engine
        self._index, self._kinds = index, index.names
        self._word = session.layout.word
        self._plain: Sequence[tuple[int, ...]] = ()
        """Pointers that are in no container: what they name comes last, as it is a guess."""
        self._names: dict[int, Optional[str]] = {}
        self._objects_of: Counter[int] = Counter()

    def run(self, declared: Sequence[Known]) -> None:
        """Raises KeyboardInterrupt, and what was named until then is. `declared`: holders that have the names of their
        types already, with the kinds that they had before, in address order."""
        where = self._session, self._engine, self._index
        self._look_into_holders(declared)
        for keeper in self._catalogue.keepers:
            self._put_all(name_bodies(*where, keeper))
        if self._catalogue.python.runs:
            self._put_all(name_keys_of_objects(*where, self._catalogue.python))
        self._name_plainly()
        self._put_all(name_by_ways(self._index, self._ways()))

    def _put_all(self, found: Iterable[tuple[int, Kind]]) -> None:
        """Each is noted before the next is looked for."""
        for user, kind in found:
            self._index.put(user, self._number(kind))

    def _look_into_holders(self, declared: Sequence[Known]) -> None:
        ground, managers, count = self._ground(declared), dict[int, int](), len(self._index.kinds)
        while True:
            kinds = array("i", self._index.kinds)
            with self._session.meter("looking into holders", count) as meter:
                found = self._engine.bodies(kinds, ground, managers, meter)
            if found.ended is not None or not found.asked:
                break
            managers.update((each, self._manager(each)) for each in found.asked)
        self._take(found, kinds)
        if found.ended is not None:
            raise found.ended

    def _manager(self, address: int) -> int:
        """What a symbol says of a function that may manage a std::function's body."""
        place = self._session.target.describe(address)
        if place is None or place.in_file:
            return NAMELESS
        return MANAGER if MANAGES in place.name else NO_MANAGER

    def _ground(self, declared: Sequence[Known]) -> HolderGround:
        catalogue, index, layout = self._catalogue, self._index, self._session.layout
        ground = catalogue.ground
        classes = any(kind.kind in ("c++", "control") for kind in self._kinds) or ground.has_cplusplus
        rust = not classes and ground.has_rust
        program = OF_CPLUSPLUS if classes else OF_RUST if rust else 0
        program |= MAY_HAVE_LIBCXX if ground.may_have_libcxx else 0
        # where what blocks are for begins after a header, or pointers lead to what comes first of two things in it
        skew, mask = 0, self._word - 1
        if not (catalogue.has_fronts or rust):
            skew, mask = layout.first_aligned(0) + layout.header, layout.mask
        code = sorted(
            Span(each.start, each.end)
            for each in self._session.regions
            if each.executable and ground.modules.at(each.start)
        )
        return HolderGround(
            array("I", map(_flags, self._kinds)),
            array("I", map(index.front, index.starts) if catalogue.has_fronts else ()),
            array("Q", sorted(index.mapped)),
            array("Q", chain.from_iterable(self._fixed())),
            array("Q", chain.from_iterable(declared)),
            code,
            (index.low, index.high, skew, mask, program),
        )

    def _fixed(self) -> Iterator[tuple[int, int, bool]]:
        """(start, bytes, whether it is a stack) of variables of modules, and of what lies on stacks."""
        ends = self._session.bss_ends
        bss = {each.start: each._replace(end=ends[each.start]) for each in self._session.regions if each.start in ends}
        for module in self._catalogue.ground.modules.all:
            last = module.regions[-1]
            for region in [*module.regions, *filter(None, [bss.get(last.end)])]:
                if region.writable and region.present and not region.shared:
                    # the break can go on where .bss ends
                    for start, end in without(region, self._session.heap_ranges):
                        yield start, min(end - start, GLOBALS), False
        threads = self._session.target_threads
        limit = min(STACK, STACKS // max(1, len(threads)))
        for thread in threads:
            pointer = thread.stack_pointer
            within = [each for each in self._session.regions if pointer and each.contains(pointer)]
            if pointer and within:
                start = pointer // self._word * self._word
                yield start, min(within[0].end - start, limit), True

    def _take(self, found: FoundBodies, kinds: array[int]) -> None:
        """Gives the bodies their names."""
        given = len(self._kinds)
        shared = [_SHARED.fullmatch(kind.name) for kind in self._kinds]
        texts: list[Optional[str]] = []

        def called(name: int) -> Optional[str]:
            """What a name stands for: "Session+40", "g_sessions[]"; None: nobody."""
            if name == NOBODY:
                return None
            if name >= FIRST_NAME:
                return texts[name - FIRST_NAME]
            if name == ON_A_STACK or name < given:
                return "stack" if name == ON_A_STACK else self._kinds[name].name
            form, _, owner = found.kinds[name - given]
            apart = shared[owner] if form == APART_OBJECT else None
            return apart[1] if apart is not None else BODIES[form][0]

        for of, part, number in found.names:
            if part == VARIABLE:
                texts.append(self._variable(of))
                continue
            whole = called(of)
            if part == BEHIND:
                texts.append(f"{whole}+{number}")
            else:
                texts.append(f"{whole}[]" if whole is not None else BODIES[number][0])
        numbers = list(range(given))
        for form, certain, owner in found.kinds:
            apart = shared[owner] if form == APART_OBJECT else None
            if apart is not None:
                kind = Kind(apart[1], "c++", self._kinds[owner].module, True, how="its control block")
            elif form == MEMBER:
                kind = DATA
            else:
                name, of_kind = BODIES[form]
                sure = bool(certain) or (name == POOL and of_libstdcxx(self._session.target.describe(owner)))
                whose = self._variable(owner) if name == POOL else called(owner)
                kind = Kind(name, of_kind, None, sure, how="its container's words", owner=whose)
            numbers.append(self._number(kind))
        for at, count in enumerate(found.objects):
            self._objects_of[numbers[at]] += count
        self._plain = [(*row, numbers[kind] if kind != NOBODY else NONE) for *row, kind in found.plain]
        # of what has no kind the number is -1, the last
        numbers.append(NONE)
        self._index.kinds[:] = array("i", map(numbers.__getitem__, kinds))

    def _name_plainly(self) -> None:
        """By objects first: a variable may hold the address of anything."""
        places = Counter((kind, address - start) for _, address, start, kind in self._plain if kind != NONE)
        for objects in (True, False):
            weak = ("size", "zeros", "pointers") if objects else ("size",)
            for user, address, start, kind in self._plain:
                if (kind != NONE) != objects:
                    continue
                # a member that is no pointer may have what was there before
                if objects and places[kind, address - start] * SELDOM < self._objects_of[kind]:
                    continue
                known = self._index.block(user)
                if known is None or known.kind == NONE or self._kinds[known.kind].kind not in weak:
                    continue
                owner = self._owner(address, start, kind)
                if owner is not None and not objects and known.usable >= LARGE:
                    owner = text_of(self._session.target.describe(address)) or owner
                if owner is not None:
                    named = Kind(f"{owner} body", "holder", None, False, how=POINTED, owner=owner)
                    self._index.put(user, self._number(named))

    def _ways(self) -> Iterator[VariablePath]:
        """What variables point to, and the name of each."""
        for user, address, _, kind in self._plain:
            place = self._session.target.describe(address) if kind == NONE else None
            if place is not None:
                yield VariablePath(user, place.text, 1)

    def _owner(self, address: int, start: int, kind: int) -> Optional[str]:
        if kind == NONE:
            return self._variable(address)
        name = self._kinds[kind].name
        return name if name.endswith("[]") else f"{name}+{address - start}"

    def _variable(self, address: int) -> Optional[str]:
        if address not in self._names:
            # a variable is told by its symbol alone, and an array has as many places as elements
            variable = self._session.target.describe(address)
            self._names[address] = variable.name or None if variable is not None else None
        return self._names[address]

    def _number(self, kind: Kind) -> int:
        number = self._catalogue.plain(kind)
        for entry in self._catalogue.entries[len(self._kinds) :]:
            self._kinds.append(entry.kind)
        return number
