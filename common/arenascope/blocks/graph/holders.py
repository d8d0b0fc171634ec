"""Who holds what something else shows: single blocks, and all blocks of a kind."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from functools import cached_property
from itertools import chain
from typing import Callable, Iterable, Mapping, NamedTuple, Optional, Sequence

from ...base.heap_model import Kind, Owner
from ...base.printable import UserData
from ...sources.target import Span
from ...sources.type_source import StartVariable
from ..block_index import NamedLiveBlocks
from ..declared.claims import member_at
from ..declared.container_rows import MOST_STEPS, is_pointed_to, length_of, path_text, start_of, start_text
from ..declared.named_blocks import ELEMENT, NamedBlocks
from ..declared.once_per_image import declared_in, values_in
from ..declared.values import Values
from ..name_all_blocks import live_kinds
from ..recognise.all_recognisers import NONE
from .asked_address import Goal
from .blocks import DEEP, EDGE_SHIFT, INSIDE, NOBODY, STALE, OwnerPages
from .edges import stale_at
from .leads import RANKS, TypedVariables
from .main_holders import ALONE, UNREACHED, BlockHolders, Holding, Owners, find_owners, held, held_at_last
from .pointer_strength import is_sure
from .pointers_to import ImageSearch, Seed
from .returns import costs_of_each, returns
from .roots import BLOCK, Ref
from .unreached import doubts


class Most(NamedTuple):
    """Who holds most of some blocks, and how much."""

    owner: Owner
    blocks: int
    bytes: int
    of: int
    """All blocks of the kind, whoever holds them."""


class Holders:
    """Of every live block its main holder."""

    def __init__(self, search: ImageSearch, lost: int) -> None:
        """`lost`: bytes of a process that could not be copied."""
        self.search = search
        doubted = doubts(search.session, search.roots, search.blocks, lost)
        found = held(search)
        self._whose, self._ties = found.main.whose, found.main.ties
        self._owners = dict(enumerate(found.owners))
        if not doubted:
            self._owners[NOBODY] = Owner(UNREACHED, None)

    def of(self, user: int) -> Optional[Owner]:
        """By what malloc returned; None: it is malloc's own, or that is not known."""
        number = self.search.blocks.find(user)
        return self._owners.get(self._whose[number]) if number >= 0 else None

    def tied_with(self, user: int) -> Optional[Owner]:
        """Another one who leads to it equally well."""
        number = self.search.blocks.find(user)
        at = self._ties[number] if number >= 0 else NOBODY
        return self._owners.get(at) if at != NOBODY else None

    def of_kinds(self, live: NamedLiveBlocks) -> Mapping[int, Most]:
        """By the kind's number, of the blocks that were swept."""
        blocks: dict[int, Counter[Optional[Owner]]] = {}
        sizes: dict[int, Counter[Optional[Owner]]] = {}
        for number, kind in live.typed():
            owner = self._owners.get(self._whose[number])
            blocks.setdefault(kind, Counter())[owner] += 1
            sizes.setdefault(kind, Counter())[owner] += self.search.blocks.sizes[number]
        most_of = {}
        for kind, owners in sizes.items():
            owner, size = max(owners.items(), key=lambda each: each[1])
            if owner is not None:
                most_of[kind] = Most(owner, blocks=blocks[kind][owner], bytes=size, of=sum(blocks[kind].values()))
        return most_of

    def retained(self, live: NamedLiveBlocks) -> Mapping[int, int]:
        """Returns by the kind's number the bytes of its blocks with all that they alone lead to."""
        unknown = len(live.kinds)
        kinds = array("i", [unknown]) * len(self.search.blocks)
        for number, kind in live.typed():
            kinds[number] = kind
        sums = [0] * (unknown + 1)
        for kind, cost in zip(kinds, costs_of_each(self.search, kinds)):
            sums[kind] += cost
        return {kind: size for kind, size in enumerate(sums[:unknown]) if size}


def kinds_of_all(search: ImageSearch) -> list[Optional[Kind]]:
    """What each live block is."""
    live = live_kinds(search.session)
    return [live.kinds[kind] if kind != NONE else None for kind in live.numbers]


