"""What a program reaches its blocks from: variables, stacks, registers, memory that is not malloc's, the kernel.

A root is a word that the program itself can still use: in a variable or in TLS, in the used part of a stack, in a
runtime's heap or another mapping that is not malloc's, in a thread's register, or in what the kernel keeps for it. No
roots are malloc's own structures, which point to what is free or to all there is, what lies below a stack pointer, and
what an arena has given up. See docs/owners.md.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Callable, Collection, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

from ...base.heap_model import may_be_shared
from ...glibc.find.inside_malloc import MAIN
from ...glibc.find.other_allocators import maker_of
from ...glibc.find.thread_pointers import AT_BLOCK, CachedStack, Dtv, UsedStack, cached_stacks, read_dtv, used_stacks
from ...session.session import Session
from ...sources.elf.elf_file import NT_FPREGSET, NT_VECTORS, NT_X86_XSTATE, OWN
from ...sources.elf.modules import Modules
from ...sources.elf.registers import GENERAL, NUMBERS, WIDE_BYTES
from ...sources.memory import Memory
from ...sources.target import Region, RegionIndex, RegisterSet, RegisterSets, SharedMemory, Span, ThreadInfo, joined
from ..recognise.module_memory import LoadedModules, ground_of
from .blocks import LiveBlocks, Marks, SpanMark, heap_spans

RED_ZONE = {"x86_64": 128, "ppc64": 512}
"""How far below its stack pointer a function may keep words: the ABI's word."""
VECTOR = "vector-register"
CONTROL = 0x1000
"""struct pthread is shorter on every machine; where TLS lies below the thread pointer it begins there."""
# of NT_X86_XSTATE, in the standard form that ptrace gives: where each part lies, bytes of a register, its name
X86_PARTS = ((160, 16, 16, "xmm"), (576, 16, 16, "ymm"), (1152, 32, 16, "zmm"), (1664, 64, 16, "zmm"))


