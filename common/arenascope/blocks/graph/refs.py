"""Who points to a range of memory: one look at every root and every live block."""

from __future__ import annotations

import struct
from bisect import bisect_right
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Callable, Iterator, NamedTuple, Optional, Sequence, Union

from ...base.errors import ArenascopeError
from ...base.model import ROOT_KINDS
from ...base.worker_pool import Meter
from ...glibc.find.thread_pointers import Dtv
from ...session.session import Session
from ...sources.elf.address_names import names_of, place_of
from ...sources.elf.elf_file import PT_TLS, STT_TLS, Elf, proven_files
from ...sources.elf.modules import Module
from ...sources.elf.registers import GENERAL
from ...sources.elf.unwind import MACHINES, Unwinder, UnwindTables, UnwoundFrame, by_number
from ...sources.target import Span, SymbolPlace, text_of
from ..pointer_finder import FastFinder, Finder, finder_of, library
from ..recognise.module_memory import ground_of
from .blocks import LiveBlocks, heap_spans
from .encodings import ImageWords, WordWindow, decoded, room
from .roots import NUMBERS, Root, Roots, RootWord

if TYPE_CHECKING:
    from .edges import Graph, SecondLook
    from .owners import BlockHolders, Owners
    from .returns import HeldPages
    from .root_pointers import Seed
    from .stale_rows import Contexts
    from .stale_words import StaleWords

FRAMES = 256
COUNTERS = {"x86_64": "rip", "aarch64": "pc"}


class _Variables(NamedTuple):
    """A module's thread-local variables, by where they lie in its block."""

    size: int
    offsets: Sequence[int]
    names: Sequence[str]
    sizes: Sequence[int]


class Names:
    """Of one image; each is looked up when it is asked for."""

    def __init__(self, session: Session, dtvs: Sequence[Dtv]) -> None:
        self._session = session
        self._dtvs = {each.tid: each for each in dtvs}
        ground = ground_of(session)
        self._modules, self._memory = ground.modules, ground.constants
        self._frames: dict[int, list[UnwoundFrame]] = {}
        self.main_thread = session.target.pid
        self._threads = {each.tid: each.name for each in session.target_threads}
        self._tls: Optional[list[_Variables]] = None
        self._tables = UnwindTables(self._memory, session.regions)

    def of(self, root: Root, address: int) -> Optional[str]:
        return text_of(self.place(root, address))

    def place(self, root: Root, address: int) -> Optional[SymbolPlace]:
        if root.kind == "global":
            return self._session.target.describe(address)
        if root.kind == "stack":
            return self.function(root.tid, address)
        if root.kind == "tls":
            return self.variable(root.tid, address)
        return SymbolPlace(root.path, 0) if root.path else None

    def thread(self, tid: Optional[int]) -> Optional[str]:
        return self._threads.get(tid) if tid is not None else None

    # frames

    def function(self, tid: Optional[int], address: int) -> Optional[SymbolPlace]:
        """The function whose frame has this word of a stack."""
        frames = self._frames_of(tid) if tid is not None else []
        index = bisect_right([each.stack_pointer for each in frames], address) - 1
        if not frames or index + 1 == len(frames):
            return None  # beyond the last that tables lead to
        # what is below all is the innermost's red zone; whoever called has its call in front of where it goes on
        told = self._session.target.describe(frames[index].pc - 1 if index > 0 else frames[0].pc)
        return told._replace(offset=0) if told is not None and not told.in_file else told

    def _frames_of(self, tid: int) -> list[UnwoundFrame]:
        if not self._frames:
            self._frames = {each.tid: self._unwound(each.general) for each in self._session.target.register_sets()}
        return self._frames.get(tid, [])

    def _unwound(self, general: bytes) -> list[UnwoundFrame]:
        machine = self._session.target.machine
        if machine not in MACHINES:
            return []
        names = GENERAL[NUMBERS[machine]]
        values = dict(zip(names, self._session.memory.unpack_words(general)))
        if COUNTERS[machine] not in values:
            return []
        unwinder = Unwinder(self._memory, self._tables, machine)
        return list(unwinder.frames(by_number(machine, values), values[COUNTERS[machine]], FRAMES))

    # thread-local variables

    def variable(self, tid: Optional[int], address: int) -> Optional[SymbolPlace]:
        dtv = self._dtvs.get(tid) if tid is not None else None
        for block in dtv.blocks if dtv is not None else ():
            known = self._variables
            module = known[block.module - 1] if block.module <= len(known) else None
            if module is None or not block.start <= address < block.start + module.size:
                continue
            index = bisect_right(module.offsets, address - block.start) - 1
            past = address - block.start - module.offsets[index] if index >= 0 else 0
            if index >= 0 and past < max(1, module.sizes[index]):
                return place_of(module.names[index], past)
        return None

    @property
    def _variables(self) -> list[_Variables]:
        """By the number of the module: ld.so counts those with such variables as it loads them."""
        if self._tls is None:
            order = self._modules.in_order or self._modules.all
            self._tls = [each for each in map(self._variables_of, order) if each.size]
        return self._tls

    def _variables_of(self, module: Module) -> _Variables:
        nothing = _Variables(0, (), (), ())
        try:
            elf = Elf(lambda address, size: self._modules.read(module, address, size), module.base, mapped=True)
            segment = next((each for each in elf.segments if each.type == PT_TLS), None)
            build_id = elf.build_id() if segment is not None else None
        except (ArenascopeError, struct.error):
            return nothing
        if segment is None:
            return nothing
        region = module.regions[0]
        paths = self._session.target.symbol_files(region, build_id) if build_id is not None else ()
        for file in proven_files(paths, build_id or ""):
            variables = names_of(file, (STT_TLS,))
            if variables:
                offsets, sizes, names = zip(*variables)
                return _Variables(segment.memory_size, offsets, names, sizes)
        return nothing._replace(size=segment.memory_size)


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