ON_A_STACK = ("stack", "register")
INNER = re.compile(r"(_M_|_vptr)")
"""Members of libstdc++'s own, and what a compiler adds: the way to the object says more."""


class WrittenPath(NamedTuple):
    """A way, as it is written."""

    on_screen: str
    in_documents: str


class Paths:
    """Of one image."""

    def __init__(self, search: ImageSearch, user_data: UserData) -> None:
        self._search, self._user_data = search, user_data
        self._left = MOST_STEPS

    @cached_property
    def _named(self) -> Optional[NamedBlocks]:
        return declared_in(self._search)

    def block(self, number: int) -> Optional[WrittenPath]:
        """None where no variable leads there by types."""
        named = self._named
        if named is None or named.name_of(number) is None or start_of(named, number) is None:
            return None
        return self._written(number, lambda values: path_text(named, number, values))

    def way(self, root: Ref, number: int) -> Optional[WrittenPath]:
        """To a block, where types lead there from the same variable, or from one of the same thread's stack."""
        start = start_of(self._named, number) if self._named is not None else None
        if start is None or root.block is not None or not self._is_same(start, root):
            return None
        return self.block(number)

    def held(self, owner: Owner, number: int) -> Optional[WrittenPath]:
        """To a block, where it begins at its main holder."""
        start = start_of(self._named, number) if self._named is not None else None
        return self.block(number) if start is not None and _is_of(start, owner) else None

    def pointer(self, ref: Ref) -> Optional[WrittenPath]:
        """To the pointer itself: the variable, or the member of a block."""
        named = self._named
        if named is None:
            return None
        number, offset = ref.block, ref.offset
        if number is None:
            text = self._variable(ref)
            return WrittenPath(text, text) if text is not None else None
        member = self._member(named, number, offset) if offset is not None else None
        if member is None or start_of(named, number) is None:
            return None

        def written(values: Optional[Values]) -> Optional[str]:
            way = path_text(named, number, values)
            return f"{way}{member}" if way is not None else None

        return self._written(number, written)

    def _written(self, number: int, text: Callable[[Optional[Values]], Optional[str]]) -> Optional[WrittenPath]:
        assert self._named is not None
        self._left -= length_of(self._named, number)
        if self._left < 0:
            return None
        plain = text(None)
        values = values_in(self._search) if self._user_data.anywhere else None
        keyed = text(values) if values is not None else plain
        if plain is None or keyed is None:
            return None
        shown = self._user_data
        return WrittenPath(keyed if shown.on_screen else plain, keyed if shown.in_documents else plain)

    def _is_same(self, start: StartVariable, root: Ref) -> bool:
        if start.frame is not None:
            return root.kind in ON_A_STACK and root.tid == start.tid
        if start.address is None or root.address is None:
            return False
        return start.address <= root.address < start.address + self._size(start)

    def _size(self, start: StartVariable) -> int:
        named = self._named
        return named.types.facts(start.type).size if named is not None else 0

    @cached_property
    def _variables(self) -> TypedVariables:
        return TypedVariables(self._search, with_locals=True)

    def _variable(self, ref: Ref) -> Optional[str]:
        named, start = self._named, self._variables.at(ref.address) if ref.address is not None else None
        if ref.address is None or named is None or start is None:
            return None
        member = member_at(named.types.facts, start.type, ref.address - (start.address or 0)) or ""
        dot = "." if member and member[0] != "[" else ""
        return f"{start_text(named, start)}{dot}{member}"

    def _member(self, named: NamedBlocks, number: int, offset: int) -> Optional[str]:
        """As it follows the way to its block; None where no member lies there."""
        name = named.name_of(number)
        if name is None or name.type is None or offset < name.front:
            return None
        types = named.types
        if name.form != "array":
            member = member_at(types.facts, name.type, offset - name.front)
            if member and INNER.match(member):
                return ""
            return f"{'->' if is_pointed_to(named, name) else '.'}{member}" if member else None
        size = types.facts(name.type).size
        element, within = divmod(offset - name.front, size) if size else (named.elements[number], 0)
        member = member_at(types.facts, name.type, within) or ""
        if element >= named.elements[number]:
            return None
        first = named.number[number] if named.steps[named.step[number]].endswith(ELEMENT) else 0
        dot = "." if member and member[0] != "[" else ""
        return f"[{first + element}]{dot}{member}"


