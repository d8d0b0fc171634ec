"""What is known of pointers and of the blocks in which they lie, looked up once and before a word of it is written."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

from ...analysis.pinning_blocks import SAMPLES
from ..declared.claims import member_at, without_numbers
from ..declared.once_per_image import declared_in
from .asked_address import Goal
from .blocks import EDGE_SHIFT, STALE
from .edges import Graph, build, stale_at
from .pointer_strength import is_sure
from .pointers_to import ImageSearch
from .roots import BLOCK, Ref
from .stale_words import NO_BLOCK, why_text
from .unreached import mark_without_stale_words, types_of


def member_of(type: str, field: str) -> str:
    """ "Session.log"; of an array "Request[3].path"."""
    return f"{type.removesuffix('[]')}{field}" if field[0] == "[" else f"{type}.{field}"


class RefDetails:
    """Of pointers to one goal, or of a way to it."""

    def __init__(self, search: ImageSearch, refs: Sequence[Ref], goal: Optional[Goal]) -> None:
        """What the blocks are in which the pointers lie, and what is asked for."""
        self.blocks, self.names = search.blocks, search.names
        numbers = [*dict.fromkeys(each.block for each in refs if each.block is not None)]
        if goal is not None and goal.number is not None:
            numbers = [goal.number, *numbers]
        self._search = search
        self._header = search.session.layout.header
        self._types = types_of(search, numbers)

    def stale(self, ref: Ref) -> Optional[str]:
        """Why it is stale: one of base/heap_model.py's STALE."""
        if ref.address is None:
            return ref.stale
        return stale_at(self._search, ref.address, ref.block if ref.block is not None else NO_BLOCK)

    def is_sure(self, ref: Ref, goal: Goal) -> bool:
        return is_sure(self._search, ref, goal)

    def begin_of(self, goal: Goal) -> int:
        """The block's chunk; a mapping's own start."""
        return goal.span.start - (self._header if goal.state != "mapping" else 0)

    def type_of(self, number: Optional[int]) -> Optional[str]:
        kind = self._types.get(number) if number is not None else None
        return kind.name if kind is not None else None

    def is_size(self, number: int) -> bool:
        """Its type says no more than how large it is."""
        return number not in self._types or self._types[number].kind == "size"

    def member(self, ref: Ref) -> Optional[str]:
        """The same with the block's type: "Session.log", "Request[3].path"."""
        named, field = self.type_of(ref.block), self.field(ref)
        if named is None or field is None:
            return None
        return member_of(named, field)

    def field(self, ref: Ref) -> Optional[str]:
        """The member of the block's type in which the pointer lies, where debug information has that type."""
        named, name = declared_in(self._search), self.type_of(ref.block)
        if named is None or name is None or ref.block is None or ref.offset is None:
            return None
        types, own = named.types, named.name_of(ref.block)
        if own is None or own.type is None or own.form not in ("object", "array"):
            # a class that a vtable tells
            whole = types.named(name)
            return member_at(types.facts, whole[0], ref.offset, in_unions=False) or None if len(whole) == 1 else None
        facts, within = types.facts, ref.offset - own.front
        if within < 0:
            return None
        if own.form == "object":
            return member_at(facts, own.type, within, in_unions=False) or None
        size = facts(own.type).size
        # what a library's container calls its own has no members
        if not size or not own.text.endswith("[]"):
            return None
        member = member_at(facts, own.type, within % size, in_unions=False) or ""
        return f"[{within // size}]{'.' if member and member[0] != '[' else ''}{member}"


class StaleRow(NamedTuple):
    """Words alike."""

    name: Optional[str]
    """"Session.note", "double[]", "std::string body", a variable; None: not known."""
    why: str
    """One of base/heap_model.py's STALE."""
    blocks: int
    """With what hangs on those to which the words lead."""
    bytes: int
    samples: Sequence[int]
    """What malloc returned for some to which the words lead."""


class _Word(NamedTuple):
    ref: Ref
    why: str
    block: int
    """Where it leads."""


def stale_rows(search: ImageSearch) -> list[StaleRow]:
    """What holds most comes first."""
    graph, blocks = build(search), search.blocks
    met = bytearray(len(blocks))
    mark_without_stale_words(graph, met)
    words, hanging = [], []
    for word in [*_words(search, graph, bytes(met))]:
        if not met[word.block]:
            words.append(word)
            hanging.append(graph.table.mark([word.block], met, 1))
    told = RefDetails(search, [each.ref for each in words], None)
    rows: dict[tuple[Optional[str], str], StaleRow] = {}
    for word, below in zip(words, hanging):
        name = _name(told, word.ref)
        row = rows.get((name, word.why), StaleRow(name, word.why, blocks=0, bytes=0, samples=()))
        rows[name, word.why] = row._replace(
            blocks=row.blocks + len(below),
            bytes=row.bytes + blocks.bytes_of(below),
            samples=[*row.samples, blocks.starts[word.block]][:SAMPLES],
        )
    return sorted(rows.values(), key=lambda each: (-each.bytes, each.name or "", each.why))


def _words(search: ImageSearch, graph: Graph, sure: bytes) -> Iterator[_Word]:
    """Those of roots, and of blocks that something else leads to, to others."""
    stale, starts = graph.stale, search.blocks.starts
    for seed in graph.seeds:
        to = seed.edge >> EDGE_SHIFT
        if not seed.edge & STALE or sure[to]:
            continue
        root = search.roots.of(seed.root)
        if isinstance(root, Ref):
            ref = root
            why = ref.stale
        else:
            ref = search.named(root, seed.address, starts[to])
            why = why_text(stale.why(seed.address))
        if why is not None:
            yield _Word(ref, why, to)
    for address, source, edge, number in zip(stale.addresses, stale.sources, stale.edges, stale.whys):
        to, why = edge >> EDGE_SHIFT, why_text(number)
        if source != NO_BLOCK and sure[source] and not sure[to] and why is not None:
            yield _Word(Ref(BLOCK, address, starts[to], block=source, offset=address - starts[source]), why, to)


def _name(told: RefDetails, ref: Ref) -> Optional[str]:
    """Without the numbers of elements."""
    if ref.block is None:
        return ref.name
    name = told.member(ref) or told.type_of(ref.block)
    if name is None:
        return None
    plain = without_numbers(name)
    # a member that is an array stands for its elements; an array without members does not
    return plain.removesuffix("[]") if "." in plain else plain
