"""Handles several glibcs in one process: dlmopen, libc_malloc_debug, dlopen from a static program. Each has a
main_arena.

Number 0 is the one that serves the program's malloc; the others follow, the larger ones first.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError, MemoryReadError, UsageError
from ...base.model import NONCONTIGUOUS, Statement
from ...sources.elf.address_names import modules_of
from ...sources.elf.elf_file import PT_INTERP, Elf
from ...sources.memory import Memory
from ...sources.target import Region, Target
from ..arena import FoundBins, next_offset, read_arena
from ..process_layout import NO_TRAIL, CandidateTrail, Layout, Struct, from_table
from ..unknown_release.fitting_layout import candidates
from . import libc_file
from .libc_file import Libc

MALLOC_DEBUG = "libc_malloc_debug.so"
MAX_THREADS = 1 << 16
"""More threads attached to an arena are not plausible, nor are fewer bytes in one."""


class GlibcCopy(NamedTuple):
    """One of several glibcs."""

    main_arena: int
    libc: Libc
    hit: Optional[FoundBins] = None
    """None if it is as the linker left it."""
    system: int = 0
    """Bytes that its main arena has from the kernel."""

    @property
    def used(self) -> bool:
        """Whether its malloc has any memory; it may be set up without ever having been called."""
        return self.hit is not None and (self.system > 0 or len(self.hit.ring) > 1)

    @property
    def debugs(self) -> bool:
        """Whether it is libc_malloc_debug: malloc with checks, beside the malloc of libc.so itself."""
        return MALLOC_DEBUG in self.libc.path

    @property
    def file(self) -> str:
        return self.libc.path or "no file known"


def with_static_program(target: Target, memory: Memory, regions: Sequence[Region], libcs: list[Libc]) -> list[Libc]:
    """Puts a static program that loads a libc before that libc."""
    if not libcs:
        return libcs
    paths = {libc.path for libc in libcs}
    for module in modules_of(regions):
        # no program is mapped shared, and reading shared memory would make pages there
        if module[0].shared or module[0].offset or ".so" in module[0].path or module[0].path in paths:
            continue
        # nor has it no code, unless a core lacks that: what is read of a file becomes the process's memory
        if not any(each.executable or not each.present for each in module):
            continue
        try:
            elf = Elf(memory.read, module[0].start, mapped=True)
            if all(segment.type != PT_INTERP for segment in elf.segments):
                return [libc_file.describe(target, memory, libc_file.bss_of(regions), module), *libcs]
        except ArenascopeError:
            continue
    return libcs


def find_copies(
    target: Target,
    memory: Memory,
    regions: Sequence[Region],
    libcs: Sequence[Libc],
    hits: Sequence[FoundBins],
    trail: CandidateTrail = NO_TRAIL,
) -> list[GlibcCopy]:
    """Finds all of them, in their order."""
    copies: list[GlibcCopy] = []
    for hit in hits:
        if not any(hit.ring[0] in known.hit.ring for known in copies if known.hit):
            libc = libc_file.module_at(target, memory, regions, hit.ring[0])
            copies.append(GlibcCopy(hit.ring[0], libc, hit, _system(memory, hit)))
    copies.sort(key=lambda copy: _weight(memory, copy), reverse=True)
    if len(copies) > 1:
        for copy in copies:
            serves, grows, _ = _weight(memory, copy)
            own = [Statement("malloc-leads-to-it" if serves else "grows-by-brk")] if serves or grows else []
            lost = [] if own else [Statement("does-not-grow-by-brk")]
            trail.add("main_arena", f"{copy.main_arena:#x}", own, lost)
    if len(libcs) > 1:
        for libc in libcs:
            if not any(region.contains(copy.main_arena) for region in libc.data for copy in copies):
                copies += [GlibcCopy(start, libc) for start in untouched(target, memory, libc.data)][:1]
    version = next((copy.libc.version for copy in copies if copy.libc.version), None)
    # libc_malloc_debug has no version: it belongs to the libc.so that is also loaded
    return [copy._replace(libc=copy.libc._replace(version=version)) if copy.debugs else copy for copy in copies]


def _system(memory: Memory, hit: FoundBins) -> int:
    """Returns system_mem, which is the first word, or the second if attached_threads precedes it."""
    try:
        first, second = memory.words(hit.bins + next_offset(memory.pointer_size) + 2 * memory.pointer_size, 2)
    except MemoryReadError:
        return 0
    return second if first < MAX_THREADS else first


def _weight(memory: Memory, copy: GlibcCopy) -> tuple[bool, bool, int]:
    """Ranks copies: the program's own is the one that malloc leads to, else the one that grows by brk, else the
    largest."""
    flags = memory.u32(copy.main_arena + 4)
    return copy.debugs and copy.used, not flags & NONCONTIGUOUS, copy.system


def choose(copies: Sequence[GlibcCopy], number: int, trail: CandidateTrail = NO_TRAIL) -> GlibcCopy:
    """Returns the copy of that number; UsageError if there is none."""
    _tell(copies, number, trail)
    if 0 <= number < len(copies):
        return copies[number]
    some = f"this process has libcs 0 to {len(copies) - 1}" if len(copies) > 1 else "this process has one, number 0"
    raise UsageError(f"there is no libc {number}", some)


def _tell(copies: Sequence[GlibcCopy], number: int, trail: CandidateTrail) -> None:
    """Records in the trail what decides between several."""
    for index, copy in enumerate(copies):
        good = [Statement("its-file", names={"file": copy.file})]
        if copy.hit is not None:
            good.append(Statement("has-bytes" if copy.system else "has-nothing-yet", {"bytes": copy.system}))
        bad = [Statement("of-another-libc", {"libc": index})] if index != number else []
        trail.add("main_arena", f"{copy.main_arena:#x}", good, bad)
    taken = f"{copies[number].main_arena:#x}" if 0 <= number < len(copies) else None
    trail.choose("main_arena", taken, Statement("another-in-libc-data"))


def notes_on(copies: Sequence[GlibcCopy], number: int) -> list[str]:
    """Returns notes about the other copies."""
    notes = []
    more = [f"{copy.main_arena:#x}" for copy in copies[1:] if copy.used]
    if copies[0].debugs and copies[0].used:
        notes.append(
            f"{MALLOC_DEBUG} serves malloc here (libc 0); what went past it is in libc.so's own arenas (--libc 1)"
        )
    elif more and not number:
        notes.append(
            f"{len(more)} more libc with a heap of its own in this process, main_arena at {', '.join(more)}: "
            f"--libc {1 if len(copies) == 2 else 'N'} shows it"
        )
    if number:
        notes.append(f"this is libc {number} ({copies[number].file}); the program's malloc is libc 0's")
    return notes


def without_tcache(layout: Layout) -> Layout:
    """Adapts a layout to libc_malloc_debug, compiled without USE_TCACHE: no thread caches, and mp_ ends before their
    limits."""
    offsets = {name: offset for name, offset in layout.params.offsets.items() if not name.startswith("tcache_")}
    size = layout.params.get("tcache_bins") or layout.params.size
    return layout._replace(tcache=None, params=Struct(offsets, size))


def untouched(target: Target, memory: Memory, data: Sequence[Region]) -> Iterator[int]:
    """Finds a main_arena that is as the linker left it."""
    for region in data:
        for start in _self_links(memory, target.machine, region):
            if is_untouched(target, memory, start) is not None:
                yield start


def is_untouched(target: Target, memory: Memory, arena: int) -> Optional[Layout]:
    """Returns the layout whose malloc_state is here as the linker left it: all zero but `next`, which is itself."""
    for release in candidates(None):
        layout = from_table(release, memory.pointer_size, target.machine)
        try:
            header = read_arena(memory, layout, arena)
            data = memory.read(arena, layout.arena["next"])
        except MemoryReadError:
            return None
        if (
            header.next == arena
            and not data.strip(b"\0")
            and not header.system_mem
            and header.attached_threads in (1, None)
        ):
            return layout
    return None


def _self_links(memory: Memory, machine: str, region: Region) -> Iterator[int]:
    word = memory.pointer_size
    distances = {from_table(release, word, machine).arena["next"] for release in candidates(None)}
    try:
        values = memory.words(region.start, region.size // word)
    except MemoryReadError:
        return
    for index, value in enumerate(values):
        if value and region.start + index * word - value in distances:
            yield value
