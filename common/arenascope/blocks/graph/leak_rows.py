"""The rows of leaks: what is lost, by what it is and why."""

from __future__ import annotations

from array import array
from itertools import chain, groupby, islice
from typing import Iterable, NamedTuple, Optional, Sequence

from ...analysis.held_sums import LeakRow
from ...analysis.pinning_blocks import SAMPLES
from ...base.heap_model import Kind
from ...engine import Lumps, fill
from ..block_index import WEAK_EVIDENCE
from ..declared.fitting_structs import fitting_structs
from ..declared.named_blocks import ELEMENT
from .blocks import NOBODY
from .pointers_to import ImageSearch
from .returns import returns
from .unreached import MOST_TYPED, by_size, types_of

FEW_WAYS = 1024
"""Cycles whose members are asked for one by one; others are as one of these with the same types."""
MOST_BYTES = 1 << 16
"""So much of a block is looked through for a pointer."""
COUNTED = ("control", "gobject", "python")
COUNTED_TYPES = ("std::_Sp_counted", "std::__shared_ptr_emplace", "alloc::rc::Rc", "alloc::sync::Arc")
"""Kinds of blocks that count their owners, and how the names of types begin that do."""
MANY = ("[]", " body")
"""Ends of the names of blocks that are many objects: a way round does not begin there."""


class _What(NamedTuple):
    """What is lost, and what its cycle is like."""

    type: str
    certain: bool = True
    is_weak: bool = False
    """Nothing but its size is known, and what it looks like."""
    alike: Optional[int] = None
    is_counted: bool = False
    """It counts its owners."""
    is_cycle: bool = False
    way: tuple[str, ...] = ()


