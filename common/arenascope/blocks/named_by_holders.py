"""Blocks named by their holders: a second pass, over globals, stacks and what is known already.

What a container tells is certain. A plain pointer from an object of a known class names what it points to after it:
"Session+40 body", a guess.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, deque
from heapq import merge
from operator import add
from typing import Callable, Container, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..base.class_names import APART
from ..base.meter import Meter, Unseen
from ..base.model import POINTED, Kind
from ..engine import EngineImage, fill
from ..glibc.mmapped import without
from ..session.session import Session
from ..sources.target import Region, Span, SymbolPlace, text_of
from .block_index import WEAK, Index, Known
from .graph.blocks import FLAGS
from .recognise.all_recognisers import EXACT, NONE, Catalogue, RuntimeKeeper
from .recognise.containers import HASHED, LIST, POOL, TREE, ContainerBlock, Forms
from .recognise.module_memory import fits
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
        number = edge >> FLAGS
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
    session: Session, engine: EngineImage, index: Index, keeper: RuntimeKeeper, kinds: Sequence[Kind]
) -> Iterator[tuple[int, Kind]]:
    """What to call blocks of which nothing certain is known, by their addresses."""
    weak = {number for number in range(len(kinds)) if index.is_weak(number)}
    holders = {number for number, kind in enumerate(kinds) if kind.name in keeper.holders}
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
    session: Session, engine: EngineImage, index: Index, python: Python, kinds: Sequence[Kind]
) -> Iterator[tuple[int, Kind]]:
    """Tables of keys of what objects have as their __dict__, by the type of these. Other dicts say nothing."""
    tables = {number for number, kind in enumerate(kinds) if kind == DICT_KEYS}
    rows = _rows(index, tables)
    if not rows[0]:
        return
    own = {number for number, kind in enumerate(kinds) if kind.kind == "python"} - tables
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
            *((heap.address, heap.end) for each in session.heaps.values() for heap in each),
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


def name_by_ways(index: Index, kinds: Sequence[Kind], ways: Iterable[VariablePath]) -> Iterator[tuple[int, Kind]]:
    """What to call them, by their addresses; `ways` are those of one pointer."""
    left = _vague_blocks(index, kinds)
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
            if led_to is None or led_to.kind == NONE or kinds[led_to.kind].kind not in WEAK:
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


def _vague_blocks(index: Index, kinds: Sequence[Kind]) -> int:
    """How many there are at most."""
    counts: Counter[int] = index.counts()
    return sum(blocks for kind, blocks in counts.items() if kind != NONE and kinds[kind].kind in VAGUE)


LARGEST = 64 << 10
"""So much of a holder is looked through."""
LINKS = {TREE: 4, LIST: 2, HASHED: 1}
"""Words in front of what a node is for."""


class Area(NamedTuple):
    """Memory in which holders lie."""

    start: int
    bytes: int
    name: Optional[str]
    """None: that of the variable there. Empty: nobody's."""
    single: bool = True
    """One thing, in which every place has its meaning; in a list of them none has."""
    links: int = 0
    """So many bytes in front only link it to others."""
    kind: int = NONE
    """Its number, where it is an object."""


class LookedAt(NamedTuple):
    """An area, or a part of it."""

    area: Area
    start: int
    """Where the words lie."""
    words: Sequence[int]
    likely: Sequence[int]
    """The indices of those that may lead to blocks which holders can name."""


Likely = Callable[[Sequence[int]], Sequence[int]]
"""The indices of the words that may lead to a block."""


