"""An ELF core read without a debugger: the file is mapped, its segments sorted by address, each byte of the file used
once.

Programs that write a core give each mapping bytes of its own. Headers that claim one piece of the file for many
mappings, or one address twice, make a large process of a small file: walks are bounded by bytes, so such headers are
not believed.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Iterator, Mapping, NamedTuple, Optional, Sequence, TypeVar

from ...base.errors import MemoryReadError, TargetError
from ...base.model import Statement
from ...sources import target
from ..core import open_core
from ..elf import environment
from ..elf.elf_file import ET_CORE, PF_R, PF_W, PF_X, PT_LOAD, PT_NOTE, Elf, Segment, file_reader
from ..elf.elf_notes import AT_EXECFN, AT_PAGESZ, AT_RANDOM, AT_SYSINFO_EHDR, FileMapping, Note, is_secure, parse_notes
from ..elf.modules import named_regions
from ..elf.registers import ThreadRecord
from ..memory import Memory
from ..target import Region, RegionIndex
from .core_notes import CoreNotes

if TYPE_CHECKING:
    from .compressed import Say
    from .saved_note import KernelFacts

# shared anonymous memory and System V segments, whose names the kernel makes up
_SHARED = ("/dev/zero", "/SYSV")


def build_regions(
    segments: Sequence[Segment],
    readable_ends: Sequence[int],
    files: Sequence[FileMapping],
    auxv: Mapping[int, int],
    by_gcore: bool = False,
) -> list[Region]:
    """Returns regions by address. `present` only if every byte is there: the first page of a file mapping alone does
    not count.

    Permissions are the core's. gcore makes PROT_NONE readable: since GDB 18 without its bytes, which it writes of all
    else that is no file's.
    """
    rows = sorted(files)
    names = _Names(rows, auxv)
    regions = []
    for segment, readable_end in zip(segments, readable_ends):
        if not segment.memory_size:
            continue
        start, end = segment.address, segment.address + segment.memory_size
        path, offset = names.of(start, end)
        regions.append(
            Region(
                start,
                end,
                readable=bool(segment.flags & PF_R) and not (by_gcore and not path and _is_bare(segment)),
                writable=bool(segment.flags & PF_W),
                executable=bool(segment.flags & PF_X),
                path=path,
                offset=offset,
                shared=path.startswith(_SHARED),
                present=readable_end == end,
            )
        )
    regions += _left_out(rows, regions)
    regions.sort(key=lambda region: region.start)
    return regions


def _is_bare(segment: Segment) -> bool:
    return not segment.file_size and not segment.flags & (PF_W | PF_X)


def _left_out(rows: Sequence[FileMapping], regions: Sequence[Region]) -> Iterator[Region]:
    """Returns mappings in NT_FILE that no segment covers: gcore leaves read-only file mappings out."""
    covered = RegionIndex(regions)
    for row in rows:
        if covered.place(row.start) is not None:
            continue
        yield Region(
            row.start,
            row.end,
            readable=True,
            writable=False,
            executable=False,
            path=row.path,
            offset=row.offset,
            shared=False,
            present=False,
        )


class _Names:
    """Names for address ranges."""

    def __init__(self, rows: Sequence[FileMapping], auxv: Mapping[int, int]) -> None:
        self.rows = rows
        self.starts = [row.start for row in rows]
        stack = auxv.get(AT_EXECFN) or auxv.get(AT_RANDOM)
        vdso = auxv.get(AT_SYSINFO_EHDR)
        # as in /proc/PID/maps; "[heap]" cannot be told, as no note holds the program break
        self.special: list[tuple[Optional[int], str]] = [(stack, "[stack]"), (vdso, "[vdso]")]

    def of(self, start: int, end: int) -> tuple[str, int]:
        index = bisect_right(self.starts, start) - 1
        if index >= 0 and start < self.rows[index].end:
            row = self.rows[index]
            return row.path, row.offset + start - row.start
        for address, name in self.special:
            if address and start <= address < end:
                return name, 0
        # the kernel's half of x86-64: the one page there that a core has
        return ("[vsyscall]" if start >= 1 << 63 else ""), 0


Core = TypeVar("Core", bound="CoreMemory")
HEADERS_DAMAGED = "the core's program headers are damaged: "
RANDOM_BYTES = 16
PAGE_SIZES = tuple(1 << bits for bits in range(10, 21))


class Truncation(NamedTuple):
    """A core that ends before its program headers say (RLIMIT_CORE, a full disk, an interrupted copy)."""

    expected: int
    actual: int
    missing: tuple[target.Span, ...]
    """The address ranges whose bytes were written, or should have been, and are not in the file."""


class LaidOut(NamedTuple):
    """A core's PT_LOAD segments, in address order."""

    segments: list[Segment]
    ends: list[int]
    """The end of each segment's bytes in this file: less than its memory if it was not dumped, or was cut."""
    wrong: Sequence[Statement]
    """The damage in its program headers."""