class _Group:
    """Those of one row so far."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.blocks = self.bytes = self.indirect_blocks = self.indirect_bytes = 0
        self.samples: list[int] = []


def rows_of(search: ImageSearch, lumps: Lumps, strength: str, *, for_sure: bool = True) -> list[LeakRow]:
    """What holds most first. `for_sure`: no pointer leads to the heads."""
    grouped = _Grouped(search, lumps)
    resident = grouped.resident()
    rows = [
        LeakRow(
            what.type,
            certain=what.certain,
            alike=what.alike,
            reason=("cycle" if what.is_cycle else "lost") if for_sure else None,
            cycle=what.way,
            blocks=group.blocks,
            bytes=group.bytes,
            indirect_blocks=group.indirect_blocks,
            indirect_bytes=group.indirect_bytes,
            resident=resident[group.number] if resident is not None else None,
            strength=strength,
            samples=group.samples,
            is_weak=what.is_weak,
        )
        for what, group in grouped.groups.items()
    ]
    return sorted(rows, key=lambda each: (-each.all_bytes, each.type, each.cycle))


class _Grouped:
    """Heads by what they are."""

    def __init__(self, search: ImageSearch, lumps: Lumps) -> None:
        self._search, self._blocks = search, search.blocks
        self._ways = {way[0]: way for way in lumps.ways_round()}
        heads = lumps.heads
        asked = dict.fromkeys(chain(heads[:MOST_TYPED], *islice(self._ways.values(), MOST_TYPED)))
        self._kinds = types_of(search, [*islice(asked, MOST_TYPED)])
        self._named = search.session.block_results.named
        self._of_names: dict[tuple[int, int], _What] = {}
        self._of_cycles: dict[tuple[_What, ...], tuple[int, _What]] = {}
        self._steps = self._ask(islice(self._ways.values(), FEW_WAYS))
        self.groups: dict[_What, _Group] = {}
        self._whose = array("i", [NOBODY]) * len(self._blocks)
        """Of each block the number of its group."""
        first, rest = heads[:MOST_TYPED], heads[MOST_TYPED:]
        for head in chain(first, filter(self._ways.__contains__, rest) if self._ways else ()):
            self._add(head)
        self._add_many(array("I", (head for head in rest if head not in self._ways)) if self._ways else rest)
        of_number = [*self.groups.values()]
        for head, others in lumps.hanging():
            group = of_number[self._whose[head]]
            group.indirect_blocks += len(others)
            group.indirect_bytes += self._blocks.bytes_of(others)
            fill(self._whose, array("I", others), group.number)

    def resident(self) -> Optional[Sequence[int]]:
        """By the numbers of groups; None where it is not known what is in memory."""
        kept = returns(self._search, self._whose, len(self.groups)) if self.groups else None
        return [each.resident for each in kept] if kept is not None else None

    def _group(self, what: _What) -> _Group:
        return self.groups.get(what) or self.groups.setdefault(what, _Group(len(self.groups)))

    def _add(self, head: int) -> None:
        first, what = self._what(head)
        group, sizes = self._group(what), self._blocks.sizes
        group.blocks += 1
        group.bytes += sizes[first]
        group.indirect_bytes += sizes[head] - sizes[first]
        self._whose[head] = group.number
        if len(group.samples) < SAMPLES:
            group.samples.append(self._blocks.starts[first])

    def _add_many(self, heads: Sequence[int]) -> None:
        """They may be millions, most of them of few sizes."""
        sizes, starts, named = self._blocks.sizes, self._blocks.starts, self._named
        names = named.name if named is not None and len(named.name) else None
        group_of: dict[tuple[int, int], _Group] = {}
        for head in heads:
            key = (names[head] if names is not None else NOBODY, sizes[head])
            group = group_of.get(key)
            if group is None:
                group = group_of[key] = self._group(self._plainly(head))
            group.blocks += 1
            group.bytes += key[1]
            self._whose[head] = group.number
            if len(group.samples) < SAMPLES:
                group.samples.append(starts[head])

    def _what(self, head: int) -> tuple[int, _What]:
        """Of a cycle with the block that stands for it."""
        way = self._ways.get(head)
        if way is None:
            return head, self._plainly(head)
        parts = tuple(map(self._plainly, way))
        steps = self._steps.get(head)
        if steps is not None:
            found = _cycle(parts, steps)
        elif parts in self._of_cycles:
            found = self._of_cycles[parts]
        else:
            found = _cycle(parts, self._ask([way])[head])
        self._of_cycles.setdefault(parts, found)
        at, what = found
        return way[at], what

    def _plainly(self, block: int) -> _What:
        """What a block is, whatever leads to it."""
        kind, named = self._kinds.get(block), self._named
        if kind is not None or named is None or named.name_of(block) is None:
            return self._told(kind, block)
        key = named.name[block], named.level[block]
        known = self._of_names.get(key)
        if known is None:
            known = self._of_names[key] = self._told(named.kind(block), block)
        return known

    def _told(self, kind: Optional[Kind], block: int) -> _What:
        if kind is None:
            return _What(by_size(self._blocks.sizes[block]), is_weak=True)
        alike = self._named.alike(block) if self._named is not None and kind.kind == "declared" else None
        is_counted = kind.kind in COUNTED or kind.name.startswith(COUNTED_TYPES)
        return _What(kind.name, kind.certain, kind.kind in WEAK_EVIDENCE, alike, is_counted)

    def _ask(self, ways: Iterable[Sequence[int]]) -> dict[int, Sequence[str]]:
        """By the heads of cycles, the step from each block on the way to the next."""
        pairs = {way[0]: [*zip(way, (*way[1:], way[0]))] for way in ways}
        traced = self._named.traced if self._named is not None else None
        every = [pair for each in pairs.values() for pair in each]
        steps = iter(traced.steps(every) if traced is not None and every else [""] * len(every))
        return {head: [next(steps) or self._offset(*pair) for pair in each] for head, each in pairs.items()}

    def _offset(self, block: int, to: int) -> str:
        """Where in a block a pointer to another lies."""
        blocks, memory = self._blocks, self._search.session.memory
        start, end = blocks.starts[block], blocks.ends[block]
        words = memory.try_words(start, min(end - start, MOST_BYTES) // memory.pointer_size) or ()
        low, high = blocks.starts[to], blocks.ends[to]
        at = next((at for at, word in enumerate(words) if low <= word <= high), None)
        return f"+{at * memory.pointer_size}" if at is not None else "?"


def _cycle(parts: Sequence[_What], steps: Sequence[str]) -> tuple[int, _What]:
    """It begins at an object: of several so that the way is written in the simplest way. Which part that is, too."""
    objects = [at for at, part in enumerate(parts) if not part.type.endswith(MANY)]
    turned = [(at, _way([*steps[at:], *steps[:at]])) for at in objects or (0,)]

    def rank(each: tuple[int, tuple[str, ...]]) -> tuple[object, ...]:
        at, way = each
        return parts[at].is_weak, len(way), way[0].endswith("]"), way, parts[at].type

    at, way = min(turned, key=rank)
    return at, parts[at]._replace(is_cycle=any(part.is_counted for part in parts), way=way)


def _way(steps: Sequence[str]) -> tuple[str, ...]:
    """ "children" and "[]" are one step; what comes again and again stands once."""
    way: list[str] = []
    for step in steps:
        if step.startswith("[") and way:
            way[-1] = way[-1].removesuffix(ELEMENT).removesuffix("[]") + step
        else:
            way.append(step.lstrip("."))
    return tuple(step for step, _ in groupby(each.replace(ELEMENT, "[]") for each in way))


def with_guesses(search: ImageSearch, lumps: Lumps, rows: Sequence[LeakRow]) -> list[LeakRow]:
    """Of blocks of which next to nothing is known but their size, what they may be."""
    found = fitting_structs(search.session, [each for each in rows if each.is_weak], lumps.heads)
    return [each._replace(may_be=found.get(each.samples[0], ())) for each in rows]
