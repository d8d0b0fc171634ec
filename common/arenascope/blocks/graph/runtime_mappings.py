"""The heaps of languages' runtimes: which mappings beside malloc's are whose.

By the name that the kernel has for a mapping, by what the runtime itself says of its heap, or page by page: some write
in front of each page where its parts lie. What nothing tells of stays a mapping like any other.
"""

from __future__ import annotations

from itertools import islice
from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

from ...glibc.find.which_allocator import maker_of
from ...session.session import Session
from ...sources.memory import Memory
from ...sources.target import Region, Span, joined
from ..recognise.module_memory import LoadedModules

MOST_PAGES = 1 << 16
"""So many pages of a mapping are asked at most: of a larger one every second, every third …"""
MOST_IN_ALL = 1 << 20
"""And of all mappings of a process or core, which may lie about their sizes."""
PAGE = 4 << 10
STRUCTS = "gHotSpotVMStructs"
MOST_ENTRIES = 1 << 14
GO_HEAP = "runtime.mheap_"
GO_HEAP_BYTES = 256 << 10
GO_ARENA = 64 << 20
GO_TABLE = 32 << 20
GO_TABLES, GO_ARENAS = 16, 1 << 16
"""So many words are tried as that table's address, and so many arenas are asked of each."""
GO_LOWEST = 1 << 47
"""It counts addresses from the lowest of all, which are negative."""
RUBY_SLOTS = (40, 80, 160, 320, 640)
HEADER = 16
"""Words in which a page says what it is."""


class Page(NamedTuple):
    """What may be one of a runtime's."""

    start: int
    words: Sequence[int]
    end: int
    """Of its mapping."""


Size = Callable[[Memory, Page], int]
"""How many bytes from a page's start are the runtime's; 0: it does not look like one."""


def _of_python(memory: Memory, page: Page) -> int:
    """A pool of pymalloc's, since 3.7: how many objects of which size it has, and where the next new one will be."""
    header, half = 48, 0xFFFFFFFF
    count, free = page.words[0] & half, page.words[1]
    size_class, new, last = page.words[4] >> 32, page.words[5] & half, page.words[5] >> 32
    for pool, unit in ((16 << 10, 16), (4 << 10, 16), (4 << 10, 8)):
        size = unit * (size_class + 1)
        if (
            page.start % pool == 0
            and size_class < 64
            and last == pool - size
            and count <= (pool - header) // size
            and header <= new <= pool
            and (new - header) % size == 0
            and (not free or page.start < free < page.start + pool)
        ):
            return pool
    return 0


def _of_ruby(memory: Memory, page: Page) -> int:
    """A page of slots: it leads to what describes it, which says where the first slot is, and since 3.1 how many bytes
    each has and how many there are."""
    described = _words(memory, page.words[0])
    if not any(page.start < word <= page.start + 1024 for word in described):
        return 0
    small, large = 16 << 10, 64 << 10
    slot, slots = described[0] & 0xFFFF, described[0] >> 16 & 0xFFFF
    size = large if slot in RUBY_SLOTS and slot * slots > small else small
    return size if page.start % size == 0 and page.start + size <= page.end else 0


def _of_zend(memory: Memory, page: Page) -> int:
    """A chunk: of all it is in a ring."""
    heap, after, before = page.words[:3]
    chunk = 2 << 20
    in_ring = all(not each % chunk and each for each in (after, before))
    return chunk if in_ring and 0 < heap % chunk < PAGE and memory.try_word(after + 16) == page.start else 0


def _of_v8(memory: Memory, page: Page) -> int:
    """A page of objects: it, or what it leads to (since V8 13), says how large it is, and where its objects are."""
    for words in (page.words, _words(memory, page.words[1])):
        for size in words:
            if PAGE <= size <= page.end - page.start and not size % PAGE:
                first = any(page.start < word <= page.start + 2 * PAGE for word in words)
                if first and any(page.start + size - PAGE < word <= page.start + size for word in words):
                    return size
    return 0


def _words(memory: Memory, address: int) -> Sequence[int]:
    return (memory.try_words(address, HEADER) if address and not address % 8 else None) or ()


class RuntimeForm(NamedTuple):
    """Of a runtime's heap."""

    unit: int
    """Its pages begin at multiples of it."""
    size: Size


FORMS: Mapping[str, RuntimeForm] = {
    "CPython": RuntimeForm(4 << 10, _of_python),
    "Ruby": RuntimeForm(16 << 10, _of_ruby),
    "Zend": RuntimeForm(2 << 20, _of_zend),
    "V8": RuntimeForm(256 << 10, _of_v8),
}
"""By the allocator's name: see glibc/find/which_allocator.py."""