class FileRange(NamedTuple):
    """A range that the file holds, `shift` bytes past its addresses."""

    start: int
    end: int
    shift: int


class CoreMemory:
    """An ELF core. Only bytes that the file holds can be read: what was left out is unknown, never zero."""

    def __init__(self, path: str, say: Optional[Say] = None, held: Optional[open_core.CoreBytes] = None) -> None:
        """A compressed core is opened only if its progress can be shown: it costs time and room.

        `held` are the bytes of a core that is no local file.
        """
        self.path = path
        self.held: open_core.CoreBytes = open_core.open_core(path, say) if held is None else held
        self.unpacked = self.held.unpacked
        self.size = self.held.size
        self._bytes = self.held.read
        self._views: dict[int, Optional[memoryview]] = {}
        try:
            self._parse()
        except BaseException:
            # Ctrl-C among them: in a debugger this process goes on, and its files would stay open
            self.close()
            raise

    def _parse(self) -> None:
        self.elf = Elf(file_reader(self._bytes, self.size, self.path), name=self.path)
        if self.elf.type != ET_CORE:
            raise TargetError(f"{self.path} is an ELF file but not a core", "give the core, not the program or library")
        self.pointer_size = self.elf.pointer_size
        self.byte_order = self.elf.byte_order
        self.machine = self.elf.machine
        self.segments, self._ends, self._headers_wrong = lay_out(self.elf.segments, self.size, self.pointer_size)
        if not self.segments:
            raise TargetError(f"{self.path} holds no memory: it has no PT_LOAD segment")
        self._starts = [s.address for s in self.segments]
        self.truncated = self._find_truncation()
        self._last = (0, 0, 0)
        self.notes = CoreNotes(self.elf, self.all_notes())
        self.moment, self.redacted = self._told() if self.notes.own else (None, False)
        self.made_by = self.notes.made_by
        self.auxv = self.notes.auxv
        self.pid: Optional[int] = self.notes.pid or min((r.tid for r in self.notes.records), default=None)
        sizes = (self.auxv.get(AT_PAGESZ), self.notes.file_page_size)
        self.page_size = next((size for size in sizes if size in PAGE_SIZES), 4096)

    def _told(self) -> tuple[Optional[KernelFacts], bool]:
        """Reads the note of `save`: the moment, and whether the file was redacted."""
        from .saved_note import is_redacted, moment_of  # which only a file of `save` has

        moment = moment_of(self.notes.own, self._written, self.pointer_size)
        return moment, is_redacted(self.notes.own, moment)

    @property
    def _written(self) -> int:
        """Returns the file's bytes without its holes."""
        return min(os.fstat(self.file).st_blocks * 512, self.size) if self.file >= 0 else self.size

    def all_notes(self) -> Iterator[Note]:
        """Returns all notes, each byte once: a header costs nothing, and it or a note may claim a hole of any size."""
        read, left = 0, self._written
        for segment in sorted((s for s in self.elf.segments if s.type == PT_NOTE), key=lambda s: s.offset):
            start, end = max(segment.offset, read), min(segment.offset + segment.file_size, self.size)
            if start < end:
                read = end
                data = self.held.view(start, end - start)
                notes = self._bytes(start, end - start) if data is None else data
                for note in parse_notes(notes, self.elf.mark, segment.align, most=left):
                    left -= len(note.data)
                    yield note

    @property
    def file(self) -> int:
        return self.held.file

    def close(self) -> None:
        for view in self._views.values():
            if view is not None:
                view.release()
        self.held.close()

    def __enter__(self: Core) -> Core:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def readable_end(self, segment: Segment) -> int:
        """Returns the end of the bytes of one of `segments` in this file."""
        return self._ends[bisect_left(self._starts, segment.address)]

    def _find_truncation(self) -> Optional[Truncation]:
        expected = max(s.offset + s.file_size for s in self.elf.segments)
        if expected <= self.size:
            return None
        missing = tuple(
            target.Span(end, s.address + min(s.file_size, s.memory_size))
            for s, end in zip(self.segments, self._ends)
            if s.offset + s.file_size > self.size
        )
        return Truncation(expected, self.size, missing)

    def shortage(self) -> Sequence[Statement]:
        """Returns what a reader of figures must know about a core that was cut."""
        said = [*([self.held.shortage] if self.held.shortage else []), *self._headers_wrong]
        cut = self.truncated
        if cut is not None:
            why = "" if self.held.shortage else " (ulimit -c? a full disk?)"
            figures = {"bytes": cut.actual, "expected_bytes": cut.expected, "mappings": len(cut.missing)}
            words = (
                f"the core is truncated: {cut.actual:,} bytes of {cut.expected:,}, "
                f"{len(cut.missing)} of its mappings are not whole{why}"
            )
            said.append(Statement("core-cut", figures, text=words))
        return said

    @property
    def sparse(self) -> bool:
        """Whether the file has holes: fewer blocks than its size needs."""
        return self.file >= 0 and os.fstat(self.file).st_blocks * 512 < self.size

    def segment_at(self, address: int) -> Optional[Segment]:
        """Returns the segment whose memory (dumped or not) covers the address."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        segment = self.segments[index]
        return segment if address < segment.address + segment.memory_size else None

    def read(self, address: int, size: int) -> bytes:
        """Reads all of it, or raises MemoryReadError."""
        low, high, shift = self._last
        if low <= address <= address + size <= high:
            return self._bytes(address + shift, size)
        return self._read_elsewhere(address, size)

    def _read_elsewhere(self, address: int, size: int) -> bytes:
        parts, at, end = [], address, address + size
        while at < end:
            index = bisect_right(self._starts, at) - 1
            if index < 0 or at >= self._ends[index]:
                raise MemoryReadError(address, size)
            shift = self.segments[index].offset - self._starts[index]
            self._last = (self._starts[index], self._ends[index], shift)
            stop = min(end, self._ends[index])
            parts.append(self._bytes(at + shift, stop - at))
            at = stop
        if size < 0:
            raise MemoryReadError(address, size)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def fill(self, address: int, block: memoryview) -> int:
        """Reads into `block` up to the end of this segment."""
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address >= self._ends[index]:
            raise MemoryReadError(address, len(block))
        size = min(len(block), self._ends[index] - address)
        return self.held.fill(block[:size], address - self._starts[index] + self.segments[index].offset)

    def parts(self, start: int, end: int) -> Iterator[FileRange]:
        """Returns the parts of [start, end) that the file holds."""
        for index in range(max(0, bisect_right(self._starts, start) - 1), bisect_left(self._starts, end)):
            low, high = max(start, self._starts[index]), min(end, self._ends[index])
            if low < high:
                yield FileRange(low, high, self.segments[index].offset - self._starts[index])

    def window(self, address: int) -> Optional[target.View]:
        """Returns the file's bytes of the segment that covers `address`, without a copy."""
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address >= self._ends[index]:
            return None
        base, limit = self._starts[index], self._ends[index]
        offset = self.segments[index].offset
        if index not in self._views:
            self._views[index] = self.held.view(offset, limit - base)
        view = self._views[index]
        return target.View(view, base, limit, self.file, offset=offset, forget=self.held.forget) if view else None

    @cached_property
    def _regions(self) -> tuple[target.Region, ...]:
        if self.moment is not None:
            return tuple(self._present(use.region) for use in self.moment.uses)
        by_gcore = self.made_by == "gcore"
        regions = build_regions(self.segments, self._ends, self.notes.files, self.auxv, by_gcore=by_gcore)
        if not self.notes.files:
            regions = named_regions(Memory(self.read, self.pointer_size, self.byte_order), self.auxv, regions)
        return tuple(regions)

    def _present(self, region: target.Region) -> target.Region:
        """Tells whether all of it can be read here."""
        at = region.start
        while at < region.end:
            index = bisect_right(self._starts, at) - 1
            if index < 0 or self._ends[index] <= at:
                return region._replace(present=False)
            at = self._ends[index]
        return region

    def regions(self) -> Sequence[target.Region]:
        """Returns the mappings by address, from program headers and NT_FILE, or from ld.so if that is missing."""
        return self._regions

    def threads(self) -> Sequence[target.ThreadInfo]:
        told = self.notes.threads()
        if self.moment is None:
            return told
        # also of one that had no registers to save
        known = {each.tid: each for each in told}
        names = self.moment.names
        return [known.get(tid, target.ThreadInfo(tid))._replace(name=name) for tid, name in sorted(names.items())]

    def registers(self) -> Sequence[ThreadRecord]:
        """Returns each thread's registers in the kernel's layout, the one that crashed first."""
        return self.notes.records

    def register_sets(self) -> Sequence[target.RegisterSets]:
        """Returns all registers of each thread, including vectors."""
        return self.notes.register_sets()

    def random_bytes(self) -> bytes:
        """Returns the bytes at AT_RANDOM, which the kernel gives each process; empty if the file lacks them."""
        with suppress(MemoryReadError):
            return self.read(self.auxv[AT_RANDOM], RANDOM_BYTES) if AT_RANDOM in self.auxv else b""
        return b""

    @property
    def arguments(self) -> Optional[str]:
        """Returns the command line; the kernel keeps 79 bytes of it."""
        return self.notes.arguments

    def environment(self) -> Optional[Mapping[str, str]]:
        """Returns the process's initial environment, from its stack; None if that is absent or overwritten."""
        if self.moment is not None and self.moment.environment is not None:
            return self.moment.environment
        return environment.from_stack(
            self.read, self.auxv, self.notes.auxv_bytes, self.pointer_size, mark=self.elf.mark
        )

    def is_secure(self) -> Optional[bool]:
        return is_secure(self.auxv)


