"""Whom pointers belong to: of each that a root has its owner, and how good a holder that one is."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import Counter
from typing import NamedTuple, Optional, Sequence

from ...analysis.held_sums import UNNAMED
from ...base.heap_model import Owner
from ...sources.type_source import StartVariable
from ..declared.claims import is_void_pointer, member_at, without_numbers
from ..declared.container_rows import start_of
from ..declared.once_per_image import declared_in
from ..recognise.module_memory import ground_of
from ..recognise.nginx import Nginx
from ..recognise.selection import Selection
from .blocks import DEEP, EDGE_SHIFT, NOBODY, STALE
from .edges import Graph
from .pointers_to import ImageSearch, Seed
from .roots import Ref
from .stale_words import why_text

RANKS = ("global", "of the system", "tls", "kernel", "runtime", "mapping", "cookie", "local", "stack", "stale word")
"""The better one comes first: stacks and registers hold for a moment what something else keeps, and stale words hold
what was there before; of other mappings nobody knows what in them is old. A local variable is known to be one by its
type, where the rest of a stack may be old. A `void *` that a callback gets back owns nothing that types lead to."""
FOREMOST = ("PL_curinterp",)
"""What a program calls its main structure, where other variables of the same rank lead to it as well."""
STALE_RANK = RANKS.index("stale word")
VECTORS = "vector registers"
"""Of a thread, apart from its others: what they have is mostly old."""
SYSTEM = re.compile(r"(ld|ld-linux.*|libc|libstdc\+\+|libgcc_s|libpthread|libdl|libm|librt)[-.].*")
"""Libraries of which the variables keep what the program's own do: lists of streams, of what is loaded."""


class Lead(NamedTuple):
    """A pointer that an owner has."""

    rank: int
    """0 is the best."""
    owner: int
    edge: int
    parent: int = NOBODY
    """The block that has it, of a stale word's."""


class Leads(NamedTuple):
    """Everybody who has a pointer to a block, those of the best rank and with a name first; and these pointers."""

    owners: Sequence[Owner]
    leads: Sequence[Lead]


def leads_of(search: ImageSearch, graph: Graph) -> Leads:
    named = _Named(search)
    found = [
        named.owner_of(seed, why_text(graph.stale.why(seed.address)) if seed.edge & STALE else None)
        for seed in graph.seeds
    ]
    stacks = {each.owner.tid for each in found if each.owner.kind == "stack"}
    best: dict[Owner, tuple[int, bool, bool, int]] = {}
    for at, each in enumerate(found):
        if each.owner.kind == "register" and each.rank == RANKS.index("stack") and each.owner.tid in stacks:
            # a compiler keeps one and the same variable in both
            found[at] = each = each._replace(owner=Owner("stack", None, each.owner.tid))
        order = each.rank, each.nameless, each.owner.name not in FOREMOST, at
        best[each.owner] = min(order, best.get(each.owner, order))
    owners = sorted(best, key=best.__getitem__)
    numbers = {owner: number for number, owner in enumerate(owners)}
    edges = edges_of_seeds(search, graph.seeds)
    return Leads(owners, [Lead(each.rank, numbers[each.owner], edge) for each, edge in zip(found, edges)])


def by_members(search: ImageSearch, graph: Graph, stated: Leads, found: MainHolders) -> Optional[Leads]:
    """A variable that holds more than half of everything says little: each member of it that leads to something is an
    owner of its own. None: there is no such variable."""
    below = graph.table.below(found.parents, graph.blocks.sizes)
    held = Counter[int]()
    for block in {lead.edge >> EDGE_SHIFT for lead in stated.leads}:
        if found.whose[block] != NOBODY and found.parents[block] == NOBODY:
            held[found.whose[block]] += below[block]
    number, size = max(held.items(), key=lambda each: each[1], default=(NOBODY, 0))
    if number == NOBODY or 2 * size <= graph.blocks.bytes or stated.owners[number].kind != "global":
        return None
    variables, whole = TypedVariables(search), stated.owners[number]
    members = {
        at: variables.member(seed.address)
        for at, (lead, seed) in enumerate(zip(stated.leads, graph.seeds))
        if lead.owner == number
    }
    if not all(members.values()):
        return None
    own = [whole._replace(name=f"{whole.name}{member}") for member in dict.fromkeys(members.values())]
    owners = [*stated.owners[:number], *own, *stated.owners[number + 1 :]]
    numbers = {owner: place for place, owner in enumerate(owners)}
    leads = [
        lead._replace(
            owner=numbers[
                whole._replace(name=f"{whole.name}{members[at]}") if at in members else stated.owners[lead.owner]
            ]
        )
        for at, lead in enumerate(stated.leads)
    ]
    return Leads(owners, leads)


