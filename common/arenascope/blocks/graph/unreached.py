"""Live blocks that nothing leads to. Before one is called lost, encoded pointers are looked for as well."""

from __future__ import annotations

from array import array
from functools import cache
from itertools import chain
from typing import Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...base.heap_model import Kind, Statement
from ...engine import ENCODINGS, Lumps, places_of
from ...session.problems import miscounted
from ...session.session import Session
from ..block_index import WEAK_EVIDENCE
from ..declared.once_per_image import declared_kinds
from ..named_by_holders import of_libstdcxx
from ..recognise.container_words import LEAST_POOL, POOL, is_pool
from ..single_blocks import kinds_of
from .blocks import EDGE_SHIFT, INSIDE, STALE, LiveBlocks
from .edges import ROOT, Disguised, Graph, SecondLook, build, lasting, without_unused_room
from .pointer_strength import strength_of
from .pointers_to import ALIKE, FAR, RELATIVE, ImageSearch, Seed
from .roots import Ref, Root, Roots

UNMARKED, POSSIBLE, DEFINITE = 0, 1, 2


class Reach:
    """`marks[n]` of the nth block: 0 where nothing leads there, POSSIBLE or DEFINITE."""

    def __init__(self, search: ImageSearch, graph: Graph) -> None:
        self._graph = graph
        self.marks = bytearray(len(graph.blocks))
        self.alike: Sequence[int] = ()
        """What is reached at an offset that is the same for most blocks of its size."""
        self.mark((seed.edge >> EDGE_SHIFT for seed in graph.seeds if not seed.edge & INSIDE), DEFINITE)
        if UNMARKED in self.marks:
            # of most programs that was all
            seeds = [(seed.edge >> EDGE_SHIFT, *_value(search, seed)) for seed in graph.seeds if seed.edge & INSIDE]
            rows = array("Q", chain.from_iterable(seeds))
            reached = search.engine.reach(graph.table, strength_of(search), rows, self.marks, DEFINITE)
            self.alike = reached.alike.tolist()
            self.mark(reached.inside, POSSIBLE)

    def mark(self, first: Iterable[int], mark: int) -> Sequence[int]:
        """These, and what hangs on them; all that had less."""
        return self._graph.table.mark(first, self.marks, mark, starts_only=mark == DEFINITE)

    def add(self, blocks: Iterable[int]) -> None:
        """These are reached after all, and what they lead to."""
        new = self.mark(blocks, DEFINITE)
        self.mark([edge >> EDGE_SHIFT for block in new for edge in self._graph.of(block)], POSSIBLE)


def _value(search: ImageSearch, seed: Seed) -> tuple[int, int]:
    """A root's pointer, and where it lies in memory or 0."""
    root = search.roots.of(seed.root)
    return (root.value, 0) if isinstance(root, Ref) else (search.session.memory.word(seed.address), seed.address)


SAMPLE = 256
"""So many blocks of a size are looked at."""
STRIDE = 2654435761
"""A large prime."""
MOST_PLACES = 1024
"""In so many places of theirs; what is asked for beyond that counts as a distance, so that nothing is called lost."""
MANY = 8
"""Of fewer that all lead to the next block, chance may be the reason."""


class Distances:
    """Numbers in blocks, of which each leads to another's start when it is added to where it lies."""

    def __init__(self, search: ImageSearch) -> None:
        self._search = search
        self._known: dict[tuple[int, int], bool] = {}
        """By size of blocks and offset in them."""
        self._samples: dict[int, Sequence[int]] = {}

    def is_meant(self, source: int, address: int) -> bool:
        """Where blocks of its size have numbers in this place that lead into the heap, at least half lead to starts of
        blocks; of many not all to the next one, as lengths of the blocks themselves do."""
        blocks = self._search.blocks
        place = blocks.sizes[source], address - blocks.starts[source]
        known = self._known.get(place)
        if known is None and len(self._known) < MOST_PLACES:
            known = self._known[place] = self._is_place(*place)
        return known is not False

    def _is_place(self, size: int, offset: int) -> bool:
        blocks = self._search.blocks
        starts = nexts = others = 0
        for number in self._some(size):
            target = self._target(blocks.starts[number] + offset)
            to = blocks.find(target)
            if to >= 0 and blocks.starts[to] == target:
                starts += 1
                nexts += to == number + 1
            elif any(start <= target < end for start, end in self._search.heap_spans):
                others += 1
        return starts >= others and (nexts < starts or starts < MANY)

    def _target(self, address: int) -> int:
        """Where the number there leads; 0 where it is no distance."""
        memory = self._search.session.memory
        distance = memory.try_word(address)
        if distance is None or not FAR <= distance <= memory.top - FAR:
            return 0
        return (address + distance) & memory.top

    def _some(self, size: int) -> Sequence[int]:
        """Blocks of that size, from all over the heap."""
        if size not in self._samples:
            self._samples[size] = _spread_over(places_of(size, self._search.blocks.sizes))
        return self._samples[size]