def _of_jvm(session: Session, ground: LoadedModules) -> Iterator[Span]:
    """HotSpot has a table of its own variables and members, for its serviceability agent."""
    memory, modules = ground.constants, ground.modules
    library = next((each for each in modules.all if each.name == "libjvm.so"), None)
    table = modules.exported(library, [STRUCTS]).get(STRUCTS) if library is not None else None
    entry = memory.try_word(table) if table is not None else None
    found: dict[tuple[bytes, bytes], tuple[int, int]] = {}
    for _ in range(MOST_ENTRIES if entry else 0):
        words = _words(memory, entry)[:6] if entry else ()
        if not words or not words[0]:
            break
        of, name = (_text(memory, each) for each in words[:2])
        found[of, name] = words[4], words[5]
        entry = entry + 48 if entry else None
    _, variable = found.get((b"Universe", b"_collectedHeap"), (0, 0))
    member, _ = found.get((b"CollectedHeap", b"_reserved"), (0, 0))
    heap = memory.try_word(variable) if variable and member else None
    reserved = _words(memory, heap + member) if heap else ()
    if reserved:
        yield Span(reserved[0], reserved[0] + 8 * reserved[1])


def _text(memory: Memory, address: int) -> bytes:
    data = memory.try_read(address, 32) if address else None
    return data.split(b"\0")[0] if data else b""


def _of_go(session: Session, ground: LoadedModules) -> list[Span]:
    """A table has a word for each 64 MiB of addresses: not 0 where these are its heap."""
    memory, program = session.memory, ground.modules.program
    heap = ground.modules.static(program, [GO_HEAP]).get(GO_HEAP) if program is not None else None
    variables = next((each for each in session.regions if heap is not None and each.contains(heap)), None)
    if heap is None or variables is None:
        return []
    data = memory.try_read(heap, min(GO_HEAP_BYTES, (variables.end - heap) & -8)) or b""
    large = [each for each in session.regions if each.size >= GO_TABLE and each.readable and not each.is_file]
    tables = (
        word
        for word in memory.unpack_words(data)
        if word and not word % PAGE and any(each.start <= word <= each.end - GO_TABLE for each in large)
    )
    arenas = (
        Span(max(start, region.start), min(start + GO_ARENA, region.end))
        for region in session.regions
        if region.readable and region.present and not region.is_file
        for start in range(region.start // GO_ARENA * GO_ARENA, region.end, GO_ARENA)
    )
    places = {each: 8 * ((each.start + GO_LOWEST) // GO_ARENA % (GO_TABLE // 8)) for each in islice(arenas, GO_ARENAS)}
    found = (
        [each for each, at in places.items() if memory.try_word(table + at)] for table in islice(tables, GO_TABLES)
    )
    return next(filter(None, found), [])


SAID: Mapping[str, Callable[[Session, LoadedModules], Iterable[Span]]] = {"JVM": _of_jvm, "Go": _of_go}
"""Runtimes that tell of all their heap in one place."""


class MappingPart(NamedTuple):
    """Of a mapping."""

    span: Span
    runtime: str
    """Whose heap it is; "": not known."""


class Runtimes:
    """Those of one process."""

    def __init__(self, session: Session, ground: LoadedModules) -> None:
        self._memory = session.memory
        self._left = MOST_IN_ALL
        self._allocators = session.located.allocators
        present = [each.name for each in self._allocators]
        self._forms = {name: form for name, form in FORMS.items() if name in present}
        if session.memory.pointer_size != 8 or session.memory.byte_order != "little":
            self._forms = {}
        self._said = [
            MappingPart(span, name) for name, of in SAID.items() if name in present for span in of(session, ground)
        ]

    def parts(self, region: Region, span: Span) -> Iterator[MappingPart]:
        """Of a part of a mapping, in order."""
        said = maker_of(region, self._allocators) if self._allocators else ""
        if said or not (self._forms or self._said) or region.is_file:
            yield MappingPart(span, said if said in FORMS or said in SAID else "")
            return
        at = span.start
        pieces = [
            MappingPart(each, name) for name, form in self._forms.items() for each in joined(self._of(form, span))
        ]
        for each, name in self._said:
            low, high = max(each.start, span.start), min(each.end, span.end)
            if low < high:
                pieces.append(MappingPart(Span(low, high), name))
        for piece in sorted(pieces):
            if at <= piece.span.start:
                if at < piece.span.start:
                    yield MappingPart(Span(at, piece.span.start), "")
                yield piece
                at = piece.span.end
        if at < span.end:
            yield MappingPart(Span(at, span.end), "")

    def _of(self, form: RuntimeForm, span: Span) -> Iterator[Span]:
        step = form.unit * (1 + (span.end - span.start) // form.unit // MOST_PAGES)
        at = -(-span.start // form.unit) * form.unit
        while at + 8 * HEADER <= span.end and self._left:
            self._left -= 1
            words = _words(self._memory, at)
            size = form.size(self._memory, Page(at, words, span.end)) if words else 0
            after = at + max(size, step)
            if size:
                # what lies between two pages that are asked is as the first
                yield Span(at, min(after, span.end) if step > form.unit else at + size)
            at = after
