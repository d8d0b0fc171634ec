"""Who points to a range of memory: one look at every root and every live block."""

from __future__ import annotations

import struct
from bisect import bisect_right
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Callable, Iterator, NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError
from ...base.heap_model import ROOT_KINDS
from ...base.progress_bar import Meter, Unseen
from ...engine import ENCODINGS, EngineImage, StrengthGround
from ...glibc.find.thread_pointers import Dtv
from ...session.session import Session
from ...sources.elf.address_names import names_of, place_of
from ...sources.elf.elf_file import PT_TLS, STT_TLS, Elf, proven_files
from ...sources.elf.modules import Module
from ...sources.elf.registers import GENERAL, NUMBERS
from ...sources.elf.unwind import MACHINES, Unwinder, UnwindTables, UnwoundFrame, by_number
from ...sources.target import Span, SymbolPlace, joined, text_of
from ..recognise.module_memory import ground_of
from .blocks import STALE, LiveBlocks, edge_to, heap_spans
from .memory_windows import ImageBytes
from .roots import BLOCK, Ref, Root, Roots

if TYPE_CHECKING:
    from .edges import Graph, SecondLook
    from .main_holders import BlockHolders, Owners
    from .returns import HeldPages
    from .stale_rows import Contexts
    from .stale_words import StaleWords

# Encoded pointers: what a second search looks for, where no plain pointer leads to a block.
#
# With a tag in the low bits a pointer still leads into the block. What takes a calculation that the program alone knows
# (XOR lists, references from a base of its own) is not found. The engine decodes: see encoded_pointers.rs.

WHOLE = ("tagged", "shifted")
"""The upper 16 bits are a count or a tag (boost::lockfree), or the lower ones are."""
ALIKE = "inside"
"""No other writing: the offset inside a block is that of all blocks of its size."""
RELATIVE = "relative"
TAGS = 16
"""Tags in the low bits stay below malloc's alignment."""
FAR = 4096
"""A distance is longer: lengths and counts would lead to a neighbour."""


def room(encoding: str) -> int:
    """How far past a block's start a word leads, at most, that can be a pointer to it, and one: what is written
    otherwise has to lead to the start."""
    return TAGS if encoding in WHOLE else 1


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
        frames = self.frames_of(tid) if tid is not None else []
        index = bisect_right([each.stack_pointer for each in frames], address) - 1
        if not frames or index + 1 == len(frames):
            return None  # beyond the last that tables lead to
        # what is below all is the innermost's red zone; whoever called has its call in front of where it goes on
        told = self._session.target.describe(frames[index].pc - 1 if index > 0 else frames[0].pc)
        return told._replace(offset=0) if told is not None and not told.in_file else told

    def frames_of(self, tid: int) -> list[UnwoundFrame]:
        """A thread's, the innermost first."""
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

    @cached_property
    def _variables(self) -> list[_Variables]:
        """By the number of the module: ld.so counts those with such variables as it loads them."""
        order = self._modules.in_order or self._modules.all
        return [each for each in map(self._variables_of, order) if each.size]

    def _variables_of(self, module: Module) -> _Variables:
        nothing = _Variables(0, (), (), ())
        try:
            elf = Elf(lambda address, size: self._modules.read(module, address, size), module.base, mapped=True)
            segment = elf.segment(PT_TLS)
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


Look = Callable[[Span, Sequence[Span], Meter], "Iterator[PointerWord]"]


class PointerWord(NamedTuple):
    """A word that leads to where it was asked for."""

    address: int
    value: int
    encoding: Optional[str] = None


class RootSpans(NamedTuple):
    """What of the roots' ranges has anything but zeros."""

    spans: Sequence[Span]
    of: Sequence[int]
    """The number of the range that each is of."""


