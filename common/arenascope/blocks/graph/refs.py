"""Who points to a range of memory: one look at every root and every live block."""

from __future__ import annotations

from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Callable, Iterator, NamedTuple, Optional, Sequence, Union

from ...base.model import ROOT_KINDS
from ...base.worker_pool import Meter
from ...session.session import Session
from ...sources.target import Span
from ..pointer_finder import FastFinder, Finder, finder_of, library
from .blocks import LiveBlocks, heap_spans
from .encodings import decoded, room
from .memory_windows import ImageWords, WordWindow
from .root_names import Names
from .roots import Root, Roots, RootWord

if TYPE_CHECKING:
    from .edges import Graph, SecondLook
    from .owners import BlockHolders, Owners
    from .returns import HeldPages
    from .root_pointers import Seed
    from .stale_rows import Contexts
    from .stale_words import StaleWords

BLOCK = "block"
QUICK = 16 << 20
"""So many bytes are looked through a second time unasked without numpy: about a second."""


class Ref(NamedTuple):
    """A pointer, and who has it."""

    kind: str
    """One of ROOT_KINDS, or "block"."""
    address: Optional[int]
    """Where it lies; None: in a register, or in the kernel."""
    value: int
    name: Optional[str] = None
    tid: Optional[int] = None
    block: Optional[int] = None
    """Which of the live blocks it lies in."""
    offset: Optional[int] = None
    """From that block's start."""
    encoding: Optional[str] = None
    """How it is written, where it is no plain pointer: see encodings.py."""
    stale: Optional[str] = None
    """Of a register: why it is perhaps old. Of what lies in memory pointer_facts.py asks."""


class PointerWord(NamedTuple):
    """A word that leads to where it was asked for."""

    address: int
    value: int
    encoding: Optional[str] = None


Find = Union[Finder, FastFinder]
Look = Callable[[Find, WordWindow], Iterator[PointerWord]]


class ImageSearch:
    """All that is looked through."""

    def __init__(self, session: Session, blocks: LiveBlocks, roots: Roots) -> None:
        self.session, self.blocks, self.roots = session, blocks, roots
        self.words = ImageWords(session, roots.shared)
        # the results of other files of this folder, each None until somebody asks for it
        self.contexts: Optional[Contexts] = None
        self.stale_words: Optional[StaleWords] = None
        self.root_pointers: Optional[Sequence[Seed]] = None
        self.graph: Optional[Graph] = None
        self.second_look: Optional[SecondLook] = None
        self.held: Optional[BlockHolders] = None
        self.owners: Optional[Owners] = None
        self.owned: Optional[HeldPages] = None
        self.unasked = False
        """Nobody waits for what it finds."""
        self._names: Optional[Names] = None

    @property
    def looks_again(self) -> bool:
        """Whether what nothing plain leads to is looked for a second time: unasked only where that is little work."""
        return not self.unasked or self.numpy is not None or self.bytes <= QUICK

    @property
    def names(self) -> Names:
        if self._names is None:
            self._names = Names(self.session, self.roots.dtvs)
        return self._names

    @property
    def bytes(self) -> int:
        heaps = sum(self.words.bytes(*each) for each in heap_spans(self.session))
        return heaps + sum(self.words.bytes(each.start, each.end) for each in self.roots.ranges)

    @cached_property
    def numpy(self) -> Optional[ModuleType]:
        """Where it is found and worth it."""
        return library(self.bytes)

    def references(self, target: Span, but: Optional[int] = None) -> list[Ref]:
        """Every pointer to the range, the end included: variables first, then in order of their addresses. `but`:
        what lies in this block is its own affair."""
        refs = self._all(target, but, self._plain)
        refs += [of_word(each) for each in self.roots.words if target.start <= each.value <= target.end]
        return in_order(refs)

    def encoded(self, target: Span, but: Optional[int] = None) -> list[Ref]:
        """The same of what is no plain pointer."""
        return in_order(self._all(target, but, self._encoded))

    def between(self, source: Span, target: Span, encoded: bool = False) -> Iterator[PointerWord]:
        """Pointers from what one range has to the other, its end included: plain ones, or those that are none."""
        word = self.session.memory.pointer_size
        finder = finder_of(self.numpy, [target.start], [target.end], [target], word=word)
        for window in self.words.of(*source):
            yield from (self._encoded if encoded else self._plain)(finder, window)

    def _all(self, target: Span, but: Optional[int], look: Look) -> list[Ref]:
        finder = finder_of(self.numpy, [target.start], [target.end], [target], word=self.session.memory.pointer_size)
        refs: list[Ref] = []
        with self.session.meter("searching", self.bytes) as meter:
            for root in self.roots.ranges:
                for hit in self._found(finder, Span(root.start, root.end), look, meter):
                    refs.append(self.named(root, hit.address, hit.value)._replace(encoding=hit.encoding))
            for span in heap_spans(self.session):
                for hit in self._found(finder, span, look, meter):
                    index = self.blocks.find(hit.address)
                    if index >= 0 and index != but:
                        offset = hit.address - self.blocks.starts[index]
                        place = Ref(BLOCK, hit.address, hit.value, block=index, offset=offset)
                        refs.append(place._replace(encoding=hit.encoding))
        return refs

    def _found(self, finder: Find, span: Span, look: Look, meter: Meter) -> Iterator[PointerWord]:
        for window in self.words.of(span.start, span.end):
            yield from look(finder, window)
        meter.advance(self.words.bytes(*span))

    def _plain(self, finder: Find, window: WordWindow) -> Iterator[PointerWord]:
        word = self.session.memory.pointer_size
        for index, _ in finder.hits(window.words):
            yield PointerWord(window.address + index * word, window.words[index])

    def _encoded(self, finder: Find, window: WordWindow) -> Iterator[PointerWord]:
        word = self.session.memory.pointer_size
        for each in decoded(window, self.session.memory, self.numpy, finder.tops):
            for index, _ in finder.hits(each.words, room(each.encoding)):
                value, place = int(each.words[index]), each.place(index)
                if each.address != window.address or value != window.words[place]:
                    yield PointerWord(each.address + place * word, value, each.encoding)

    def named(self, root: Root, address: int, value: int) -> Ref:
        return Ref(root.kind, address, value, self.names.of(root, address), tid=root.tid)


def of_word(word: RootWord) -> Ref:
    return Ref(word.kind, word.address, word.value, word.name, tid=word.tid, stale=word.stale)


def in_order(refs: Sequence[Ref]) -> list[Ref]:
    """Variables first; of a kind by address."""
    order = {kind: at for at, kind in enumerate((*ROOT_KINDS, BLOCK))}
    return sorted(refs, key=lambda each: (order[each.kind], each.address or 0, each.tid or 0, each.name or ""))
