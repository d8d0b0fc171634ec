"""A live process looked at apart: copied as `save` copies it, let go, and read from the copy.

What goes through heaps, follows pointers, or names what blocks are, takes longer than a copy does: the process is held
only for that. The copy lies in memory that was there before; where there is too little of that, on the disk. Under a
debugger, which holds it anyway, and of a core nothing is copied.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Callable, NamedTuple, Optional

from ...base.errors import ArenascopeError, RedactedError, TargetError
from ...base.hold_limits import HOLD
from ...base.model import Statement
from ...base.programs import find_program
from ...base.whole_file import kind_of_disk, nameless_file
from ...blocks.graph.blocks import LiveBlocks, heap_spans, live_blocks
from ...blocks.graph.refs import ImageSearch
from ...blocks.graph.roots import find_roots
from ...blocks.pointer_finder import WORTH_IT, library
from ...present.shared_text.text import Style
from ...session.session import Session
from ...sources.core.core_in_memory import MemoryWriter, NoRoomInMemory
from ...sources.core.save_image import CoreWriter
from ...sources.live.cgroups import memory_left
from ...sources.live.predicted_hold import IN_A_SECOND, SMALL, time_to_copy
from ...sources.live.process import ProcessImage
from ...sources.live.save_process import ProcessCopy, copy_process, room_in_memory, save_process
from ...sources.shell_target import ShellTarget
from ...sources.target import Target
from ...sources.types_by_gdb import DEFAULT_BYTES, TypesByGdb
from ..framework.command import Context

Unless = Callable[[Session], bool]

SLOW, SPEED = 256 << 20, 20 << 20
"""From so many bytes on it is said that numpy would help, by so many that are followed in a second without."""
FOLDERS = ("/var/tmp", "/tmp")
FILES_IN_MEMORY = ("tmpfs", "ramfs")
"""Kinds of file systems."""
SHARE = 0.8
"""Of the memory that is left: the rest is for others."""
BESIDE, BESIDE_AT_MOST = 64 << 20, 256 << 20
"""What is made of a copy takes so much, and a third of its size, or an eighth and so much: `leaks` does."""
WITHOUT = "arenas, bins, trim and report need neither a copy nor much memory"
COPIED_MEANWHILE = 4
"""So many bytes are copied while a sweep goes through one byte of a heap."""
PLENTY = 2
"""So many times what a copy will take must be allowed: a sweep that is cut tells of a part, half a copy of nothing."""
FOLLOWED_UNASKED, BLOCKS_UNASKED = 128 << 20, 200_000
"""Up to so many bytes and blocks of a core are followed unasked."""


class CopiedImage(NamedTuple):
    """What is looked through, and what of the process could not be copied."""

    search: ImageSearch
    lost: int

    @property
    def problems(self) -> list[Statement]:
        """What was not looked through."""
        lost = self.lost + self.search.words.lost
        return [Statement("not-searched", {"bytes": lost})] if lost else []

    @property
    def session(self) -> Session:
        return self.search.session


def expect_copy(
    context: Context, if_room: bool = False, only_for_types: bool = False, unless: Optional[Unless] = None
) -> None:
    """A live process will be copied: what that takes is made ready while it runs on, where it is not held yet. Where
    there is no room it is not held, or with `if_room` not copied. `only_for_types`: see look_at_a_copy. `unless`: where
    this says so, it is copied only where there is room, and may be held for as long as any look."""

    def make_ready(target: Target) -> None:
        spared = unless is not None and unless(Session(target, context.options.libc))
        _make_ready(context, target, if_room or spared, only_for_types)
        if spared and isinstance(target.image, ProcessImage):
            target.image.is_spared = target.image.room is None

    if context.seen is None:
        context.door.before_hold(make_ready)


def expect_save(context: Context, path: str) -> None:
    """As much for a file that is written once it runs on; where memory has no room for it, it goes there at once."""
    if context.seen is None and context.door.lets_go:
        context.door.before_hold(lambda target: _make_ready_to_save(target, path))


def _make_ready_to_save(target: Target, path: str) -> None:
    process = target.image
    if not isinstance(process, ProcessImage):
        return
    with CoreWriter(path):
        pass  # where it cannot be written nothing is touched, and nobody held
    size, most = process.status.rss or 0, 0
    with suppress(TargetError):
        most = _memory_for_copy(size)
    if kind_of_disk(os.path.dirname(path) or ".") in FILES_IN_MEMORY:
        most //= 2  # the file takes as much
    process.room = room_in_memory(process, most, shared=sys.maxsize)


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
        process.room = room_in_memory(process, _memory_for_copy(size))
        process.on_disk = process.room is None
        if process.on_disk:
            _with_room(size)
    except TargetError:
        if not if_room:
            raise


def look_at_copy(context: Context) -> int:
    """From here on a live process of the shell's runs on, and the session is its copy's; how many bytes it lacks."""
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


def look_at_copy_if_let_go(context: Context, if_sooner: bool = False) -> None:
    """The same of what this door lets go, and nothing of anything else; `if_sooner`: only where is_sooner_apart."""
    if context.door.lets_go and (not if_sooner or is_copy_sooner(context)):
        look_at_copy(context)


def is_copy_sooner(context: Context) -> bool:
    """Whether memory was made ready for a copy, and it is held for less time by that than by a sweep: not where most of
    its memory is none of malloc's heaps, nor by a copy on a disk."""
    image = context.target.image
    return isinstance(image, ProcessImage) and image.room is not None


