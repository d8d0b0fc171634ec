"""Who holds what something else shows: single blocks, and all blocks of a kind."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from functools import cached_property
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...base.model import Kind
from ...base.printable import UserData
from ..block_index import NamedLiveBlocks
from ..declared.claims import member_at
from ..declared.named_blocks import ELEMENT, NamedBlocks, StartVariable
from ..declared.once_per_image import declared_in, values_in
from ..declared.path_text import MOST_STEPS, is_pointed_to, length_of, path_text, start_of, start_text
from ..declared.values import Values
from ..name_all_blocks import live_kinds
from ..recognise.all_recognisers import NONE
from .blocks import NOBODY
from .leads import Owner
from .leaks import doubts
from .owners import UNREACHED, held
from .refs import ImageSearch, Ref
from .returns import retained


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
        for kind, number in placed(self.search, live):
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
        """By the kind's number: what its blocks take with all that they alone lead to; empty where that is not told."""
        kinds = array("i", [NONE]) * len(self.search.blocks)
        for kind, number in placed(self.search, live):
            kinds[number] = kind
        return retained(self.search, kinds) or {}


def kinds_of_all(search: ImageSearch) -> list[Optional[Kind]]:
    """What each live block is."""
    live = live_kinds(search.session)
    kinds: list[Optional[Kind]] = [None] * len(search.blocks)
    for kind, number in placed(search, live):
        kinds[number] = live.kinds[kind]
    return kinds


def placed(search: ImageSearch, live: NamedLiveBlocks) -> Iterator[tuple[int, int]]:
    """(kind, number) of each block: both sweeps met them in the order of their addresses."""
    starts, header = search.blocks.starts, search.session.layout.header
    for heap in live.heaps:
        number = bisect_left(starts, heap.heap.address)
        for chunk, _, _, kind in live.blocks(heap):
            if kind != NONE and number < len(starts) and starts[number] == chunk + header:
                yield kind, number
                number += 1
    for block, kind in live.mmapped:
        number = search.blocks.find(block.chunk + header)
        if number >= 0:
            yield kind, number


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
        return named.layouts.types.facts(start.type).size if named is not None and named.layouts is not None else 0

    @cached_property
    def _starts(self) -> tuple[Sequence[int], Sequence[StartVariable]]:
        """Those that lie in memory, in order, after their addresses."""
        starts = self._named.starts if self._named is not None else ()
        placed = {each.address: each for each in starts if each.address is not None}
        addresses = sorted(placed)
        return addresses, [placed[each] for each in addresses]

    def _variable(self, ref: Ref) -> Optional[str]:
        named = self._named
        if ref.address is None or named is None or named.layouts is None:
            return None
        addresses, starts = self._starts
        at = bisect_right(addresses, ref.address) - 1
        if at < 0:
            return None
        address, start = addresses[at], starts[at]
        if ref.address >= address + self._size(start):
            return None
        member = member_at(named.layouts.types.facts, start.type, ref.address - address) or ""
        dot = "." if member and member[0] != "[" else ""
        return f"{start_text(named, start)}{dot}{member}"

    def _member(self, named: NamedBlocks, number: int, offset: int) -> Optional[str]:
        """As it follows the way to its block; None where no member lies there."""
        name = named.name_of(number)
        if name is None or name.type is None or named.layouts is None or offset < name.front:
            return None
        types = named.layouts.types
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
