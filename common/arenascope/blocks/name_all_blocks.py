"""What every live block is: all arenas swept once, and the blocks served by mmap.

The kinds of a sweep are settled only when all of it was seen (a vtable that was left behind is told by the sizes of the
others), so that what it found is kept: a size word and a kind for each chunk.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Optional, Sequence

from ..base.errors import RedactedError
from ..base.heap_model import Kind
from ..session.session import Session
from ..sources.target import Span, joined
from .block_index import WEAK_EVIDENCE, Index, Known, NamedLiveBlocks
from .declared.named_blocks import NamedBlocks
from .declared.once_per_image import declared_blocks
from .graph.blocks import heap_spans, live_blocks
from .graph.memory_windows import ImageBytes
from .named_by_holders import HolderPass
from .recognise.all_recognisers import NONE, BlockKinds, Catalogue
from .recognise.module_memory import ground_of

REPLACED_HOLDERS = ("c++", "control", "node")
REPLACED = (*WEAK_EVIDENCE, *REPLACED_HOLDERS)
"""What blocks are by their own words, of which no runtime asks later."""


class DeclaredNames:
    """Names the blocks of one look, in steps."""

    def __init__(self, session: Session, catalogue: Catalogue, found: NamedBlocks) -> None:
        self._catalogue, self._found, self.blocks = catalogue, found, found.blocks
        self._word = session.layout.word
        self._certain = array("i", [NONE]) * len(found.name)
        """Of each block the number of its kind, where it is certain; or NONE."""
        numbers: dict[int, int] = {}
        for block in found.certain():
            name = found.name[block]
            kind = found.kind(block) if name not in numbers else None
            if kind is not None:
                numbers[name] = catalogue.plain(kind)
            self._certain[block] = numbers[name]
        self._numbers: dict[tuple[int, int, int], int] = {}

    def put_first(self, found: BlockKinds) -> None:
        """Where no runtime and no program has words of its own, what is certain counts, but where there is a vtable:
        what is not told may begin with the same."""
        for block, number in enumerate(self._certain) if self._catalogue.asks_blocks_alone else ():
            if number != NONE and not found.has_table[block]:
                found.kinds[block] = number

    def put_certain(self, kinds: array[int], names: Sequence[Kind]) -> Sequence[Known]:
        """Before holders are asked, which takes longer than all else: what is certain needs none. What a runtime's own
        words tell stays, as these tell of other blocks, too. Returns what was known to hold others, with the kinds that
        it had before."""
        replaced = [each.kind in REPLACED for each in names]
        holds = [each.kind in REPLACED_HOLDERS for each in names]
        holders = []
        for block, (number, before) in enumerate(zip(self._certain, kinds)):
            if number != NONE and replaced[before]:
                if holds[before]:
                    holders.append((self.blocks.starts[block], self.blocks.sizes[block] - self._word, before))
                kinds[block] = number
        return holders

    def put_rest(self, kinds: array[int], names: list[Kind]) -> None:
        """What is less than certain names what nothing else has, or says more."""
        for block, (name, certain, before) in enumerate(zip(self._found.name, self._certain, kinds)):
            if name >= 0 and before != certain:
                known = self._numbers.get((name, certain, before))
                kinds[block] = known if known is not None else self._number(block, before, names)
        names += [entry.kind for entry in self._catalogue.entries[len(names) :]]

    def _number(self, block: int, before: int, names: Sequence[Kind]) -> int:
        """Of a block's kind, by what it was before."""
        found = self._found
        kind = found.kind(block) if found.is_better(block, names[before]) else None
        number = self._catalogue.plain(kind) if kind is not None else before
        self._numbers[found.name[block], self._certain[block], before] = number
        return number


THREAD_CACHE = Kind("glibc's thread cache", "holder", how="its thread's own pointer to it")


def catalogue_of(session: Session) -> Catalogue:
    parts = [*session.heap_ranges, *(Span(block.base, block.base + block.bytes) for block in session.mmapped)]
    low, high = min((each.start for each in parts), default=0), max((each.end for each in parts), default=0)
    return Catalogue(ground_of(session), low, high, lambda: live_blocks(session).engine)


def live_kinds(session: Session, only: Optional[int] = None, holders: bool = True) -> NamedLiveBlocks:
    """The live blocks of one arena, or of all and those served by mmap; at Ctrl-C those that were met. With `holders`
    what holds a block may name it, too, which takes as long again."""
    if session.target.image.redacted:
        raise RedactedError("what they are")
    session.measure_residency()
    catalogue = catalogue_of(session)
    declared = _declared(session, catalogue) if holders else None
    blocks = declared.blocks if declared is not None else live_blocks(session)
    live = NamedLiveBlocks(session, blocks, only)
    try:
        blocks.engine.set_memory(ImageBytes(session, None).all_pieces(_data_of(session)))
        found = catalogue.kinds_of(blocks.engine)
        if declared is not None:
            declared.put_first(found)
        settled = catalogue.settle(Counter(found.kinds))
        live.numbers = kinds = array("i", map(settled.__getitem__, found.kinds))
        live.kinds += [entry.kind for entry in catalogue.entries]
        # there may be millions
        del found
        if holders:
            known = declared.put_certain(kinds, live.kinds) if declared is not None else ()
            index = Index(session, catalogue, blocks, kinds, live.kinds)
            HolderPass(session, catalogue, blocks.engine, index).run(known)
            if declared is not None:
                declared.put_rest(kinds, live.kinds)
    except KeyboardInterrupt:
        session.stopped = True
    live.numbers = _joined(live.numbers, catalogue)
    live.caches = {each.address: catalogue.plain(THREAD_CACHE) for each in session.thread_caches if each.address}
    live.kinds = [entry.kind for entry in catalogue.entries]
    return live


def _joined(numbers: array[int], catalogue: Catalogue) -> array[int]:
    """Gives blocks that their own words tell the number of the program's type of that name."""
    kinds = [entry.kind for entry in catalogue.entries]
    declared = {each.name: number for number, each in enumerate(kinds) if each.kind == "declared" and each.certain}
    same = [
        declared.get(each.name, number) if each.kind == "holder" and each.certain else number
        for number, each in enumerate(kinds)
    ]
    # NONE is the last one
    return array("i", map([*same, NONE].__getitem__, numbers)) if same != [*range(len(kinds))] else numbers


def _data_of(session: Session) -> list[Span]:
    """Heaps, and what else blocks lead to or are held by; what a search needs, too, which goes on afterwards."""
    search = session.block_results.search
    roots = search.root_spans.spans if search is not None else ()
    every = (each for each in session.regions if each.writable and each.readable and each.present and not each.shared)
    return joined(sorted([*heap_spans(session), *roots, *(Span(each.start, each.end) for each in every)]))


def _declared(session: Session, catalogue: Catalogue) -> Optional[DeclaredNames]:
    """Before all else, which need not be asked then of what has a certain name. After Ctrl-C none, but what blocks are
    by their own words is told."""
    try:
        found = declared_blocks(session)
    except KeyboardInterrupt:
        session.stopped = True
        return None
    return DeclaredNames(session, catalogue, found) if found is not None and found.names else None
