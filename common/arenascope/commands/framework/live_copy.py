"""Reads a copy in place of a live process: the process is copied, as `save` does it, and let go.

Walking heaps, following pointers and naming blocks take longer than copying, so the process is held only for the copy.
The copy lies in memory reserved beforehand, or on disk if there is too little. Under a debugger, which holds the
process anyway, and for a core, nothing is copied.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Optional

from ...base.errors import ArenascopeError, RedactedError, TargetError
from ...base.heap_model import HOLD, Statement
from ...base.whole_file import kind_of_disk, nameless_file
from ...blocks.graph.blocks import LiveBlocks, heap_spans, live_blocks
from ...blocks.graph.pointers_to import ImageSearch
from ...blocks.graph.roots import find_roots
from ...engine import EngineImage, is_there
from ...glibc.find.other_allocators import find_allocators
from ...present.shared_text.lines_and_tables import say
from ...session.session import Session
from ...sources.core.core_in_memory import MemoryWriter, NoRoomInMemory
from ...sources.core.save_image import CoreWriter
from ...sources.live.cgroups import memory_left
from ...sources.live.live_target import ProcessTarget
from ...sources.live.proc_tables import read_status
from ...sources.live.process import ProcessImage
from ...sources.live.save_process import ProcessCopy, copy_process, room_in_memory, save_process
from ...sources.shell_target import ShellTarget
from ...sources.target import Target
from ...sources.types_by_engine import DEFAULT_BYTES, TypesByEngine

if TYPE_CHECKING:
    from .command import Context

FOLDERS = ("/var/tmp", "/tmp")
FILES_IN_MEMORY = ("tmpfs", "ramfs")
"""File systems that keep files in memory."""
SHARE = 0.8
"""Of the memory that is left, so much may be used; the rest is for others."""
BESIDE, BESIDE_AT_MOST = 64 << 20, 256 << 20
"""Memory for working on a copy: the first, plus a third of the copy's size, but at most an eighth plus the second.
`leaks` needs the most."""
WITHOUT = "arenas, bins, trim and report need neither a copy nor much memory"
COPIED_MEANWHILE = 4
"""A copy reads so many bytes while a sweep goes through one byte of a heap."""
IN_A_SECOND = 1 << 30
"""Even a busy machine copies so much in a second."""
SMALL = 256 << 20
"""Smaller processes are copied in a short time on any machine."""
UNASKED, BLOCKS_OF_REPORT = 2 << 30, 4_000_000
"""A process of at most so many bytes is copied, and so many bytes and blocks are searched, without an option."""
AVERAGE, SECONDS_A_BLOCK = 128, 5e-6
"""So large a block is, and so long it takes, where neither is known."""
FOLLOWED_UNASKED, BLOCKS_UNASKED = 128 << 20, 200_000
"""A core up to this size, in bytes and in blocks, is searched for pointers without an option."""


class CopiedImage(NamedTuple):
    """The image that was searched, and how many bytes of the process could not be copied."""

    search: ImageSearch
    lost: int

    @property
    def problems(self) -> list[Statement]:
        """The problem that some memory was not searched; empty if all was."""
        lost = self.lost + self.search.lost
        return [Statement("not-searched", {"bytes": lost})] if lost else []

    @property
    def session(self) -> Session:
        return self.search.session


def expect_copy(context: Context, if_room: bool = False, only_for_types: bool = False) -> None:
    """Prepares to copy a live process while it still runs: reserves memory or finds a folder. Without room it raises an
    error before the process is held; with `if_room` there is just no copy. `only_for_types`: see look_at_small_copy."""

    def make_ready(target: Target) -> None:
        spared = context.spared is not None and context.spared(Session(target, context.options.libc))
        _make_ready(context, target, if_room or spared, only_for_types)
        if spared and isinstance(target.image, ProcessImage):
            target.image.is_spared = target.image.room is None

    if context.seen is None:
        context.door.before_hold(make_ready)


def expect_save(context: Context, path: str) -> None:
    """Prepares to write a file once the process runs on. If memory has no room for it, it is written while the process
    is held."""
    if context.seen is None and context.door.lets_go:
        context.door.before_hold(lambda target: _make_ready_to_save(target, path))


def _make_ready_to_save(target: Target, path: str) -> None:
    process = target.image
    if not isinstance(process, ProcessImage):
        return
    with CoreWriter(path):
        pass  # only tests that it can be written: nothing is changed and nobody is held if not
    size, most = process.status.rss or 0, 0
    with suppress(TargetError):
        most = _memory_for_copy(size)
    if kind_of_disk(os.path.dirname(path) or ".") in FILES_IN_MEMORY:
        most //= 2  # the file will take as much memory
    process.room = room_in_memory(process, most, _copier(process), shared=sys.maxsize)


def _make_ready(context: Context, target: Target, if_room: bool, only_for_types: bool) -> None:
    process = target.image
    if not isinstance(process, ProcessImage):
        return
    size = process.status.rss or 0
    if only_for_types and not (size <= SMALL and tells_types(target)):
        return
    if if_room:
        is_mostly_heaps = size <= SMALL or _is_mostly_heaps(Session(target, context.options.libc), size)
        if not (is_mostly_heaps and _finds_time(context, process, size)):
            return
    try:
        process.room = room_in_memory(process, _memory_for_copy(size), _copier(process))
        process.on_disk = process.room is None
        if process.on_disk:
            _with_room(size)
    except TargetError:
        if not if_room:
            raise


def _copier(process: ProcessImage) -> Optional[EngineImage]:
    """What copies it; None: Python does."""
    return EngineImage(process.pointer_size, process.byte_order) if is_there() else None


def is_worth_a_copy(pid: int, at_most: float) -> bool:
    """Whether a process is copied without an option: it is small enough, memory has room for the copy and for working
    on it, and no other allocator serves malloc, of whose blocks a copy tells nothing. `at_most`: seconds for which it
    may be held."""
    with suppress(OSError, TargetError):
        size = read_status(pid).rss or 0
        if not (0 < size <= min(UNASKED, _memory_for_copy(size), IN_A_SECOND * at_most) and is_there()):
            return False
        with ProcessImage(pid) as image:
            allocators = find_allocators(ProcessTarget(image, (), False), image.regions())
        return not any(each.replaces_malloc for each in allocators)
    return False


def look_at_copy(context: Context) -> int:
    """Copies a live process of the shell's and lets it run on; the session is then its copy's. Returns how many bytes
    the copy lacks."""
    known = context.opened.target.image if context.opened is not None else None
    if isinstance(known, ProcessCopy):
        return known.lost
    expect_copy(context)
    target = context.target
    image = target.image
    process = image if isinstance(image, ProcessImage) else None
    if process is None or not isinstance(target, ShellTarget):
        return 0
    copy = _copied(context, target, process)
    seen = context.copies.enter_context(ShellTarget(copy, *target.symbols_from))
    context.opened = context.open_session(seen)
    return copy.lost


def look_at_copy_if_ready(context: Context, if_room: bool) -> None:
    """Calls look_at_copy, unless the process is better held: with `if_room`, or if it is spared, only if memory was
    reserved for a copy. That is not so if most of its memory is outside malloc's heaps, or there is too little."""
    image = context.target.image
    if not isinstance(image, ProcessImage):
        return
    if image.room is not None or not (if_room or image.is_spared):
        look_at_copy(context)