def _is_of(start: StartVariable, owner: Owner) -> bool:
    if start.frame is not None:
        return owner.kind in ON_A_STACK and owner.tid == start.tid and owner.name in (start.label, None)
    if start.tid is not None:
        return owner.kind == "tls" and owner.tid == start.tid
    name = start.name.rpartition("::")[2]
    return owner.kind == "global" and re.search(rf"\b{re.escape(name)}\b", owner.name or "") is not None


class TypeCost(NamedTuple):
    """Of all blocks of a type below one owner."""

    kind: Kind
    blocks: int
    bytes: int
    retained_bytes: int
    """With what hangs on each, down to the next of the same type, which is one of them, too."""
    largest_bytes: int
    """What the one takes that takes most, with what hangs on it."""
    largest: int
    """That block's number."""


def costs_by_type(search: ImageSearch) -> Mapping[int, Sequence[TypeCost]]:
    """By the owners' numbers: what costs most comes first. KeyboardInterrupt."""
    kinds: list[Optional[Kind]] = []
    known: dict[Optional[tuple[str, bool]], int] = {}
    numbers = array("i")
    for each in kinds_of_all(search):
        # one row, however it was known
        number = known.setdefault((each.name, each.certain) if each is not None else None, len(kinds))
        if number == len(kinds):
            kinds.append(each)
        numbers.append(number)
    sizes = search.blocks.sizes
    costs = costs_of_each(search, numbers)
    whose = find_owners(search).whose
    rows: dict[tuple[int, int], list[int]] = {}
    for block, cost in enumerate(costs):
        key = whose[block], numbers[block]
        row = rows.get(key)
        if row is None:
            row = rows[key] = [0, 0, 0, 0, block]
        row[0] += 1
        row[1] += sizes[block]
        row[2] += cost
        if cost > row[3]:
            row[3:] = cost, block
    found: dict[int, list[TypeCost]] = {}
    for (owner, number), (blocks, size, with_theirs, most, largest) in rows.items():
        kind = kinds[number]
        if kind is not None:
            row_of = TypeCost(
                kind, blocks=blocks, bytes=size, retained_bytes=with_theirs, largest_bytes=most, largest=largest
            )
            found.setdefault(owner, []).append(row_of)
    return {
        owner: sorted(each, key=lambda cost: (-cost.retained_bytes, cost.kind.name)) for owner, each in found.items()
    }


def find_owner(search: ImageSearch, goal: Goal, refs: Sequence[Ref]) -> Optional[list[Ref]]:
    """The pointers to what is asked for, that of a root first; None where nothing leads there. `refs`: all that points
    to it. Who holds a live block is its main holder; of what is no such block whoever has one of these pointers, those
    that are sure before others."""
    found = held(search) if goal.number is None else held_at_last(search, goal.number)
    if goal.number is not None and found.main.whose[goal.number] != NOBODY:
        return _way(search, found, goal.number)

    def order(ref: Ref) -> tuple[bool, int]:
        if ref.block is not None:
            return not is_sure(search, ref, goal), found.main.ranks[ref.block]
        return not is_sure(search, ref, goal), RANKS.index(ref.kind if ref.kind in RANKS else "stack")

    known = [each for each in refs if each.block is None or found.main.whose[each.block] != NOBODY]
    last = min(known, key=order, default=None)
    if last is None:
        return None
    return [*(_way(search, found, last.block) if last.block is not None else ()), last]


def _way(search: ImageSearch, found: BlockHolders, block: int) -> list[Ref]:
    way = [block]
    while found.main.parents[way[-1]] != NOBODY:
        way.append(found.main.parents[way[-1]])
    way.reverse()
    first = found.main.ranks[way[0]], found.main.whose[way[0]], way[0]
    seeds = [
        seed
        for lead, seed in zip(found.leads, found.graph.seeds)
        if (lead.rank, lead.owner, lead.edge >> EDGE_SHIFT) == first
    ]
    refs = [_of_seed(search, min(seeds, key=lambda each: (each.edge & DEEP, each.edge & INSIDE)))]
    for source, to in zip(way, way[1:]):
        best = min(
            (int(edge) & (STALE | INSIDE) for edge in found.graph.of(source) if edge >> EDGE_SHIFT == to), default=0
        )
        refs.append(_pointer(search, source, to, best))
    return refs