class _Who(NamedTuple):
    """Who has a pointer."""

    owner: Owner
    rank: int
    nameless: bool = False
    """No symbol covers it."""


def _local(tid: Optional[int], label: str) -> Optional[_Who]:
    return _Who(Owner("stack", label, tid), RANKS.index("local")) if label else None


class _Named:
    """Whom a root's words belong to."""

    def __init__(self, search: ImageSearch) -> None:
        self._search = search
        self._files = MappedFiles(search)
        self._locals = HoldingLocals(search)
        self._variables = TypedVariables(search)

    def owner_of(self, seed: Seed, why: Optional[str]) -> _Who:
        """`why`: of a stale word."""
        who = self._owner_of(seed)
        return who._replace(owner=who.owner._replace(stale=why), rank=STALE_RANK) if why is not None else who

    def _owner_of(self, seed: Seed) -> _Who:
        root, block = self._search.roots.of(seed.root), seed.edge >> EDGE_SHIFT
        if isinstance(root, Ref):
            if root.kind != "register":
                return _Who(Owner(root.kind, root.name, root.tid), RANKS.index(root.kind))
            if root.stale is None:
                local = self._locals.label(block, root.tid, None, root.value)
                return _local(root.tid, local) or _Who(Owner(root.kind, None, root.tid), RANKS.index("stack"))
            return _Who(Owner(root.kind, VECTORS, root.tid, root.stale), STALE_RANK)
        rank = RANKS.index(root.kind)
        if root.kind == "stack":
            local = self._locals.label(block, root.tid, seed.address)
            return _local(root.tid, local) or _Who(Owner(root.kind, None, root.tid), rank)
        if root.kind == "runtime":
            return _Who(Owner(root.kind, root.path), rank)
        if root.kind == "mapping":
            return _Who(Owner(root.kind, root.path or f"{root.start:#x}"), rank)
        if root.kind == "global" and self._is_of_system(root.start):
            rank = RANKS.index("of the system")
        if root.kind == "global" and self._variables.is_cookie(block, seed.address):
            rank = RANKS.index("cookie")
        place = self._search.names.place(root, seed.address)
        if place is None:
            return _Who(Owner(root.kind, None, root.tid), rank, nameless=True)
        name = f"{UNNAMED}{place.name}" if place.in_file else place.name or None
        return _Who(Owner(root.kind, name, root.tid), rank, nameless=place.in_file)

    def _is_of_system(self, start: int) -> bool:
        return SYSTEM.fullmatch(self._files.path_at(start).rpartition("/")[2]) is not None


class MappedFiles:
    """Of one image."""

    def __init__(self, search: ImageSearch) -> None:
        self._files = [each for each in search.session.regions if each.is_file]
        self._starts = [each.start for each in self._files]

    def path_at(self, address: int) -> str:
        """The file that is mapped there, or in front of zeroed variables."""
        at = bisect_right(self._starts, address) - 1
        return self._files[at].path if at >= 0 else ""


class HoldingLocals:
    """Of one image. Only of a variable from which types lead to the block: what else lies on a stack may be old."""

    def __init__(self, search: ImageSearch) -> None:
        self._search = search
        self._named = declared_in(search)
        self._has_any = self._named is not None and any(each.frame is not None for each in self._named.starts)

    def label(self, block: int, tid: Optional[int], address: Optional[int], value: Optional[int] = None) -> str:
        """Of a pointer of this thread's to the block: "main(): book"; "": it is no such variable's. `address`: where it
        lies, None in a register, of which `value` is told."""
        named = self._named if self._has_any else None
        if named is None or named.name_of(block) is None:
            return ""
        start = start_of(named, block)
        if start is None or start.frame is None or start.tid != tid:
            return ""
        return start.label if self._is_of(start, address, value) else ""

    def _is_of(self, start: StartVariable, address: Optional[int], value: Optional[int]) -> bool:
        memory, named = self._search.session.memory, self._named
        if start.address is not None and named is not None:
            size = named.types.facts(start.type).size
            return address is not None and start.address <= address < start.address + size
        if address is not None:
            # a caller's registers lie on the stack of what it calls
            value = memory.word(address)
        return value is not None and start.data == value.to_bytes(memory.pointer_size, memory.byte_order)