def _spread_over(group: Sequence[int]) -> Sequence[int]:
    """Not each so many-th: what a program allocates in turns would be all of one kind."""
    count = len(group)
    return group if count <= SAMPLE else [group[at * STRIDE % count] for at in range(SAMPLE)]


UNWATCHED = "epoll-unknown"


class BlockTally(NamedTuple):
    blocks: int
    bytes: int


class Leaks(NamedTuple):
    definite: Lumps
    possible: Lumps
    """What only pointers to the inside lead to."""
    unused: Optional[Lumps]
    """What only room that containers do not use leads to; among the rest."""
    reached: BlockTally
    """The rest."""
    saved: Mapping[str, Sequence[int]]
    """By encoding: what only a pointer written like that leads to, all among the rest."""
    stale: BlockTally
    """What only stale words lead to; among the rest, too."""
    doubts: Sequence[Statement]
    """Why what nothing leads to may be held all the same: then `definite` is not known to be lost."""

    @property
    def unknown(self) -> bool:
        return any(each.id != UNWATCHED for each in self.doubts)

    @property
    def unwatched(self) -> bool:
        """What nothing leads to is held by nobody but the kernel, if at all."""
        return bool(self.doubts) and not self.unknown


def find_leaks(search: ImageSearch, lost: int) -> Leaks:
    """`lost`: bytes of a process that could not be copied."""
    graph, blocks = build(search), search.blocks
    reach = Reach(search, graph)
    alike = {ALIKE: sorted(reach.alike)} if reach.alike else {}
    saved = {**alike, **_second_look(search, reach)}
    unreached, inside = places_of(UNMARKED, reach.marks), places_of(POSSIBLE, reach.marks)
    definite, possible = graph.table.lumps(unreached), graph.table.lumps(inside, starts_only=True)
    others = BlockTally(len(unreached) + len(inside), blocks.bytes_of(unreached) + blocks.bytes_of(inside))
    reached = BlockTally(len(blocks) - others.blocks, blocks.bytes - others.bytes)
    by_stale_words = held_by_stale_words(graph)
    stale = BlockTally(len(by_stale_words), blocks.bytes_of(by_stale_words))
    doubted = doubts(search.session, search.roots, blocks, lost)
    unused = _held_by_unused_room(graph) if by_stale_words else None
    return Leaks(definite, possible, unused, reached, saved, stale=stale, doubts=doubted)


def _held_by_unused_room(graph: Graph) -> Optional[Lumps]:
    """What is reached, and by no way that does not lead through the unused room of a container; None: there is no
    such."""
    rest = without_unused_room(graph)
    if rest is None:
        return None
    marks = bytearray(len(graph.blocks))
    seeds = [each.edge >> EDGE_SHIFT for each in graph.seeds]
    graph.table.mark(seeds, marks, POSSIBLE)
    rest.table.mark(seeds, marks, DEFINITE)
    return rest.table.lumps(places_of(POSSIBLE, marks))


def held_by_stale_words(graph: Graph) -> Sequence[int]:
    """What is reached, and by no way without one of them."""
    if not len(graph.stale) and not any(each.edge & STALE for each in graph.seeds):
        return ()
    marks = bytearray(len(graph.blocks))
    graph.table.mark((each.edge >> EDGE_SHIFT for each in graph.seeds), marks, POSSIBLE)
    mark_without_stale_words(graph, marks)
    return places_of(POSSIBLE, marks)


def mark_without_stale_words(graph: Graph, marks: bytearray) -> None:
    """Marks the blocks to which anything else leads as DEFINITE."""
    seeds = (each.edge >> EDGE_SHIFT for each in graph.seeds if not each.edge & STALE)
    lasting(graph, bytes(len(graph.blocks))).table.mark(seeds, marks, DEFINITE)


def doubts(session: Session, roots: Roots, blocks: LiveBlocks, lost: int) -> list[Statement]:
    """What may have pointers and was not looked through, or what may be none of the program's blocks."""
    said = []
    if roots.missing:
        size = sum(each.size for each in roots.missing)
        said.append(Statement("roots-missing", {"mappings": len(roots.missing), "bytes": size}))
    if roots.blind:
        said.append(Statement("registers-unknown", {"threads": len(roots.blind)}))
    if not session.caches_known or not session.fast_known:
        said.append(Statement("perhaps-cached-all"))
    if blocks.damaged or session.findings:
        said.append(Statement("heap-damaged"))
    # one too few may hold anything; one too many is no block, and what it has of pointers counts for nothing
    said += miscounted(session)
    if session.target.image.shortage() or lost:
        said.append(Statement("image-cut"))
    if roots.unwatched:
        said.append(Statement(UNWATCHED))
    return said