def _of_seed(search: ImageSearch, seed: Seed) -> Ref:
    root, again = search.roots.of(seed.root), search.second_look
    if isinstance(root, Ref):
        return root
    for each in again.pointers if again is not None else ():
        if each.seed == seed:
            found = search.named(root, seed.address, search.blocks.starts[each.suspect])
            return found._replace(encoding=each.encoding)
    return search.named(root, seed.address, search.session.memory.word(seed.address))


def _pointer(search: ImageSearch, source: int, to: int, best: int) -> Ref:
    """The first pointer from one block to another that is as good as its `best` edge; where there is no plain one, what
    is written otherwise."""
    blocks = search.blocks
    begin, start, end = blocks.starts[source], blocks.starts[to], blocks.ends[to]
    span = Span(begin, blocks.ends[source])
    plain = search.between(span, Span(start, end if best & INSIDE else start))
    good = (each for each in plain if best & STALE or stale_at(search, each.address, source) is None)
    for hit in chain(good, search.between(span, Span(start, end), encoded=True)):
        return Ref(BLOCK, hit.address, hit.value, block=source, offset=hit.address - begin, encoding=hit.encoding)
    return Ref(BLOCK, None, start, block=source)


DEEPEST = 40
MOST_NODES, ONE_IN_SHOWN = 5000, 5000
"""So many nodes at most, and none with less than 1/5000 of all bytes: what is smaller is summed up."""
SMALLER, SHARED = "smaller ones", "shared with others"


class HolderNode(NamedTuple):
    """What it has itself, and what it holds: with all that is below it. An owner's figures are those of its row in
    `owners`."""

    name: str
    kind: str
    """An owner's; "shared" for what an owner does not hold alone; "type" or "smaller"."""
    above: int
    """Which node; NOBODY for an owner. It comes before."""
    blocks: int = 0
    bytes: int = 0
    held_blocks: int = 0
    held_bytes: int = 0
    resident: Optional[int] = 0
    """What of that is in memory."""
    returns: Optional[int] = 0
    """Pages on which nothing else is; 0 for what is shared, which stays when its main holder is cleared."""


def grown(
    search: ImageSearch, owners: Owners, kinds: Sequence[str], words: Callable[[Holding], str]
) -> list[HolderNode]:
    """`kinds` says what each block is, `words` whose something is. Owners come first, the largest before."""
    folded = _Folded(search, owners, kinds, words)
    pages = returns(search, folded.whose, len(folded.names), folded.above_of_pages())
    return _pruned(folded.nodes(pages))