class ImageSearch:
    """All that is looked through."""

    def __init__(self, session: Session, blocks: LiveBlocks, roots: Roots) -> None:
        self.session, self.blocks, self.roots = session, blocks, roots
        self._image = ImageBytes(session, roots.shared)
        # the results of other files of this folder, each None until somebody asks for it
        self.contexts: Optional[Contexts] = None
        self.stale_words: Optional[StaleWords] = None
        self.root_pointers: Optional[Sequence[Seed]] = None
        self.strength: Optional[StrengthGround] = None
        self.graph: Optional[Graph] = None
        self.second_look: Optional[SecondLook] = None
        self.held: Optional[BlockHolders] = None
        self.owners: Optional[Owners] = None
        self.owned: Optional[HeldPages] = None

    @cached_property
    def names(self) -> Names:
        return Names(self.session, self.roots.dtvs)

    @cached_property
    def heap_spans(self) -> Sequence[Span]:
        """What of malloc's own memory has anything but zeros."""
        return [part for span in heap_spans(self.session) for part in self._image.present(*span)]

    @cached_property
    def root_spans(self) -> RootSpans:
        rows = [
            (part, number)
            for number, root in enumerate(self.roots.ranges)
            for part in self._image.present(root.start, root.end)
        ]
        return RootSpans([part for part, _ in rows], [number for _, number in rows])

    @cached_property
    def engine(self) -> EngineImage:
        """The image as the engine has it, with its live blocks."""
        engine = self.blocks.engine
        every = joined(sorted([*self.heap_spans, *self.root_spans.spans]))
        engine.set_memory(self._image.all_pieces(every))
        return engine

    @property
    def lost(self) -> int:
        """Bytes that could not be read."""
        return self._image.lost + (self.engine.lost if "engine" in vars(self) else 0)

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in (*self.heap_spans, *self.root_spans.spans))

    def meter(self, what: str, spans: Sequence[Span]) -> AbstractContextManager[Meter]:
        return self.session.meter(what, sum(each.bytes for each in spans))

    def references(self, target: Span, but: Optional[int] = None) -> list[Ref]:
        """Every pointer to the range, the end included: variables first, then in order of their addresses. `but`:
        what lies in this block is its own affair."""
        refs = self._all(target, but, self._plain)
        refs += [each for each in self.roots.words if target.start <= each.value <= target.end]
        return in_order(refs)

    def encoded(self, target: Span, but: Optional[int] = None) -> list[Ref]:
        """The same of what is no plain pointer."""
        return in_order(self._all(target, but, self._encoded))

    def between(self, source: Span, target: Span, encoded: bool = False) -> Iterator[PointerWord]:
        """Pointers from what one range has to the other, its end included: plain ones, or those that are none."""
        look = self._encoded if encoded else self._plain
        return look(target, [source], Unseen())

    def _all(self, target: Span, but: Optional[int], look: Look) -> list[Ref]:
        refs: list[Ref] = []
        roots = self.roots.ranges
        spans = [*self.root_spans.spans, *self.heap_spans]
        with self.meter("searching", spans) as meter:
            for part, number in zip(*self.root_spans):
                for hit in look(target, [part], meter):
                    refs.append(self.named(roots[number], hit.address, hit.value)._replace(encoding=hit.encoding))
            for hit in look(target, self.heap_spans, meter):
                index = self.blocks.find(hit.address)
                if index >= 0 and index != but:
                    offset = hit.address - self.blocks.starts[index]
                    place = Ref(BLOCK, hit.address, hit.value, block=index, offset=offset)
                    refs.append(place._replace(encoding=hit.encoding))
        return refs

    def _plain(self, target: Span, spans: Sequence[Span], meter: Meter) -> Iterator[PointerWord]:
        return (PointerWord(*each) for each in self.engine.words_into(target, spans, meter))

    def _encoded(self, target: Span, spans: Sequence[Span], meter: Meter) -> Iterator[PointerWord]:
        for each in self.engine.encoded_to(target, spans, meter):
            encoding = ENCODINGS[each.encoding]
            if not each.is_plain and each.value - target.start < room(encoding):
                yield PointerWord(each.address, each.value, encoding)

    def named(self, root: Root, address: int, value: int) -> Ref:
        return Ref(root.kind, address, value, self.names.of(root, address), tid=root.tid)


def in_order(refs: Sequence[Ref]) -> list[Ref]:
    """Variables first; of a kind by address."""
    order = {kind: at for at, kind in enumerate((*ROOT_KINDS, BLOCK))}
    return sorted(refs, key=lambda each: (order[each.kind], each.address or 0, each.tid or 0, each.name or ""))


class Seed(NamedTuple):
    """A pointer that a root has."""

    root: int
    """Its number among the ranges, or after these among the words."""
    address: int
    """Where it lies; 0 for a word of its own."""
    edge: int


def root_pointers(search: ImageSearch) -> Sequence[Seed]:
    """All that roots have, looked for once. Of those in ranges none is marked as stale: the table may need them."""
    if search.root_pointers is None:
        search.root_pointers = _found(search)
    return search.root_pointers


def _found(search: ImageSearch) -> list[Seed]:
    blocks, roots = search.blocks, search.roots
    with search.meter("looking into roots", search.root_spans.spans) as meter:
        found = search.engine.pointers(search.root_spans.spans, meter)
        seeds = [Seed(search.root_spans.of[span], address, edge) for address, _, edge, span in found]
    for number, word in enumerate(roots.words, len(roots.ranges)):
        index = blocks.find(word.value)
        if index >= 0:
            edge = edge_to(index, word.value - blocks.starts[index])
            seeds.append(Seed(number, 0, edge if word.stale is None else edge | STALE))
    return seeds