def look_at_small_copy(context: Context) -> None:
    """Calls look_at_copy for a small process whose copy may tell types: these are never read while it is held."""
    if context.opened is None and context.door.lets_go:
        expect_copy(context, if_room=True, only_for_types=True)
        look_at_copy_if_ready(context, if_room=True)


def _is_mostly_heaps(session: Session, size: int) -> bool:
    """Whether copying is faster than a sweep, judged by its arenas while it runs. No figure depends on it."""
    with suppress(ArenascopeError):
        heaps = session.heaps if session.started else {}
        return size <= COPIED_MEANWHILE * sum(heap.bytes for parts in heaps.values() for heap in parts)
    return False


def tells_types(target: Target) -> bool:
    """Whether a copy of a live process may tell types. (The process itself is never asked for types.)"""
    if not isinstance(target, ShellTarget):
        return False
    _, symbols, _, declared = target.symbols_from
    if not symbols or declared is False:
        return False
    return TypesByEngine(target, (), None if declared else DEFAULT_BYTES).has_files


def _finds_time(context: Context, process: ProcessImage, size: int) -> bool:
    allowed = getattr(context.options, "hold_at_most", None)
    seconds = HOLD if allowed is None else allowed
    return size <= IN_A_SECOND * seconds


def looked(context: Context) -> CopiedImage:
    """The copy (see look_at_copy), ready to be searched. Commands that share a context share the search."""
    lost = look_at_copy(context)
    session = context.session
    if session.target.image.redacted:
        # zeros would pass for blocks without pointers
        raise RedactedError("what points to them")
    return CopiedImage(search_in(session), lost)