class TypedVariables:
    """The program's variables that lie in memory, by their addresses, with their types."""

    def __init__(self, search: ImageSearch, with_locals: bool = False) -> None:
        self._named = declared_in(search)
        starts = self._named.starts if self._named is not None else ()
        placed = (each for each in starts if each.address is not None and (with_locals or each.frame is None))
        self._all = sorted(placed, key=_place)
        self._places = [_place(each) for each in self._all]

    def at(self, address: int) -> Optional[StartVariable]:
        number = bisect_right(self._places, address) - 1
        if number < 0 or self._named is None:
            return None
        size = self._named.types.facts(self._all[number].type).size
        return self._all[number] if address < self._places[number] + size else None

    def member(self, address: int) -> str:
        """Returns the member at an address of a variable that is a struct, or an array of structs: ".log", "[].log";
        "": there is none."""
        found = self.at(address)
        if found is None or self._named is None:
            return ""
        member = member_at(self._named.types.facts, found.type, address - _place(found), in_unions=False) or ""
        member = without_numbers(member)
        # elements without names are not told apart
        return "" if not member.strip("[]") else member if member[0] == "[" else f".{member}"

    def is_cookie(self, block: int, address: int) -> bool:
        """Tells whether a `void *` lies there, kept to be handed back, and types lead to the block from another
        variable."""
        named, found = self._named, self.at(address)
        if found is None or named is None:
            return False
        is_void = is_void_pointer(named.types.facts, found.type, address - _place(found))
        return is_void and self.leads_to(block) not in (None, found)

    def leads_to(self, block: int) -> Optional[StartVariable]:
        """Returns the variable from which types lead to a block, if the block is certain to be of its type."""
        named = self._named
        start = start_of(named, block) if named is not None and named.is_certain(block) else None
        return start if start is not None and start.frame is None else None


def _place(variable: StartVariable) -> int:
    return variable.address or 0


def edges_of_seeds(search: ImageSearch, seeds: Sequence[Seed]) -> list[int]:
    """One that leads into a pool's block leads to its start."""
    nginx = Nginx(ground_of(search.session))
    found = nginx.kinds(Selection(search.engine)) if nginx.runs else ()
    pools = {number for numbers, _ in found for number in numbers}
    return [each.edge & ~DEEP if each.edge >> EDGE_SHIFT in pools else each.edge for each in seeds]


class MainHolders(NamedTuple):
    """Of each block."""

    whose: array[int]
    """The owner's number; NOBODY: nothing leads there. (Owners.whose has a number of its own for that.)"""
    parents: array[int]
    """The block before it on the way from its owner; NOBODY where the owner points to it itself."""
    ties: array[int]
    """Another owner, who leads there equally well; NOBODY: there is none."""
    ranks: bytearray
    """The rank by which it is held."""


def stale_leads(graph: Graph, owners: Sequence[Owner], found: MainHolders) -> tuple[list[Owner], list[Lead]]:
    """By words of blocks that are held, to what is not: whoever holds the block holds that by a stale word. All owners
    are returned as well: new ones come last."""
    every, leads = [*owners], list[Lead]()
    numbers = {owner: number for number, owner in enumerate(owners)}
    words = graph.stale
    for at in _needed(graph, found.whose):
        source = words.sources[at]
        owner = owners[found.whose[source]]._replace(stale=why_text(words.whys[at]))
        if owner not in numbers:
            numbers[owner] = len(every)
            every.append(owner)
        leads.append(Lead(STALE_RANK, numbers[owner], words.edges[at], source))
    return every, leads


def _needed(graph: Graph, whose: array[int]) -> Sequence[int]:
    """The places of stale words that lead from a block that is held to one that is not."""
    every = zip(graph.stale.sources, graph.stale.edges)
    return [
        at
        for at, (source, edge) in enumerate(every)
        if source >= 0 and whose[edge >> EDGE_SHIFT] == NOBODY and whose[source] != NOBODY
    ]