class StackWords:
    """What of each thread's stack counts."""

    def __init__(
        self, session: Session, threads: Sequence[ThreadInfo], dtvs: Mapping[int, Dtv], constants: Memory
    ) -> None:
        """`constants`: memory together with what files have of it."""
        self._machine = session.target.machine
        self._pid = session.target.pid
        self._page = session.target.page_size
        writable = [each for each in session.regions if each.writable]
        self._region = RegionIndex(writable).find
        self._code = RegionIndex([each for each in session.regions if each.executable]).find
        self._memory = session.memory
        self._by_end = {each.end: each for each in session.regions}
        self._main = next((each for each in writable if each.path == MAIN), None)
        self._threads = threads
        self._dtvs = dtvs
        places = {(each.tid, self._region(at)) for each in threads for at in (each.stack_pointer, each.thread_pointer)}
        self._users = Counter(region for _, region in places)
        self.popped: list[Span] = []
        """Of stacks that the program gave to threads, what lies below the stack pointer: known with the marks."""
        self._known = used_stacks(constants, self._machine, session.located.libc)

    def marks(self) -> Iterator[SpanMark]:
        """Stacks and TLS, and what lies below a stack pointer. Of what bears no mark all counts."""
        for thread in self._threads:
            yield from self._variables(thread)
        for thread in self._threads:
            yield from self._stack(thread)

    def _own(self, thread: ThreadInfo) -> Optional[Region]:
        """Where its first stack lies."""
        main = self._main if thread.tid == self._pid else None
        return main if main is not None else self._region(thread.thread_pointer)

    def _variables(self, thread: ThreadInfo) -> Iterator[SpanMark]:
        """struct pthread and the TLS blocks beside it. What the thread was started with is no variable of its own."""
        pointer, region = thread.thread_pointer, self._region(thread.thread_pointer)
        if pointer is None or region is None:
            return
        dtv = self._dtvs.get(thread.tid)
        beside = [each.start for each in dtv.blocks if region.contains(each.start)] if dtv is not None else []
        if self._machine in AT_BLOCK:
            start, end = min([pointer, *beside]), self._end(thread, pointer)
            control = Span(pointer, min(end, region.end))
        else:
            known = self._stack_of(thread)
            start, end = pointer - CONTROL, known.stack.end if known is not None else region.end
            control = Span(max(start, region.start), pointer)
        for address in self._arguments(control):
            yield SpanMark(address, address + self._memory.pointer_size, "stack", thread.tid)
        yield SpanMark(max(start, region.start), min(end, region.end), "tls", thread.tid)

    def _arguments(self, control: Span) -> Iterator[int]:
        """Where struct pthread has what pthread_create was given: behind the function (start_routine, arg)."""
        word = self._memory.pointer_size
        words = self._memory.try_words(control.start, min(control.bytes, CONTROL) // word) or ()
        for at, value in enumerate(words[:-1], 1):
            if self._code(value) is not None:
                yield control.start + at * word

    def _stack(self, thread: ThreadInfo) -> Iterator[SpanMark]:
        pointer, here = thread.stack_pointer, self._region(thread.stack_pointer)
        own = self._own(thread)
        if own is not None and own != here:
            # it is on another one meanwhile (sigaltstack, swapcontext): all of its own counts
            known = self._stack_of(thread) if own != self._main else None
            start = max(own.start, known.stack.start) if known is not None else own.start
            yield SpanMark(start, self._limit(own, thread), "stack", thread.tid)
        if pointer is None or here is None:
            return
        start = max(here.start, pointer - RED_ZONE.get(self._machine, 0))
        begin, known = self._begin(thread, pointer, here), self._stack_of(thread)
        if begin is not None:
            yield SpanMark(begin, start, None)
        elif known is not None and known.given and known.stack.start <= pointer < known.stack.end:
            self.popped.append(Span(known.stack.start, start))
        yield SpanMark(start, self._limit(here, thread), "stack", thread.tid)

    def _stack_of(self, thread: ThreadInfo) -> Optional[UsedStack]:
        pointer = thread.thread_pointer
        return self._known.get(pointer) if self._known is not None and pointer is not None else None

    def _begin(self, thread: ThreadInfo, at: int, here: Region) -> Optional[int]:
        """Where the stack that a thread is on certainly begins; None: below it may be anything of the program's."""
        if self._known is not None and here != self._main:
            known = self._stack_of(thread)
            sure = known is not None and not known.given and known.stack.start <= at < known.stack.end
            return max(known.stack.start, here.start) if known is not None and sure else None
        # no other thread has anything there
        alone = here == self._own(thread) and self._users[here] == 1
        return here.start if alone and (here == self._main or self._is_guarded(here)) else None

    def _is_guarded(self, region: Region) -> bool:
        """Whether it begins above what nobody may touch: the kernel joins mappings, and a stack can lie in .bss."""
        below = self._by_end.get(region.start)
        if below is None or below.readable or below.is_file:
            return False
        while below is not None and not below.is_file:
            below = self._by_end.get(below.start)
        return below is None or not below.writable

    def _limit(self, region: Region, thread: ThreadInfo) -> int:
        pointer = thread.thread_pointer
        if region.path == MAIN or pointer is None or not region.contains(pointer):
            return region.end
        return min(region.end, self._end(thread, pointer))

    def _end(self, thread: ThreadInfo, pointer: int) -> int:
        """After a thread's control block lies what the kernel has joined with its stack."""
        known = self._stack_of(thread)
        return known.stack.end if known is not None else -(-(pointer + CONTROL) // self._page) * self._page


def registers(session: Session, sets: Sequence[RegisterSets]) -> Iterator[Ref]:
    """Every word of every register that is known."""
    memory = session.memory
    names = GENERAL.get(NUMBERS.get(session.target.machine, 0), ())
    # a process of 32 bits under a kernel of 64 has 32-bit registers here, too
    for thread in sets:
        for index, value in enumerate(memory.unpack_words(thread.general)):
            yield Ref("register", None, value, names[index] if index < len(names) else f"register {index}", thread.tid)
        seen: set[tuple[str, int]] = set()
        for each in thread.others:
            for name, value in _vectors(memory, session.target.machine, each):
                if (name, value) not in seen:
                    seen.add((name, value))
                    yield Ref("register", None, value, name, thread.tid, stale=VECTOR)


def _vectors(memory: Memory, machine: str, registers: RegisterSet) -> Iterator[tuple[str, int]]:
    word = memory.pointer_size
    for index, value in enumerate(memory.unpack_words(registers.data)):
        at = index * word
        if (registers.owner, registers.type) == (OWN, NT_VECTORS):
            yield f"{'ymm' if at % WIDE_BYTES >= 16 else 'xmm'}{at // WIDE_BYTES}", value
        elif machine == "aarch64" and registers.type == NT_FPREGSET and at < 512:
            yield f"v{at // 16}", value
        elif machine in ("x86_64", "i386") and registers.type in (NT_FPREGSET, NT_X86_XSTATE):
            yield _x86_name(at), value
        else:
            yield "vector register", value


def _x86_name(at: int) -> str:
    for start, size, number, name in X86_PARTS:
        if start <= at < start + size * number:
            return f"{name}{(at - start) // size + (16 if start == X86_PARTS[-1][0] else 0)}"
    return "vector register"


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
    """A page that may be a runtime's."""

    start: int
    words: Sequence[int]
    end: int
    """Of its mapping."""


Size = Callable[[Memory, Page], int]
"""Returns how many bytes from a page's start are the runtime's; 0: it does not look like a page of it."""


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
    """What a runtime's heap looks like."""

    unit: int
    """Its pages begin at multiples of it."""
    size: Size


FORMS: Mapping[str, RuntimeForm] = {
    "CPython": RuntimeForm(4 << 10, _of_python),
    "Ruby": RuntimeForm(16 << 10, _of_ruby),
    "Zend": RuntimeForm(2 << 20, _of_zend),
    "V8": RuntimeForm(256 << 10, _of_v8),
}
"""By the allocator's name: see glibc/find/other_allocators.py."""


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


class Runtimes:
    """The heaps of the runtimes in one process."""

    def __init__(self, session: Session, ground: LoadedModules) -> None:
        self._memory = session.memory
        self._left = MOST_IN_ALL
        self._allocators = session.located.allocators
        present = [each.name for each in self._allocators]
        self._forms = {name: form for name, form in FORMS.items() if name in present}
        if session.memory.pointer_size != 8 or session.memory.byte_order != "little":
            self._forms = {}
        self._said = [
            Root("runtime", *span, path=name)
            for name, of in SAID.items()
            if name in present
            for span in of(session, ground)
        ]

    def parts(self, region: Region, root: Root) -> Iterator[Root]:
        """Yields a root of a mapping in parts, in order: what runtimes have there, and the rest."""
        said = maker_of(region, self._allocators) if self._allocators else ""
        if said or not (self._forms or self._said) or region.is_file:
            yield Root("runtime", root.start, root.end, path=said) if said in FORMS or said in SAID else root
            return
        span = Span(root.start, root.end)
        pieces = [
            Root("runtime", *each, path=name)
            for name, form in self._forms.items()
            for each in joined(self._of(form, span))
        ]
        for each in self._said:
            low, high = max(each.start, root.start), min(each.end, root.end)
            if low < high:
                pieces.append(each._replace(start=low, end=high))
        at = root.start
        for piece in sorted(pieces, key=lambda each: (each.start, each.end, each.path)):
            if at <= piece.start:
                if at < piece.start:
                    yield root._replace(start=at, end=piece.start)
                yield piece
                at = piece.end
        if at < root.end:
            yield root._replace(start=at)

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


KERNEL_OWN = ("[vvar", "[vdso", "[vsyscall", "[uprobes")
EPOLL = "epoll_ctl"


class Root(NamedTuple):
    """Memory whose every word counts."""

    kind: str
    start: int
    end: int
    tid: Optional[int] = None
    path: str = ""
    """What is mapped there, or whose heap it is."""


BLOCK = "block"


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
    """One of ENCODINGS, where it is no plain pointer."""
    stale: Optional[str] = None
    """Of a register: why it is perhaps old. Of what lies in memory pointer_facts.py asks."""


class Roots(NamedTuple):
    ranges: Sequence[Root]
    words: Sequence[Ref]
    """Pointers that are not in memory, or are known to be some."""
    missing: Sequence[Region]
    """Of the program's own memory, what this image lacks: pointers may be there."""
    blind: Sequence[int]
    """Threads of which no registers are known."""
    unwatched: bool
    """Epoll may keep pointers that this image lacks."""
    dtvs: Sequence[Dtv]
    shared: Optional[SharedMemory]
    """What residency does not tell of these."""
    popped: Sequence[Span] = ()
    """Of stacks that count as a whole, what lies below the stack pointer."""

    def of(self, number: int) -> Union[Root, Ref]:
        """What has this number among the ranges, and after these among the words."""
        behind = number - len(self.ranges)
        return self.ranges[number] if behind < 0 else self.words[behind]


def find_roots(session: Session, blocks: LiveBlocks) -> Roots:
    threads = [each.thread for each in session.thread_words] if session.started else session.target_threads
    vectors = {each.tid: read_dtv(session.memory, session.target.machine, each) for each in threads}
    dtvs = {tid: dtv for tid, dtv in vectors.items() if dtv is not None}
    sets = session.target.register_sets()
    ground = ground_of(session)
    ended = cached_stacks(ground.constants, session.target.machine, session.located.libc)
    stacks = StackWords(session, threads, dtvs, ground.constants)
    marks = Marks([*_not_roots(session, ended), *stacks.marks()])
    roots: list[Root] = [Root("mapping", each.start, each.end) for each in blocks.strangers]
    missing: list[Region] = []
    shared = session.target.image.shared_memory()
    unknown = {each.start for each in shared.unknown} if shared is not None else set()
    runtimes = Runtimes(session, ground)
    for region, kind in _candidates(session.regions, session.bss_ends, _protected(session)):
        absent = not region.present and _may_hold(region) and not _is_known(session, region)
        if absent or region.start in unknown:
            missing.append(region)
        for part, mark in marks.over(region.start, region.end):
            if mark is not None and mark.kind is None:
                continue
            root = Root(kind, *part, path=region.path) if mark is None else Root(mark.kind or kind, *part, mark.tid)
            # a thread may stand on a stack that its runtime has in its own heap
            if kind == "mapping" and root.kind in ("mapping", "stack"):
                roots += runtimes.parts(region, root)
            else:
                roots.append(root)
    changed = session.target.image.own_pages(list(_constant_files(session.regions, session.bss_ends)))
    roots += [Root("mapping", each.start, each.end, path=each.path) for each in changed]
    # what malloc gave to the dynamic linker for a thread's variables is the thread's
    roots += [Root("tls", each.start, each.end, each.tid) for each in _own_blocks(dtvs, blocks)]
    words = [*registers(session, sets)]
    words += [Ref("tls", None, each.address, "dtv", each.tid) for each in dtvs.values()]
    words += [Ref("tls", None, address, "dtv of an ended thread") for address in _left_dtvs(session, ended)]
    watched = session.target.image.watched()
    words += [Ref("kernel", None, each.data, f"epoll {each.epoll}, file {each.file}") for each in watched or ()]
    words += [Ref("kernel", None, each.data, f"timer {each.number}") for each in session.target.image.timers()]
    known = {each.tid for each in sets if each.general}
    blind = [each.tid for each in threads if each.runs or each.tid not in known]
    roots.sort(key=lambda each: each.start)
    unwatched = watched is None and _may_use_epoll(ground.modules)
    return Roots(
        roots,
        words,
        missing,
        blind=blind,
        unwatched=unwatched,
        dtvs=list(dtvs.values()),
        shared=shared,
        popped=stacks.popped,
    )


def _may_use_epoll(modules: Modules) -> bool:
    """Whoever does takes epoll_ctl from libc, which has it itself. False only where that is sure, and where nothing is
    known of what is loaded."""
    loaded = modules.in_order or ([modules.program] if modules.program is not None else [])
    users = [each for each in loaded if modules.mentions(each, EPOLL) is not False]
    return any(not modules.exported(each, [EPOLL]) for each in users)


def _own_blocks(dtvs: dict[int, Dtv], blocks: LiveBlocks) -> Iterator[SpanMark]:
    for dtv in dtvs.values():
        for each in dtv.blocks:
            index = blocks.find(each.freed_as or each.start)
            if index >= 0:
                yield SpanMark(blocks.starts[index], blocks.ends[index], "tls", dtv.tid)


def _left_dtvs(session: Session, ended: Sequence[CachedStack]) -> Iterator[int]:
    """The next thread on such a stack frees the blocks of its TLS, and keeps the vector (get_cached_stack)."""
    for each in ended:
        thread = ThreadInfo(0, thread_pointer=each.thread_pointer)
        dtv = read_dtv(session.memory, session.target.machine, thread)
        if dtv is not None:
            yield dtv.address


def _not_roots(session: Session, ended: Sequence[CachedStack]) -> Iterator[SpanMark]:
    """Heaps and mmapped blocks, whose blocks are followed from roots; arenas of every copy of malloc in a module;
    stacks of threads that have ended."""
    for stack in ended:
        yield SpanMark(stack.stack.start, stack.stack.end, None)
    for each in heap_spans(session):
        yield SpanMark(each.start, each.end, None)
    located, size = session.located, session.layout.arena.size
    for address in {located.main_arena, *located.others}:
        yield SpanMark(address, address + size, None)


def _may_hold(region: Region) -> bool:
    """Whether what a core left out may have had pointers. A private mapping of a file is left out where the process
    has not changed it: then it has none."""
    return not region.is_file or may_be_shared(region.path)


def _is_known(session: Session, region: Region) -> bool:
    """Tells whether what is not in this image was never in the process's memory either."""
    residency = session.any_residency
    return residency is not None and residency.count(region.start, region.end) is not None


def _protected(session: Session) -> set[int]:
    """The starts of mappings that nobody may read and that have pages of the program's all the same: guards and what is
    reserved have none."""
    closed = (each for each in session.regions if not (each.readable or each.shared or each.is_file))
    likely = {each.start: each for each in closed if not each.path.startswith(KERNEL_OWN)}
    if session.target.kind == "core":
        return {start for start, each in likely.items() if each.present}
    uses = session.target.image.mapping_use() if likely else None
    return {use.region.start for use in uses or () if use.region.start in likely and (use.rss or use.swapped)}


def _candidates(
    regions: Sequence[Region], bss: Mapping[int, int], protected: Collection[int] = ()
) -> Iterator[tuple[Region, str]]:
    """Mappings with words of the program's, or the parts of one, and what kind of root they are."""
    for before, region, after in zip([None, *regions], regions, [*regions[1:], None]):
        if not (region.readable or region.start in protected) or region.path.startswith(KERNEL_OWN):
            continue
        end = bss.get(region.start)
        if end is not None:
            yield region._replace(end=end), "global"
            region = region._replace(start=end)
        kind = _kind(region, before, after, bss)
        if kind is not None and region.size:
            yield region, kind


def _constant_files(regions: Sequence[Region], bss: Mapping[int, int]) -> Iterator[Region]:
    """Files that nobody may write to in memory, and once somebody may have: their pages are then the program's. What is
    loaded is left out: of that only RELRO is changed, which is no constant here."""
    loaded = {each.path for each in regions if each.executable}
    for before, region, after in zip([None, *regions], regions, [*regions[1:], None]):
        private = region.is_file and region.readable and not (region.writable or region.shared)
        if private and region.path not in loaded and _kind(region, before, after, bss) is None:
            yield region


def _kind(region: Region, before: Optional[Region], after: Optional[Region], bss: Mapping[int, int]) -> Optional[str]:
    path = region.path
    if not region.is_file or may_be_shared(path):
        return "mapping"
    if region.shared or (region.executable and not region.writable):
        return None
    if region.writable:
        return "global"
    # RELRO lies right in front of .data, which the program may have protected as well
    if after is not None and after.writable and after.start == region.end:
        return "global" if after.path == path or after.start in bss else None
    # or the end of it alone
    if before is not None and before.writable and (before.path, before.end) == (path, region.start):
        return "global" if before.offset < region.offset else None
    return None