def unasked_search(context: Context) -> Optional[CopiedImage]:
    """The search of blocks that nobody asked for: of a copy, of a core, or of what a debugger holds; None where that
    would take long."""
    target = context.session.target
    # behind a remote stub, which reads slowly
    is_slow = target.kind == "live" and target.image.mapping_use() is None
    if is_slow or not _is_searchable(context.session, UNASKED):
        return None
    look = looked(context)
    return look if len(look.search.blocks) <= BLOCKS_OF_REPORT else None


def _is_searchable(session: Session, at_most: int) -> bool:
    """Whether pointers can be followed in it, and its heaps have no more bytes than that."""
    if session.target.image.redacted or not is_there() or not session.started or session.stopped:
        return False
    return sum(each.bytes for each in heap_spans(session)) <= at_most


class SearchCost(NamedTuple):
    """What it takes to look at all blocks, about."""

    seconds: float
    bytes: int
    """Of memory."""


def cost_of_search(session: Session, resident: int) -> SearchCost:
    """`resident`: what of it is copied."""
    search = session.block_results.search
    blocks = len(search.blocks) if search is not None else sum(each.bytes for each in heap_spans(session)) // AVERAGE
    return SearchCost(blocks * SECONDS_A_BLOCK, resident + _beside(resident))


def quick_core_search(context: Context) -> Optional[CopiedImage]:
    """A core that can be searched within a second; None for a larger one, or for JSON: documents are the same for a
    process and its core."""
    session = context.session
    if context.options.json or session.target.kind != "core" or not _is_searchable(session, FOLLOWED_UNASKED):
        return None
    blocks = live_blocks(session)
    if len(blocks) > BLOCKS_UNASKED:
        return None
    search = search_of(session, blocks)
    return CopiedImage(search, 0) if search.bytes <= FOLLOWED_UNASKED else None


def search_in(session: Session) -> ImageSearch:
    """The search of all live blocks, which is made once."""
    if session.block_results.search is None:
        session.block_results.search = search_of(session, live_blocks(session))
    return session.block_results.search


def search_of(session: Session, blocks: LiveBlocks) -> ImageSearch:
    return ImageSearch(session, blocks, find_roots(session, blocks))


def _beside(size: int) -> int:
    """Memory for working on a copy of that size."""
    return BESIDE + min(size // 3, size // 8 + BESIDE_AT_MOST)


def _memory_for_copy(size: int) -> int:
    """How much of a copy may lie in memory; TargetError if there is too little even to work on one."""
    left = memory_left()
    beside = _beside(size)
    if left < beside:
        raise TargetError(f"it takes some {say(beside)} of memory beside a copy, and {say(left)} are left", WITHOUT)
    return min(int(SHARE * left), left - beside)


def _with_room(size: int) -> str:
    """The first folder with room for a copy. TargetError if there is none: the process need not be held for nothing."""
    folders = [each for each in (os.environ.get("TMPDIR", ""), *FOLDERS) if each and os.access(each, os.W_OK)]
    left = {each: _room_in(each) for each in folders or ["."]}
    folder = next((each for each, free in left.items() if free > size), None)
    if folder is None:
        said = {"memory": int(SHARE * memory_left()), **left}
        told = ", ".join(f"{say(free)} in {each}" for each, free in said.items())
        raise TargetError(
            f"it takes a copy of the process, {say(size)}, for which there is no room: {told} left",
            f"TMPDIR names another folder; {WITHOUT}",
        )
    return folder


def _room_in(folder: str) -> int:
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    return min(free, int(SHARE * memory_left())) if kind_of_disk(folder) in FILES_IN_MEMORY else free


def _copied(context: Context, target: ShellTarget, process: ProcessImage) -> ProcessCopy:
    """Copies the process into memory, or into a file without a name."""
    registers, size = target.register_sets(), process.status.rss or 0
    if not process.on_disk:
        # without a reserved writer, pages are allocated while copying
        writer, process.room = process.room or MemoryWriter(_memory_for_copy(size), copier=_copier(process)), None
        with suppress(NoRoomInMemory):
            copy, _ = copy_process(process, target, writer, registers=registers, release=context.door.release)
            return copy
    with nameless_file(_with_room(size)) as file:
        saved = save_process(process, file, registers, context.door.release)
        return ProcessCopy(f"/proc/self/fd/{file}", target, saved.lost)