class HolderWords:
    """The words of what holds blocks."""

    def __init__(
        self, session: Session, engine: EngineImage, index: Index, kinds: Sequence[Kind], leads_inside: bool
    ) -> None:
        """`leads_inside`: pointers may lead there, and not to beginnings of blocks alone."""
        self._session, self._engine, self._index, self._kinds = session, engine, index, kinds
        self._leads_inside = leads_inside

    def of(
        self, kinds: set[int], meter: Meter, barren: Container[int] = (), declared: Iterable[Known] = ()
    ) -> Iterator[tuple[int, Optional[LookedAt]]]:
        """For each block of these kinds its kind's number and what follows its links; None where no word leads to a
        block that can be named. None of a kind that turns out to be `barren`."""
        areas = [self._area(*known) for known in merge(self._index.of_kinds(kinds), declared)]
        for area, likely in zip(areas, self.likely(areas, meter)):
            if area.kind not in barren:
                yield area.kind, self._looked_at(area, likely) if likely else None

    def _area(self, user: int, usable: int, number: int) -> Area:
        name = self._kinds[number].name
        links = LINKS.get(name, 0) * self._session.layout.word
        return Area(user, min(usable, LARGEST), name, not name.endswith("[]"), links=links, kind=number)

    def _looked_at(self, area: Area, likely: Sequence[int]) -> LookedAt:
        start, word = area.start + area.links, self._session.layout.word
        return LookedAt(area, start, self._index.words(start, (area.bytes - area.links) // word) or (), likely)

    def likely(self, areas: Sequence[Area], meter: Meter) -> Iterator[list[int]]:
        """Of each area the indices of words, after its links, that lead to blocks which holders can name."""
        weak = {number for number in range(len(self._kinds)) if self._index.is_weak(number)}
        (starts, usables), word = _rows(self._index, weak, self._index.fronts), self._session.layout.word
        ends = array("Q", map(add, starts, usables)) if self._leads_inside else starts
        table = self._engine.beside(starts, ends, usables)
        spans = [Span(each.start + each.links, each.start + max(each.bytes, each.links)) for each in areas]
        hits = ((span, address) for address, value, _, span in table.pointers(spans, meter) if not value % word)
        following = next(hits, None)
        for number, span in enumerate(spans):
            likely = []
            while following is not None and following[0] == number:
                likely.append((following[1] - span.start) // word)
                following = next(hits, None)
            yield likely


DATA = Kind("ArrayBuffer data", "holder", how="its v8::BackingStore, and the length there")


class BlockPointer(NamedTuple):
    """A member that points to a block."""

    place: int
    """Of the pointer among the object's words."""
    length: int
    """Of the bytes."""
    kind: Kind


BUFFER_START = BlockPointer(0, 1, DATA)
"""Where v8::internal::BackingStore begins: buffer_start_, byte_length_, max_byte_length_."""
MEMBERS: Mapping[str, BlockPointer] = {
    "v8::BackingStore": BUFFER_START,
    "v8::internal::BackingStore": BUFFER_START,
}


def kept_by_member(class_name: Optional[str], words: Sequence[int]) -> Optional[BlockPointer]:
    """The member of an object that points to a block, if its class is known here."""
    member = MEMBERS.get(class_name or "")
    return member if member is not None and len(words) > max(member.place, member.length) else None


ELEMENTS = 1 << 20
"""So much of what a container has is looked through."""
LONGEST_FORM = 16
"""Words of a container: one may lie across the end of what is read at once."""
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
LARGEST_PLAIN, TRIED = 4 << 10, 1 << 12
"""So much of a block of which nothing is known, and so many of a size, where none of these has a container."""
ALIKE, OF_LIKELY = 8, 2 / 3
"""Containers that do not prove themselves are believed where so many blocks of a size have one at the same place, and
so many of those that have a pointer there."""


Plain = tuple[int, Area, int]
"""Where a pointer leads, where it lies, and its own address."""


def of_libstdcxx(variable: Optional[SymbolPlace]) -> bool:
    """Whether its emergency pool may be held there."""
    return variable is not None and (variable.name.startswith("libstdc++.so") or "emergency_pool" in variable.name)


def _likely_in(session: Session, catalogue: Catalogue, leads_inside: bool) -> Likely:
    low, high = catalogue.low, catalogue.high
    # where what blocks are for begins after a header, or pointers lead to what comes first of two things in it
    skew, mask = 0, session.layout.word - 1
    if not leads_inside:
        skew, mask = session.layout.first_aligned(0) + session.layout.header, session.layout.mask
    return lambda words: [at for at, word in enumerate(words) if low <= word < high and not (word - skew) & mask]


class HolderPass:
    """The pass itself: each area is looked through once, and what it names may hold others."""

    def __init__(self, session: Session, catalogue: Catalogue, engine: EngineImage, index: Index) -> None:
        ground = catalogue.ground
        self._session = session
        self._catalogue = catalogue
        self._engine = engine
        self._ground = ground
        self._index, self._kinds = index, index.names
        self._word = session.layout.word
        self._bytes = sum(heap.bytes for each in session.heaps.values() for heap in each)
        classes = any(kind.kind in ("c++", "control") for kind in index.names) or ground.has_cplusplus
        self._forms = Forms(
            self._index,
            self._word,
            big=session.memory.byte_order == "big",
            classes=classes,
            rust=not classes and ground.has_rust,
            libcxx=ground.may_have_libcxx,
        )
        self._leads_inside = catalogue.has_fronts or self._forms.leads_inside
        self._likely = _likely_in(session, catalogue, self._leads_inside)
        self._holders = HolderWords(session, engine, index, index.names, self._leads_inside)
        self._left: deque[Area] = deque()
        self._plain: list[Plain] = []
        """Pointers that are in no container: what they name comes last, as it is a guess."""
        self._names: dict[int, Optional[str]] = {}
        self._objects_of: Counter[int] = Counter()
        self._numbers: dict[tuple[str, bool, Optional[str]], int] = {}
        """Of bodies' kinds, by name, whether it is certain, and owner."""

    def run(self, declared: Sequence[Known]) -> None:
        holders = {at for at, kind in enumerate(self._kinds) if kind.kind in HOLDERS}
        self._look_into_fixed()
        with self._session.meter("looking into holders", self._bytes) as meter:
            for number, looked_at in self._holders.of(holders, meter, declared=declared):
                self._objects_of[number] += 1
                if looked_at is not None:
                    self._look_at(looked_at)
                    self._follow()
        if self._forms.has_containers:
            self._look_into_plain()
        for keeper in self._catalogue.keepers:
            for user, kind in name_bodies(self._session, self._engine, self._index, keeper, self._kinds):
                self._index.put(user, self._number(kind))
        if self._catalogue.python.runs:
            for user, kind in name_keys_of_objects(
                self._session, self._engine, self._index, self._catalogue.python, self._kinds
            ):
                self._index.put(user, self._number(kind))
        self._name_plainly()
        for user, kind in name_by_ways(self._index, self._kinds, self._ways()):
            self._index.put(user, self._number(kind))

    def _follow(self) -> None:
        while self._left:
            self._look(self._left.popleft())

    def _look_into_fixed(self) -> None:
        areas = [*self._fixed()]
        parts = [
            area._replace(start=start, bytes=min(LARGEST, area.start + area.bytes - start))
            for area in areas
            for start in range(area.start, area.start + area.bytes, LARGEST)
        ]
        for area, likely in zip(parts, self._holders.likely(parts, Unseen())):
            if likely:
                words = self._index.words(area.start, area.bytes // self._word + LONGEST_FORM)
                words = words or self._index.words(area.start, area.bytes // self._word) or ()
                # a damaged file's header can claim what cannot be read
                self._look_at(LookedAt(area, area.start, words, [at for at in likely if at < len(words)]))
                self._follow()

    def _fixed(self) -> Iterator[Area]:
        """Variables of modules, and what lies on stacks."""
        ends = self._session.bss_ends
        bss = {each.start: each._replace(end=ends[each.start]) for each in self._session.regions if each.start in ends}
        # the break can go on where .bss ends
        heaps = sorted((heap.address, heap.end) for each in self._session.heaps.values() for heap in each)
        for module in self._ground.modules.all:
            last = module.regions[-1]
            for region in [*module.regions, *filter(None, [bss.get(last.end)])]:
                if region.writable and region.present and not region.shared:
                    for start, end in without(region, heaps):
                        yield Area(start, min(end - start, GLOBALS), None)
        threads = self._session.target_threads
        limit = min(STACK, STACKS // max(1, len(threads)))
        for thread in threads:
            pointer = thread.stack_pointer
            within = [each for each in self._session.regions if pointer and each.contains(pointer)]
            if pointer and within:
                start = pointer // self._word * self._word
                yield Area(start, min(within[0].end - start, limit), "stack", False)

    def _look(self, area: Area) -> None:
        end = area.start + area.bytes
        for start in range(area.start + area.links, end, LARGEST):
            words = self._index.words(start, min(LARGEST + LONGEST_FORM * self._word, end - start) // self._word)
            if words:
                self._look_at(LookedAt(area, start, words, self._likely(words)))

    def _look_into_plain(self) -> None:
        """Blocks of which nothing is known, as structs without a vtable are, for containers that prove themselves; for
        others where many blocks of a size agree."""
        kinds = {at for at, kind in enumerate(self._kinds) if kind.kind in PLAIN}
        tried: Counter[int] = Counter()
        barren: set[int] = set()
        likely_at: Counter[tuple[int, int]] = Counter()
        doubtful: dict[tuple[int, int, str], list[tuple[Area, ContainerBlock]]] = {}
        fruitful: set[int] = set()
        proven: set[int] = set()
        """Structs that have a container which proves itself: another one in it is no older than that."""
        proven_of: Counter[int] = Counter()
        may_be_body, most = self._forms.may_be_body, LARGEST_PLAIN // self._word
        with self._session.meter("looking into structs", self._bytes) as meter:
            for number, looked_at in self._holders.of(kinds, meter, barren):
                if number not in fruitful:
                    tried[number] += 1
                    if tried[number] > TRIED:
                        barren.add(number)
                if looked_at is None:
                    continue
                area, words = looked_at.area, looked_at.words[:most]
                likely = [at for at in looked_at.likely if may_be_body(words, at)]
                for body in self._forms.bodies(words, likely) if likely else ():
                    place = area.bytes, body.offset
                    likely_at[place] += 1
                    if not body.name:
                        continue
                    fruitful.add(area.kind)
                    holder = area._replace(name="", single=False, kind=NONE)
                    if body.proven:
                        proven_of[area.bytes] += area.start not in proven
                        proven.add(area.start)
                        self._take(holder, area.start, body)
                        self._follow()
                    else:
                        doubtful.setdefault((*place, body.name), []).append((holder, body))
        for (room, offset, _), bodies in doubtful.items():
            agree = len(bodies) >= max(ALIKE, OF_LIKELY * likely_at[room, offset]) and proven_of[room] < ALIKE
            for area, body in bodies:
                if (agree or area.start in proven) and self._index.usable(body.user) is not None:
                    self._take(area, area.start, body)
                    self._follow()

    def _look_at(self, looked_at: LookedAt) -> None:
        area, start, words, likely = looked_at
        if not likely:
            return
        member = kept_by_member(area.name, words) if area.kind != NONE else None
        if member is not None:
            # other forms would take a pointer, a length and how much room there is for a string
            self._take_member(member, words)
            likely = [at for at in likely if at != member.place]
        for body in self._forms.bodies(words, likely):
            if body.name:
                self._take(area, start, body)
            elif area.name is None or area.kind != NONE:
                self._plain.append((body.user, area, start + body.offset))
        if area.kind != NONE and self._kinds[area.kind].kind == "control":
            self._name_what_is_shared(self._kinds[area.kind], [words[at] for at in self._likely(words)])

    def _take(self, area: Area, start: int, body: ContainerBlock) -> None:
        owner = self._owner(area, start + body.offset)
        # the nodes of a hash table are as many as it says; of others the words alone tell
        certain = body.kind in ("node", "holder") and body.sure
        if body.name == POOL:
            certain = of_libstdcxx(self._session.target.describe(start + body.offset))
        known = self._index.kind(body.user) if not certain else NONE
        if known != NONE and self._kinds[known].kind == "node":
            return
        told = body.name, certain, owner
        number = self._numbers.get(told, NONE)
        if number == NONE:
            kind = Kind(body.name, body.kind, None, certain, how="its container's words", owner=owner)
            number = self._numbers[told] = self._number(kind)
        self._index.put(body.user, number)
        if body.inside and body.name in LINKS:
            links = LINKS[body.name] * self._word
            self._left.append(Area(body.user, min(body.inside, ELEMENTS), body.name, links=links, kind=number))
            self._objects_of[number] += 1
        elif body.inside:
            name = body.name if owner is None else f"{owner}[]"
            self._left.append(Area(body.user + body.start, min(body.inside, ELEMENTS), name, False))

    def _take_member(self, member: BlockPointer, words: Sequence[int]) -> None:
        usable = self._index.usable(words[member.place])
        # of none malloc gives a byte
        if usable is not None and fits(max(1, words[member.length]), usable):
            self._index.put(words[member.place], self._number(member.kind))

    def _name_what_is_shared(self, kind: Kind, pointers: Sequence[int]) -> None:
        """The object of a control block that stands apart from it, where that has no other pointer."""
        shared = _SHARED.fullmatch(kind.name)
        if shared is not None and len(pointers) == 1 and self._index.usable(pointers[0]) is not None:
            number = self._number(Kind(shared[1], "c++", kind.module, True, how="its control block"))
            block = self._index.block(pointers[0])
            usable = block.usable if block is not None else 0
            self._index.put(pointers[0], number)
            self._objects_of[number] += 1
            self._left.append(Area(pointers[0], min(usable, LARGEST), shared[1], kind=number))

    def _name_plainly(self) -> None:
        """By objects first: a variable may hold the address of anything."""
        places = Counter(self._at(area, address) for _, area, address in self._plain if area.kind != NONE)
        for objects in (True, False):
            kinds = ("size", "zeros", "pointers") if objects else ("size",)
            for user, area, address in self._plain:
                if (area.kind != NONE) != objects:
                    continue
                # a member that is no pointer may have what was there before
                if objects and places[self._at(area, address)] * SELDOM < self._objects_of[area.kind]:
                    continue
                kind = self._index.kind(user)
                if kind == NONE or self._kinds[kind].kind not in kinds:
                    continue
                owner = self._owner(area, address)
                if owner is not None and area.name is None and self._block_bytes(user) >= LARGE:
                    owner = text_of(self._session.target.describe(address)) or owner
                if owner is not None:
                    named = Kind(f"{owner} body", "holder", None, False, how=POINTED, owner=owner)
                    self._index.put(user, self._number(named))

    def _ways(self) -> Iterator[VariablePath]:
        """What variables point to, and the name of each."""
        for user, area, address in self._plain:
            if area.name is None:
                place = self._session.target.describe(address)
                if place is not None:
                    yield VariablePath(user, place.text, 1)

    def _block_bytes(self, user: int) -> int:
        block = self._index.block(user)
        return block.usable if block is not None else 0

    def _at(self, area: Area, address: int) -> tuple[int, int]:
        """A class, and a place in it."""
        return area.kind, address - area.start

    def _owner(self, area: Area, address: int) -> Optional[str]:
        if area.name is not None:
            return f"{area.name}+{address - area.start}" if area.single else area.name or None
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


def name_by_holders(
    session: Session, catalogue: Catalogue, engine: EngineImage, index: Index, declared: Sequence[Known] = ()
) -> None:
    """Names what is not certain yet; KeyboardInterrupt, and what was named until then is. `engine` has the image's
    memory. `declared`: holders that have the names of their types already, with the kinds that they had before, in
    address order."""
    HolderPass(session, catalogue, engine, index).run(declared)