def lay_out(headers: Sequence[Segment], file_size: int, pointer_size: int) -> LaidOut:
    """Lays out segments; `headers` is their number. If two claim the same address, the one that begins later has it."""
    top = 1 << 8 * pointer_size
    loads = sorted((each for each in headers if each.type == PT_LOAD), key=lambda each: each.address)
    segments = []
    overlaps = 0
    for index, each in enumerate(loads):
        end = min(each.address + each.memory_size, top)
        # since 6.12 the kernel may write big mappings last, so file order need not be address order
        limit = loads[index + 1].address if index + 1 < len(loads) else top
        overlaps += end > limit
        if min(end, limit) > each.address:
            segments.append(each._replace(memory_size=min(end, limit) - each.address))
    sizes = [min(each.file_size, each.memory_size, max(0, file_size - each.offset)) for each in segments]
    shared = 0
    taken = 0
    for index in sorted((index for index, size in enumerate(sizes) if size), key=lambda at: segments[at].offset):
        offset = segments[index].offset
        if offset < taken:
            shared += 1
            sizes[index] = 0
        taken = max(taken, offset + sizes[index])
    wrong = []
    if overlaps:
        words = f"{HEADERS_DAMAGED}{overlaps:,} of its mappings lie over others"
        wrong.append(Statement("core-mappings-overlap", {"mappings": overlaps}, text=words))
    if shared:
        words = f"{HEADERS_DAMAGED}{shared:,} of its mappings claim others' bytes of the file: they are left out"
        wrong.append(Statement("core-bytes-claimed-twice", {"mappings": shared}, text=words))
    return LaidOut(
        segments,
        [each.address + size for each, size in zip(segments, sizes)],
        wrong,
    )