def _is_mostly_heaps(session: Session, size: int) -> bool:
    """By what its arenas say while it runs on: it decides what is done, and no figure."""
    with suppress(ArenascopeError):
        heaps = session.heaps if session.started else {}
        return size <= COPIED_MEANWHILE * sum(heap.bytes for parts in heaps.values() for heap in parts)
    return False


def tells_types(target: Target) -> bool:
    """Whether a copy of a live process of the shell's may tell what it is itself not asked for."""
    if not isinstance(target, ShellTarget):
        return False
    _, symbols, _, declared = target.symbols_from
    if not symbols or declared is False or find_program("gdb") is None:
        return False

    return TypesByGdb(target, None if declared else DEFAULT_BYTES).has_files


def _finds_time(context: Context, process: ProcessImage, size: int) -> bool:
    allowed = getattr(context.options, "hold_at_most", None)
    seconds = HOLD if allowed is None else allowed
    hold = time_to_copy(process, size)
    return PLENTY * hold.seconds <= seconds if hold is not None else size <= IN_A_SECOND * seconds


def looked(context: Context) -> CopiedImage:
    """As above, ready to be searched; once for all commands beside each other."""
    lost = look_at_copy(context)
    session = context.session
    if session.target.image.redacted:
        # zeros that lead nowhere would pass for an answer
        raise RedactedError("what points to them")
    if session.block_results.search is None:
        session.block_results.search = _found(context)
    return CopiedImage(session.block_results.search, lost)


def _found(context: Context) -> ImageSearch:
    session = context.session
    search = search_of(session, live_blocks(session))
    if search.bytes >= SLOW and library(search.bytes) is None:
        context.door.notice(f"note: without numpy this takes {search.bytes / SPEED:,.0f} s and more\n")
    return search


def quick_core_search(context: Context) -> Optional[CopiedImage]:
    """A core that can be searched within a second; None for a larger one. A document is the same for a process and its
    core, so that it is asked for there."""
    session = context.session
    if context.options.json or session.target.kind != "core" or session.target.image.redacted:
        return None
    if not session.started or session.stopped or sum(each.bytes for each in heap_spans(session)) > FOLLOWED_UNASKED:
        return None
    blocks = live_blocks(session)
    if len(blocks) > BLOCKS_UNASKED:
        return None
    search = search_of(session, blocks)
    slow = search.bytes > (WORTH_IT if library(search.bytes) is None else FOLLOWED_UNASKED)
    search.unasked = True
    return None if slow else CopiedImage(search, 0)


def search_of(session: Session, blocks: LiveBlocks) -> ImageSearch:
    return ImageSearch(session, blocks, find_roots(session, blocks))


def _memory_for_copy(size: int) -> int:
    """So much of it may lie in memory; TargetError where there is not even enough for what is made of it."""
    left = memory_left()
    beside = BESIDE + min(size // 3, size // 8 + BESIDE_AT_MOST)
    if left < beside:
        say = Style().size
        raise TargetError(f"it takes some {say(beside)} of memory beside a copy, and {say(left)} are left", WITHOUT)
    return min(int(SHARE * left), left - beside)


def _with_room(size: int) -> str:
    """The first folder that can take a copy: it is not begun, with the process held, where none can."""
    folders = [each for each in (os.environ.get("TMPDIR", ""), *FOLDERS) if each and os.access(each, os.W_OK)]
    left = {each: _room_in(each) for each in folders or ["."]}
    folder = next((each for each, free in left.items() if free > size), None)
    if folder is None:
        said = {"memory": int(SHARE * memory_left()), **left}
        told = ", ".join(f"{Style().size(free)} in {each}" for each, free in said.items())
        raise TargetError(
            f"it takes a copy of the process, {Style().size(size)}, for which there is no room: {told} left",
            f"TMPDIR names another folder; {WITHOUT}",
        )
    return folder


def _room_in(folder: str) -> int:
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    return min(free, int(SHARE * memory_left())) if kind_of_disk(folder) in FILES_IN_MEMORY else free


def _copied(context: Context, target: ShellTarget, process: ProcessImage) -> ProcessCopy:
    """The copy never has a name."""
    registers, size = target.register_sets(), process.status.rss or 0
    if not process.on_disk:
        # what was not expected is copied into pages that are made meanwhile
        writer, process.room = process.room or MemoryWriter(_memory_for_copy(size)), None
        with suppress(NoRoomInMemory):
            copy, _ = copy_process(process, target, writer, registers=registers, release=context.door.release)
            return copy
    with nameless_file(_with_room(size)) as file:
        saved = save_process(process, file, registers, context.door.release)
        return ProcessCopy(f"/proc/self/fd/{file}", target, saved.lost)