class _Folded:
    """Each block's node."""

    def __init__(
        self, search: ImageSearch, owners: Owners, kinds: Sequence[str], words: Callable[[Holding], str]
    ) -> None:
        self._sizes = search.blocks.sizes
        self.names = [words(each) for each in owners.holdings]
        self._kinds = [each.owner.kind for each in owners.holdings]
        self.above = [NOBODY] * len(self.names)
        self._depth = [0] * len(self.names)
        self._known: dict[tuple[int, str], int] = {}
        self._shared: dict[int, int] = {}
        """The node of what an owner does not hold alone, by the owner's node."""
        first = {each.number: at for at, each in enumerate(owners.holdings)}
        self.whose = array("i", [NOBODY]) * len(self._sizes)
        for block in range(len(self.whose)):
            way = []
            at = block
            while at != NOBODY and self.whose[at] == NOBODY:
                way.append(at)
                at = owners.above[at]
            if at != NOBODY:
                node = self.whose[at]
            elif owners.sharing[block] == ALONE:
                node = first[owners.whose[block]]
            else:
                node = self._shared_by(first[owners.whose[block]])
            for each in reversed(way):
                node = self.whose[each] = self._below(node, kinds[each])

    def _shared_by(self, owner: int) -> int:
        if owner not in self._shared:
            self._shared[owner] = self._new(owner, SHARED)
        return self._shared[owner]

    def above_of_pages(self) -> list[int]:
        """As `above`, but what is shared is below nothing: a page on which it lies does not return with the owner."""
        shared = {*self._shared.values()}
        return [NOBODY if at in shared else above for at, above in enumerate(self.above)]

    def _kind_of_each(self) -> list[str]:
        kinds = [*self._kinds, *["type"] * (len(self.names) - len(self._kinds))]
        for node in self._shared.values():
            kinds[node] = "shared"
        return kinds

    def _below(self, node: int, name: str) -> int:
        number = self._known.get((node, name))
        if number is None:
            same = self._same_above(node, name)
            number = self._known[node, name] = self._new(node, name) if same is None else same
        return number

    def _same_above(self, node: int, name: str) -> Optional[int]:
        if self._depth[node] >= DEEPEST:
            return node
        while self.above[node] != NOBODY:
            if self.names[node] == name:
                return node
            node = self.above[node]
        return None

    def _new(self, node: int, name: str) -> int:
        self.names.append(name)
        self.above.append(node)
        self._depth.append(self._depth[node] + 1)
        return len(self.names) - 1

    def nodes(self, pages: Optional[Sequence[OwnerPages]]) -> list[HolderNode]:
        """`pages`: what each has in memory, and the pages that are its alone."""
        blocks, sizes = ([0] * len(self.names) for _ in range(2))
        for node, size in zip(self.whose, self._sizes):
            blocks[node] += 1
            sizes[node] += size
        kinds = self._kind_of_each()
        held_blocks, held_bytes = _upwards(blocks, self.above), _upwards(sizes, self.above)
        resident: Optional[list[int]] = None
        returned: Optional[list[int]] = None
        if pages is not None:
            resident = _upwards((each.resident for each in pages), self.above)
            is_shared: list[bool] = []
            for kind, above in zip(kinds, self.above):
                is_shared.append(kind == "shared" or (above != NOBODY and is_shared[above]))
            alone = (0 if shared else each.returns for each, shared in zip(pages, is_shared))
            returned = _upwards(alone, self.above)
        return [
            HolderNode(
                name,
                kinds[at],
                above=self.above[at],
                blocks=blocks[at],
                bytes=sizes[at],
                held_blocks=held_blocks[at],
                held_bytes=held_bytes[at],
                resident=resident[at] if resident is not None else None,
                returns=returned[at] if returned is not None else None,
            )
            for at, name in enumerate(self.names)
        ]


def _upwards(column: Iterable[int], above: Sequence[int]) -> list[int]:
    sums = [*column]
    for at in range(len(sums) - 1, -1, -1):
        if above[at] != NOBODY:
            sums[above[at]] += sums[at]
    return sums


def _pruned(nodes: Sequence[HolderNode]) -> list[HolderNode]:
    """Without what is too small to be seen: beside its likes, one node for all of them."""
    order = sorted((each.held_bytes for each in nodes), reverse=True)
    least = max(
        sum(each.bytes for each in nodes) // ONE_IN_SHOWN, order[MOST_NODES] + 1 if len(order) > MOST_NODES else 0, 1
    )
    places: list[int] = []
    kept: list[HolderNode] = []
    rest: dict[int, int] = {}
    small: set[int] = set()
    for each in nodes:
        above = places[each.above] if each.above != NOBODY else NOBODY
        if each.held_bytes >= least:
            places.append(len(kept))
            kept.append(each._replace(above=above))
        elif above in small:
            places.append(above)  # is summed there already
        else:
            if above not in rest:
                rest[above] = len(kept)
                small.add(len(kept))
                kept.append(HolderNode(SMALLER, "smaller", above))
            places.append(rest[above])
            kept[rest[above]] = _joined(kept[rest[above]], each)
    return kept


def _joined(sums: HolderNode, node: HolderNode) -> HolderNode:
    return sums._replace(
        blocks=sums.blocks + node.held_blocks,
        bytes=sums.bytes + node.held_bytes,
        held_blocks=sums.held_blocks + node.held_blocks,
        held_bytes=sums.held_bytes + node.held_bytes,
        resident=None if node.resident is None else (sums.resident or 0) + node.resident,
        returns=None if node.returns is None else (sums.returns or 0) + node.returns,
    )
