"""Blocks named by their holders: a second pass, over globals, stacks and what is known already.

What a container tells is certain. A plain pointer from an object of a known class names what it points to after it:
"Session+40 body", a guess.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, deque
from heapq import merge
from types import ModuleType
from typing import Callable, Container, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..base.array_types import words_of
from ..base.class_names import APART
from ..base.meter import Meter
from ..base.model import POINTED, Kind
from ..glibc.mmapped import without
from ..session.session import Session
from ..sources.target import Region, Span, SymbolPlace, text_of
from .block_index import WEAK, Index, Known, NamedLiveBlocks
from .pointer_finder import FastFinder, finder_of, library
from .recognise.all_recognisers import EXACT, NONE, Catalogue, RuntimeKeeper
from .recognise.containers import HASHED, LIST, POOL, TREE, ContainerBlock, Forms
from .recognise.module_memory import LoadedModules, fits
from .recognise.python import DEQUE_BLOCK, DEQUE_NEXT, DICT_KEYS, TO_KEYS, Python

PIECE = 1 << 20
"""Looked through at once: no pool of pymalloc's lies across its end."""
MOST_BYTES = 16 << 30
HOLDER = 4096
"""So much of a block of objects that keep others."""
OBJECT = 512
"""So much of an object that is a block: what its type has a place for lies in front."""


Hits = Callable[[Sequence[int]], Iterable[int]]


class ObjectWord(NamedTuple):
    """A word of an object."""

    address: int
    words: Sequence[int]
    """Of all that was read with it."""
    block: int
    """Where its block begins among these."""
    at: int
    """And where it is."""


