"""What a program reaches its blocks from: variables, stacks, registers, memory that is not malloc's, the kernel.

Never malloc's own structures: what they point to is free, or all there is. What is below a stack pointer is no root,
nor what an arena has given up. See docs/owners.md.
"""

from __future__ import annotations

from typing import Collection, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...base.model import may_be_shared
from ...glibc.find.thread_pointers import CachedStack, Dtv, cached_stacks, read_dtv
from ...session.session import Session
from ...sources.elf.modules import Modules
from ...sources.target import Region, SharedMemory, Span, ThreadInfo
from ..recognise.module_memory import ground_of
from .blocks import LiveBlocks, Marks, SpanMark, heap_spans
from .runtime_mappings import MappingPart, Runtimes
from .threads import StackWords, registers

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


class RootWord(NamedTuple):
    """One word that is not in memory, or is known to be a pointer."""

    kind: str
    value: int
    name: str
    tid: Optional[int] = None
    address: Optional[int] = None
    stale: Optional[str] = None
    """Why it is perhaps old: one of base/model.py's STALE."""


class Roots(NamedTuple):
    ranges: Sequence[Root]
    words: Sequence[RootWord]
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


def find_roots(session: Session, blocks: LiveBlocks) -> Roots:
    threads = [each.thread for each in session.thread_words] if session.started else session.target_threads
    dtvs = {thread.tid: dtv for thread in threads for dtv in _dtv(session, thread)}
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
                roots += [_of_part(root, each) for each in runtimes.parts(region, part)]
            else:
                roots.append(root)
    changed = session.target.image.own_pages(list(_constant_files(session.regions, session.bss_ends)))
    roots += [Root("mapping", each.start, each.end, path=each.path) for each in changed]
    # what malloc gave to the dynamic linker for a thread's variables is the thread's
    roots += [Root("tls", each.start, each.end, each.tid) for each in _own_blocks(dtvs, blocks)]
    words = [
        RootWord("register", each.value, each.name, each.tid, stale=each.stale) for each in registers(session, sets)
    ]
    words += [RootWord("tls", each.address, "dtv", each.tid) for each in dtvs.values()]
    words += [RootWord("tls", address, "dtv of an ended thread") for address in _left_dtvs(session, ended)]
    watched = session.target.image.watched()
    words += [RootWord("kernel", each.data, f"epoll {each.epoll}, file {each.file}") for each in watched or ()]
    words += [RootWord("kernel", each.data, f"timer {each.number}") for each in session.target.image.timers()]
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


def _of_part(root: Root, part: MappingPart) -> Root:
    start, end = part.span
    return Root("runtime", start, end, path=part.runtime) if part.runtime else root._replace(start=start, end=end)


def _may_use_epoll(modules: Modules) -> bool:
    """Whoever does takes epoll_ctl from libc, which has it itself. False only where that is sure, and where nothing is
    known of what is loaded."""
    loaded = modules.in_order or ([modules.program] if modules.program is not None else [])
    users = [each for each in loaded if modules.mentions(each, EPOLL) is not False]
    return any(not modules.exported(each, [EPOLL]) for each in users)


def _dtv(session: Session, thread: ThreadInfo) -> Iterator[Dtv]:
    dtv = read_dtv(session.memory, session.target.machine, thread)
    if dtv is not None:
        yield dtv


def _own_blocks(dtvs: dict[int, Dtv], blocks: LiveBlocks) -> Iterator[SpanMark]:
    for dtv in dtvs.values():
        for each in dtv.blocks:
            index = blocks.find(each.freed_as or each.start)
            if index >= 0:
                yield SpanMark(blocks.starts[index], blocks.ends[index], "tls", dtv.tid)


def _left_dtvs(session: Session, ended: Sequence[CachedStack]) -> Iterator[int]:
    """The next thread on such a stack frees the blocks of its TLS, and keeps the vector (get_cached_stack)."""
    for each in ended:
        for dtv in _dtv(session, ThreadInfo(0, thread_pointer=each.thread_pointer)):
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
    """Whether what is not in this image was never in the process's memory either."""
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