def _second_look(search: ImageSearch, reach: Reach) -> dict[str, list[int]]:
    """Marks what is found, and what hangs on it."""
    again = _looked_again(search, places_of(UNMARKED, reach.marks))
    pointers, inside = _by_source(again.pointers), _by_source(again.inside)
    saved: dict[str, list[int]] = {}
    new = True
    while new:
        new = False
        for each in _ready(reach, pointers):
            new = True
            if not reach.marks[each.suspect]:
                reach.add([each.suspect])
                saved.setdefault(each.encoding, []).append(each.suspect)
        for each in () if new else _ready(reach, inside):
            new = True
            if not reach.marks[each.suspect]:
                reach.mark([each.suspect], POSSIBLE)
    return saved


def _by_source(pointers: Iterable[Disguised]) -> dict[int, list[Disguised]]:
    by_source: dict[int, list[Disguised]] = {}
    for each in pointers:
        by_source.setdefault(each.source, []).append(each)
    return by_source


def _ready(reach: Reach, by_source: dict[int, list[Disguised]]) -> Iterator[Disguised]:
    """Takes out what counts by now: suspects' own words do as soon as something leads to them."""
    for source in [source for source in by_source if source == ROOT or reach.marks[source]]:
        yield from by_source.pop(source)


def pointers_again(search: ImageSearch, suspects: Sequence[int]) -> Sequence[Disguised]:
    """What leads to these after all, looked for once: they are all that nothing plain leads to."""
    return _looked_again(search, suspects).pointers


def _looked_again(search: ImageSearch, suspects: Sequence[int]) -> SecondLook:
    known = search.second_look
    if known is None:
        # one of each
        found = dict.fromkeys(_encoded(search, suspects)) if suspects else ()
        known = SecondLook([each for each in found if not each.inside], [each for each in found if each.inside])
        if known.pointers:
            # whose blocks are was told without it
            search.held = search.owners = search.owned = None
        search.second_look = known
    return known


def _encoded(search: ImageSearch, suspects: Sequence[int]) -> Iterator[Disguised]:
    """Every encoded pointer to a suspect."""
    asked, roots = array("I", suspects), search.root_spans
    with search.meter("looking twice", [*roots.spans, *search.heap_spans]) as meter:
        for each in search.engine.encoded(asked, roots.spans, meter):
            is_inside = each.is_inside
            seed = None if is_inside else Seed(roots.of[each.span], each.address, each.target << EDGE_SHIFT)
            yield Disguised(ROOT, each.target, ENCODINGS[each.encoding], seed, inside=is_inside)
        distances, gone = Distances(search), search.graph.stale.gone if search.graph is not None else {}
        for each in search.engine.encoded(asked, search.heap_spans, meter):
            encoding = ENCODINGS[each.encoding]
            if each.source < 0 or each.source == each.target or each.address in gone:
                continue
            if encoding != RELATIVE or distances.is_meant(each.source, each.address):
                yield Disguised(each.source, each.target, encoding, inside=each.is_inside)


MOST_TYPED = 20000
"""So many blocks are asked for their kind; of others the size must do."""


@cache
def by_size(size: int) -> str:
    """What of nothing is known but how large it is."""
    return f"{size:,} bytes"


def types_of(search: ImageSearch, numbers: Sequence[int]) -> Mapping[int, Kind]:
    """What blocks are."""
    blocks = search.blocks
    asked = numbers[:MOST_TYPED]
    told = kinds_of(search.session, [(chunk_of(search, number), blocks.sizes[number]) for number in asked])
    kinds = {number: told.get(chunk_of(search, number)) for number in asked}
    pools = _pools(search, [number for number, kind in kinds.items() if kind is None or kind.kind in WEAK_EVIDENCE])
    kinds.update(dict.fromkeys(pools, Kind(POOL, "holder")))
    kinds.update(declared_kinds(search, kinds))
    return {number: kinds.get(number) or Kind(by_size(blocks.sizes[number]), "size") for number in numbers}


def _pools(search: ImageSearch, numbers: Sequence[int]) -> set[int]:
    """libstdc++'s emergency pool, which its holder tells: of blocks that variables were found to lead to."""
    blocks, word = search.blocks, search.session.memory.pointer_size
    likely = {number for number in numbers if blocks.sizes[number] > LEAST_POOL}
    pools = set()
    graph = search.graph
    for seed in graph.seeds if likely and graph is not None else ():
        number = seed.edge >> EDGE_SHIFT
        if number in likely and isinstance(search.roots.of(seed.root), Root) and not seed.edge & INSIDE:
            data = search.session.memory.try_read(seed.address - word, 3 * word)
            usable = blocks.sizes[number] - word
            found = data is not None and is_pool(search.session.memory.as_words(data), usable)
            if found and of_libstdcxx(search.session.target.describe(seed.address)):
                pools.add(number)
    return pools


def chunk_of(search: ImageSearch, number: int) -> int:
    return search.blocks.starts[number] - search.session.layout.header