def name_bodies(
    session: Session, index: Index, keeper: RuntimeKeeper, kinds: Sequence[Kind]
) -> Iterator[tuple[int, Kind]]:
    """What to call blocks of which nothing certain is known, by their addresses."""
    weak = {number for number in range(len(kinds)) if index.is_weak(number)}
    starts = [user for user, _, _ in index.of_kinds(weak)] + list(index.mapped_of_kinds(weak))
    known = sorted(user + front for user in starts for front in (0, *index.fronts))
    if not known:
        return
    parts = list(_arenas(session)) if keeper.apart else []
    size = sum(end - start for start, end in parts)
    holders = {number for number, kind in enumerate(kinds) if kind.name in keeper.holders}
    blocks = [(user, min(usable, HOLDER)) for user, usable, _ in index.of_kinds(holders)]
    farthest = max(keeper.past)
    ends = [each + farthest for each in known] if farthest else known
    numpy = library(size + sum(bytes for _, bytes in blocks))
    finder = finder_of(numpy, known, ends, [Span(known[0], ends[-1])], word=session.layout.word)
    with session.meter("looking into objects", size) as meter:
        for _, words in _pieces(session, parts):
            for at, _ in finder.hits(words):
                usable = index.usable(words[at])
                told = keeper.kept_by(words, at, usable) if usable is not None else None
                if told is not None:
                    yield words[at], told
                    if told.name == DEQUE_BLOCK:
                        yield from _next_ones(session, index, words[at], told)
            meter.advance(len(words) * session.layout.word)
    for user, looked_at in blocks:
        data = index.read(user, looked_at // session.layout.word * session.layout.word)
        words = session.memory.as_words(data or b"")
        for at, _ in finder.hits(words):
            for start in (words[at] - past for past in keeper.past):
                room = index.usable(start)
                told = keeper.kept_by(words, at, room) if room is not None else None
                if told is not None and told.certain:
                    yield start, told
                    if told.name == DEQUE_BLOCK:
                        yield from _next_ones(session, index, start, told)


def name_keys_of_objects(
    session: Session, index: Index, python: Python, kinds: Sequence[Kind]
) -> Iterator[tuple[int, Kind]]:
    """Tables of keys of what objects have as their __dict__, by the type of these. Other dicts say nothing."""
    tables = {number for number, kind in enumerate(kinds) if kind == DICT_KEYS}
    known = sorted([*(user for user, _, _ in index.of_kinds(tables)), *index.mapped_of_kinds(tables)])
    if not known:
        return
    own = {number for number, kind in enumerate(kinds) if kind.kind == "python"} - tables
    arenas = list(_arenas(session))
    size = sum(end - start for start, end in arenas)
    numpy, word = library(size), session.layout.word

    def pointers(into: Sequence[int], hits: Hits, meter: Meter) -> Iterator[ObjectWord]:
        """Those in objects, which lie in arenas or are blocks. `hits` finds them in an arena."""
        for start, words in _pieces(session, arenas):
            for at in hits(words):
                block = python.block_of(words, start, at)
                if block is not None:
                    yield ObjectWord(start + at * word, words, block, at)
            meter.advance(len(words) * word)
        leads = set(into)
        for user, usable, _ in index.of_kinds(own):
            words = index.words(user, min(usable, OBJECT) // word) or ()
            yield from (ObjectWord(user + at * word, words, 0, at) for at, value in enumerate(words) if value in leads)

    with session.meter("looking for Python's dicts", 2 * size) as meter:
        finder = finder_of(numpy, known, known, [Span(known[0], known[-1])], word=word)
        dicts = {
            each.address - TO_KEYS * word: each.words[each.at]
            for each in pointers(known, lambda words: (at for at, _ in finder.hits(words)), meter)
            if python.is_dict_of(each.words, each.block, each.at)
        }

        def hits_of_dicts(words: Sequence[int]) -> Iterable[int]:
            # among dicts lies all that pointers lead to: a search by their bytes would find every pointer
            return (at for at, value in enumerate(words) if value in dicts)

        starts = sorted(dicts)
        fast = FastFinder(numpy, starts, starts, word) if numpy is not None and starts else None
        hits = hits_of_dicts if fast is None else lambda words: (at for at, _ in fast.hits(words))
        told: dict[int, Kind] = {}
        doubtful = set()
        for each in pointers(starts, hits, meter):
            kind = python.keys_of(each.words, each.block, each.at)
            if kind is not None and told.setdefault(each.words[each.at], kind) != kind:
                doubtful.add(each.words[each.at])
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


def _arenas(session: Session) -> Iterator[tuple[int, int]]:
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
                    yield start, end


def _may_be(region: Region) -> bool:
    return not region.path and region.writable and region.readable and region.present and not region.shared


def _pieces(session: Session, parts: Sequence[tuple[int, int]]) -> Iterator[tuple[int, Sequence[int]]]:
    """Each with its address."""
    memory = session.memory
    for start, end in parts:
        at = start
        while at < end:
            # up to the next place where an arena can begin
            size = min(end, at // PIECE * PIECE + PIECE) - at
            data = memory.try_read(at, size)
            if data is not None:
                yield at, memory.as_words(data)
            at += size


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
WINDOW = 512 << 10
FAR = 4 << 10
"""Objects further apart, on the average, are read one by one."""
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
    """Of blocks that hold others."""

    def __init__(
        self, session: Session, index: Index, kinds: Sequence[Kind], likely: Likely, numpy: Optional[ModuleType]
    ) -> None:
        """`likely`: by the number alone. With `numpy`: pointers lead to beginnings of blocks."""
        self._session, self._index, self._kinds, self._likely = session, index, kinds, likely
        self.numpy = numpy

    def of(
        self, kinds: set[int], meter: Meter, barren: Container[int] = (), declared: Iterable[Known] = ()
    ) -> Iterator[tuple[int, Optional[LookedAt]]]:
        """For each block of these kinds its kind's number and what follows its links; None where no word leads to a
        block that can be named. None of a kind that turns out to be `barren`."""
        finder = self._finder(self.numpy) if self.numpy is not None else None
        kept: list[Known] = []
        for known in merge(self._index.of_kinds(kinds), declared):
            if known[2] in barren:
                continue
            if kept and known[0] + known[1] - kept[0][0] > WINDOW:
                yield from self._together(kept, finder)
                meter.advance(kept[-1][0] + kept[-1][1] - kept[0][0])
                kept = []
            kept.append(known)
        yield from self._together(kept, finder)

    def _finder(self, numpy: ModuleType) -> FastFinder:
        starts = words_of(self._index.weak_starts(numpy))
        return FastFinder(numpy, starts, starts, self._session.layout.word)

    def _together(
        self, blocks: Sequence[Known], finder: Optional[FastFinder]
    ) -> Iterator[tuple[int, Optional[LookedAt]]]:
        if not blocks:
            return
        memory, word = self._session.memory, self._session.layout.word
        base = blocks[0][0]
        end = blocks[-1][0] + min(blocks[-1][1], LARGEST)
        # a block that lies alone is read alone
        alone = end - base > FAR * len(blocks)
        data = None if alone else memory.try_read(base, end - base)
        words = memory.as_words(data[: len(data) // word * word]) if data is not None else ()
        hits = [at for at, _ in finder.hits(words)] if finder is not None and words else None
        for user, usable, number in blocks:
            links = LINKS.get(self._kinds[number].name, 0)
            first = (user - base) // word + links
            last = first - links + min(usable, LARGEST) // word
            if hits is not None:
                hit = bisect_left(hits, first)
                if hit == len(hits) or hits[hit] >= last:
                    yield number, None
                    continue
            name = self._kinds[number].name
            area = Area(user, min(usable, LARGEST), name, not name.endswith("[]"), links=links * word, kind=number)
            own = words[first:last] if words else self._index.words(user + area.links, last - first) or ()
            likely = self._likely(own) if hits is None else [at - first for at in hits[hit : bisect_left(hits, last)]]
            yield number, LookedAt(area, user + area.links, own, likely) if likely else None


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
MOST_NAMELESS = 1 << 18
"""So many blocks are kept by their addresses."""
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

    def __init__(self, session: Session, catalogue: Catalogue, ground: LoadedModules, live: NamedLiveBlocks) -> None:
        self._session = session
        self._catalogue = catalogue
        self._ground = ground
        self._live = live
        self._index = Index(session, catalogue, live)
        self._word = session.layout.word
        classes = any(kind.kind in ("c++", "control") for kind in live.kinds) or ground.has_cplusplus
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
        numpy = live.numpy if not self._leads_inside else None
        self._holders = HolderWords(session, self._index, live.kinds, self._likely, numpy=numpy)
        self._left: deque[Area] = deque()
        self._plain: list[Plain] = []
        """Pointers that are in no container: what they name comes last, as it is a guess."""
        self._names: dict[int, Optional[str]] = {}
        self._objects_of: Counter[int] = Counter()
        self._numbers: dict[tuple[str, bool, Optional[str]], int] = {}
        """Of bodies' kinds, by name, whether it is certain, and owner."""

    def run(self, declared: Sequence[Known]) -> None:
        holders = {at for at, kind in enumerate(self._live.kinds) if kind.kind in HOLDERS}
        for area in self._fixed():
            self._look(area)
            self._follow()
        size = sum(heap.heap.bytes for heap in self._live.heaps)
        with self._session.meter("looking into holders", size) as meter:
            nameless = self._nameless() if declared and self._holders.numpy is None else None
            for number, looked_at in self._holders.of(holders, meter, declared=declared):
                self._objects_of[number] += 1
                if looked_at is not None and (nameless is None or not nameless.isdisjoint(looked_at.words)):
                    self._look_at(looked_at)
                    self._follow()
        if self._forms.has_containers:
            self._look_into_plain()
        for keeper in self._catalogue.keepers:
            for user, kind in name_bodies(self._session, self._index, keeper, self._live.kinds):
                self._index.put(user, self._number(kind))
        if self._catalogue.python.runs:
            for user, kind in name_keys_of_objects(
                self._session, self._index, self._catalogue.python, self._live.kinds
            ):
                self._index.put(user, self._number(kind))
        self._name_plainly()
        for user, kind in name_by_ways(self._index, self._live.kinds, self._ways()):
            self._index.put(user, self._number(kind))

    def _follow(self) -> None:
        while self._left:
            self._look(self._left.popleft())

    def _nameless(self) -> Optional[set[int]]:
        """The blocks that holders can still name, where these are few and pointers lead to their beginnings: what leads
        to none of them need not be looked into."""
        if self._leads_inside:
            return None
        counts = self._index.counts()
        kinds = {kind for kind in counts if self._index.is_weak(kind)}
        if sum(counts[kind] for kind in kinds) > MOST_NAMELESS:
            return None
        return {user for user, _, _ in self._index.of_kinds(kinds)} | {*self._index.mapped_of_kinds(kinds)}

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
        kinds = {at for at, kind in enumerate(self._live.kinds) if kind.kind in PLAIN}
        tried: Counter[int] = Counter()
        barren: set[int] = set()
        likely_at: Counter[tuple[int, int]] = Counter()
        doubtful: dict[tuple[int, int, str], list[tuple[Area, ContainerBlock]]] = {}
        fruitful: set[int] = set()
        proven: set[int] = set()
        """Structs that have a container which proves itself: another one in it is no older than that."""
        proven_of: Counter[int] = Counter()
        may_be_body, most = self._forms.may_be_body, LARGEST_PLAIN // self._word
        size = sum(heap.heap.bytes for heap in self._live.heaps)
        with self._session.meter("looking into structs", size) as meter:
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
        if area.kind != NONE and self._live.kinds[area.kind].kind == "control":
            self._name_what_is_shared(self._live.kinds[area.kind], [words[at] for at in self._likely(words)])

    def _take(self, area: Area, start: int, body: ContainerBlock) -> None:
        owner = self._owner(area, start + body.offset)
        # the nodes of a hash table are as many as it says; of others the words alone tell
        certain = body.kind in ("node", "holder") and body.sure
        if body.name == POOL:
            certain = of_libstdcxx(self._session.target.describe(start + body.offset))
        known = self._index.kind(body.user) if not certain else NONE
        if known != NONE and self._live.kinds[known].kind == "node":
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
                if kind == NONE or self._live.kinds[kind].kind not in kinds:
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
        number = self._catalogue.known(kind)
        for entry in self._catalogue.entries[len(self._live.kinds) :]:
            self._live.kinds.append(entry.kind)
        return number


def name_by_holders(
    session: Session, catalogue: Catalogue, live: NamedLiveBlocks, declared: Sequence[Known] = ()
) -> None:
    """Names what is not certain yet; KeyboardInterrupt, and what was named until then is. `declared`: holders that have
    the names of their types already, with the kinds that they had before, in address order."""
    HolderPass(session, catalogue, catalogue.ground, live).run(declared)
