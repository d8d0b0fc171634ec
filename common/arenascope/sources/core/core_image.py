"""A core as an image: its memory, and what the file tells of the kernel's view of it."""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

from ...base.errors import MemoryReadError, TargetError
from ...base.heap_model import Statement
from ...base.progress_bar import MakeMeter
from ...sources import target
from ..core import open_core
from ..elf import elf_file, environment_variables
from ..elf.elf_file import ET_CORE, PF_R, PF_W, PF_X, PT_LOAD, PT_NOTE, Elf, Segment, file_reader
from ..elf.modules import named_regions
from ..elf.registers import PRSTATUS, thread_from_registers
from ..image_files import Source
from ..memory import Memory

if TYPE_CHECKING:
    from .saved_note import KernelFacts


class CoreNotes:
    """The notes of a core, read once."""

    def __init__(self, elf: Elf, notes: Iterable[elf_file.Note]) -> None:
        self.elf = elf
        self.register_sets: list[target.RegisterSets] = []
        """Of each thread, in the notes' order."""
        self.auxv_bytes = b""
        self.files: list[elf_file.FileMapping] = []
        self.file_page_size: Optional[int] = None
        self.pid: Optional[int] = None
        self.name: Optional[str] = None
        self.arguments: Optional[str] = None
        self.own: dict[int, bytes] = {}
        """The notes of `save`: see saved_note.py."""
        order = []
        for note in notes:
            self._take(note)
            order.append((note.owner, note.type))
        self.made_by = self._recognise(order)

    def _recognise(self, order: list[tuple[str, int]]) -> str:
        """Returns "kernel", "gcore" or "other".

        fs/binfmt_elf.c writes no section headers (one where PN_XNUM needs it) and begins with these notes in this
        order; gcore writes through BFD, which gives every segment a section. QEMU's user-mode cores have neither.
        """
        first = (elf_file.NT_PRSTATUS, elf_file.NT_PRPSINFO, elf_file.NT_SIGINFO, elf_file.NT_AUXV)
        if ("GDB", 0xFF000000) in order or self.elf.section_count > 1:
            return "gcore"
        return "kernel" if order[:4] == [("CORE", kind) for kind in first] else "other"

    def _take(self, note: elf_file.Note) -> None:
        vectors = (elf_file.OWN, elf_file.NT_VECTORS)
        if self.register_sets and (note.owner, note.type) in (*elf_file.REGISTER_NOTES, vectors):
            # a thread's other notes follow its NT_PRSTATUS
            tid, general, others = self.register_sets[-1]
            own = target.RegisterSet(note.owner, note.type, note.data)
            self.register_sets[-1] = target.RegisterSets(tid, general, [*others, own])
        if note.owner == elf_file.OWN:
            self.own.setdefault(note.type, note.data)
        elif note.owner != "CORE":
            return
        elif note.type == elf_file.NT_PRSTATUS:
            self._take_prstatus(note.data)
        elif note.type == elf_file.NT_PRPSINFO:
            self._take_prpsinfo(note.data)
        elif note.type == elf_file.NT_AUXV:
            self.auxv_bytes = note.data
        elif note.type == elf_file.NT_FILE:
            self._take_files(note.data)

    def _take_prstatus(self, data: bytes) -> None:
        pid_at, registers_at = PRSTATUS[self.elf.pointer_size]
        if len(data) >= registers_at:
            tid = struct.unpack_from(self.elf.mark + "i", data, pid_at)[0]
            self.register_sets.append(target.RegisterSets(tid, data[registers_at:]))

    def _take_prpsinfo(self, data: bytes) -> None:
        # From its end, as 32-bit machines differ in the size of a uid: four pids, fname[16], psargs[80]
        if len(data) < 112:
            return
        self.pid = struct.unpack_from(self.elf.mark + "i", data, len(data) - 112)[0]
        self.name = os.fsdecode(data[-96:-80].split(b"\0")[0])
        self.arguments = os.fsdecode(data[-80:].split(b"\0")[0].rstrip())

    def _take_files(self, data: bytes) -> None:
        word = "I" if self.elf.pointer_size == 4 else "Q"
        size = self.elf.pointer_size
        if len(data) < 2 * size:
            return
        count, page = struct.unpack_from(f"{self.elf.mark}2{word}", data)
        table_end = size * (2 + 3 * count)
        if table_end > len(data):
            return
        self.file_page_size = page
        rows = struct.iter_unpack(f"{self.elf.mark}3{word}", data[2 * size : table_end])
        names = data[table_end:].split(b"\0")
        for (start, end, offset), name in zip(rows, names):
            if start >= end:
                continue
            self.files.append(elf_file.FileMapping(start, end, offset * page, elf_file.undeleted(os.fsdecode(name))))

    @property
    def auxv(self) -> dict[int, int]:
        return elf_file.parse_auxv(self.auxv_bytes, self.elf.pointer_size, self.elf.mark)

    def threads(self) -> list[target.ThreadInfo]:
        """Returns threads by tid. The kernel writes the thread that crashed first, and only the main thread's name.

        fill_psinfo() of fs/binfmt_elf.c takes the group leader's comm; gcore writes the program's name there.
        """
        elf = self.elf
        described = elf.machine, elf.pointer_size, elf.byte_order
        threads = [thread_from_registers(*described, each) for each in self.register_sets]
        if self.made_by == "kernel":
            threads = [each._replace(name=self.name) if each.tid == self.pid else each for each in threads]
        return sorted(threads, key=lambda thread: thread.tid)


# shared anonymous memory and System V segments, whose names the kernel makes up
_SHARED = ("/dev/zero", "/SYSV")


def build_regions(
    segments: Sequence[Segment],
    readable_ends: Sequence[int],
    files: Sequence[elf_file.FileMapping],
    auxv: Mapping[int, int],
    by_gcore: bool = False,
) -> list[target.Region]:
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
        is_bare = not segment.file_size and not segment.flags & (PF_W | PF_X)
        regions.append(
            target.Region(
                start,
                end,
                readable=bool(segment.flags & PF_R) and not (by_gcore and not path and is_bare),
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


def _left_out(rows: Sequence[elf_file.FileMapping], regions: Sequence[target.Region]) -> Iterator[target.Region]:
    """Returns mappings in NT_FILE that no segment covers: gcore leaves read-only file mappings out."""
    covered = target.RegionIndex(regions)
    for row in rows:
        if covered.place(row.start) is not None:
            continue
        yield target.Region(row.start, row.end, writable=False, path=row.path, offset=row.offset, present=False)


class _Names:
    """Names for address ranges."""

    def __init__(self, rows: Sequence[elf_file.FileMapping], auxv: Mapping[int, int]) -> None:
        self.rows = rows
        self.starts = [row.start for row in rows]
        stack = auxv.get(elf_file.AT_EXECFN) or auxv.get(elf_file.AT_RANDOM)
        vdso = auxv.get(elf_file.AT_SYSINFO_EHDR)
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


HEADERS_DAMAGED = "the core's program headers are damaged: "
RANDOM_BYTES = 16
PAGE_SIZES = tuple(1 << bits for bits in range(10, 21))


class Truncation(NamedTuple):
    """A core that ends before its program headers say (RLIMIT_CORE, a full disk, an interrupted copy)."""

    expected: int
    actual: int
    missing: tuple[target.Span, ...]
    """The address ranges whose bytes were written, or should have been, and are not in the file."""


class CoreImage(Source):
    """An ELF core. Only bytes that the file holds can be read: what was left out is unknown, never zero.

    Only a core made by `save` tells what was locked, and how many pages of files were in memory.
    """

    kind = "core"

    def __init__(
        self, path: str, meter: Optional[MakeMeter] = None, held: Optional[open_core.CoreBytes] = None
    ) -> None:
        """A compressed core is opened only if its progress can be shown: it costs time and room.

        `held` are the bytes of a core that is no local file.
        """
        self.path = path
        self.held: open_core.CoreBytes = open_core.open_core(path, meter) if held is None else held
        self.unpacked = self.held.unpacked
        self.size = self.held.size
        self._bytes = self.held.read
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
        self.pid: Optional[int] = self.notes.pid or min((r.tid for r in self.notes.register_sets), default=None)
        sizes = (self.auxv.get(elf_file.AT_PAGESZ), self.notes.file_page_size)
        self.page_size = next((size for size in sizes if size in PAGE_SIZES), 4096)

    def _told(self) -> tuple[Optional[KernelFacts], bool]:
        """Reads the note of `save`: the moment, and whether the file was redacted."""
        from .saved_note import NO_MOMENT, REDACTED, moment_of  # which only a file of `save` has

        moment = moment_of(self.notes.own, self._written, self.pointer_size)
        return moment, moment.redacted if moment is not None else self.notes.own.get(NO_MOMENT) == REDACTED

    @property
    def _written(self) -> int:
        """Returns the file's bytes without its holes."""
        return min(os.fstat(self.file).st_blocks * 512, self.size) if self.file >= 0 else self.size

    def all_notes(self) -> Iterator[elf_file.Note]:
        """Returns all notes, each byte once: a header costs nothing, and it or a note may claim a hole of any size."""
        read, left = 0, self._written
        for segment in sorted((s for s in self.elf.segments if s.type == PT_NOTE), key=lambda s: s.offset):
            start, end = max(segment.offset, read), min(segment.offset + segment.file_size, self.size)
            if start < end:
                read = end
                notes = self.held.view(start, end - start)
                for note in elf_file.parse_notes(notes, self.elf.mark, segment.align, most=left):
                    left -= len(note.data)
                    yield note

    @property
    def file(self) -> int:
        return self.held.file

    def close(self) -> None:
        self.held.close()

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

    def _held_at(self, address: int) -> Optional[int]:
        """Returns the index of the segment whose bytes in the file have the address."""
        index = bisect_right(self._starts, address) - 1
        return index if index >= 0 and address < self._ends[index] else None

    def read(self, address: int, size: int) -> bytes:
        """Reads all of it, or raises MemoryReadError."""
        low, high, shift = self._last
        if low <= address <= address + size <= high:
            return self._bytes(address + shift, size)
        return self._read_elsewhere(address, size)

    def _read_elsewhere(self, address: int, size: int) -> bytes:
        parts, at, end = [], address, address + size
        while at < end:
            index = self._held_at(at)
            if index is None:
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
        index = self._held_at(address)
        if index is None:
            raise MemoryReadError(address, len(block))
        size = min(len(block), self._ends[index] - address)
        return self.held.fill(block[:size], address - self._starts[index] + self.segments[index].offset)

    def parts(self, start: int, end: int) -> Iterator[open_core.FileRange]:
        """Returns the parts of [start, end) that the file holds."""
        for index in range(max(0, bisect_right(self._starts, start) - 1), bisect_left(self._starts, end)):
            low, high = max(start, self._starts[index]), min(end, self._ends[index])
            if low < high:
                yield open_core.FileRange(low, high, self.segments[index].offset - self._starts[index])

    def pieces(self, start: int, end: int) -> Optional[Sequence[target.MemoryPiece]]:
        pieces = []
        for low, high, shift in self.parts(start, end):
            if self.file >= 0:
                pieces.append(target.MemoryPiece(low, high - low, file=self.file, offset=low + shift))
                continue
            pieces.append(target.MemoryPiece(low, high - low, self.held.view(low + shift, high - low)))
        return pieces

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
            index = self._held_at(at)
            if index is None:
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

    def register_sets(self) -> Sequence[target.RegisterSets]:
        """Returns all registers of each thread, including vectors."""
        return self.notes.register_sets

    def random_bytes(self) -> bytes:
        """Returns the bytes at AT_RANDOM, which the kernel gives each process; empty if the file lacks them."""
        with suppress(MemoryReadError):
            return self.read(self.auxv[elf_file.AT_RANDOM], RANDOM_BYTES) if elf_file.AT_RANDOM in self.auxv else b""
        return b""

    def environment(self) -> Optional[Mapping[str, str]]:
        """Returns the process's initial environment, from its stack; None if that is absent or overwritten."""
        if self.moment is not None and self.moment.environment is not None:
            return self.moment.environment
        return environment_variables.from_stack(
            self.read, self.auxv, self.notes.auxv_bytes, self.pointer_size, mark=self.elf.mark
        )

    # loaded on demand: most commands on a core need no holes

    def residency(self) -> Optional[target.Residency]:
        if self.moment is not None:
            from .saved_note import SavedResidency

            return SavedResidency(self.moment, self.page_size)
        from .holes import core_residency

        return core_residency(self)

    def mapping_use(self) -> Optional[Sequence[target.MappingUse]]:
        if self.moment is not None:
            return self.moment.uses
        from .holes import core_mappings

        return core_mappings(self)

    def memory_use(self) -> Optional[target.MemoryUse]:
        return self.moment.memory if self.moment is not None else None

    def watched(self) -> Optional[Sequence[target.Watched]]:
        return self.moment.watched if self.moment is not None else None

    def timers(self) -> Sequence[target.Timer]:
        return self.moment.timers if self.moment is not None else ()

    def own_pages(self, regions: Sequence[target.Region]) -> Sequence[target.Region]:
        """Returns whole mappings: a core has such a mapping whole, or all memory was asked for; bytes of files do no
        harm."""
        return [each for each in regions if each.present]

    def shared_memory(self) -> Optional[target.SharedMemory]:
        if self.moment is None or self.moment.shared is not None:
            return self.moment.shared if self.moment is not None else None
        # an earlier release's file has what was in page tables
        shared = (each for each in self.regions() if each.is_shared_memory and each.readable)
        return target.SharedMemory((), (), [target.Span(each.start, each.end) for each in shared if not each.present])

    def readable(self, start: int, end: int) -> target.Readable:
        """A header may claim any size, and a hole in the file may have any."""
        size, data = 0, []
        for low, high, shift in self.parts(start, end):
            size += high - low
            written = self.held.data_within(low + shift, high + shift)
            data += [(first - shift, last - shift) for first, last in written]
        return target.Readable(size, target.joined(data))

    def processors(self) -> Optional[int]:
        return self.moment.processors if self.moment is not None else None

    def locked(self) -> Optional[Sequence[target.Span]]:
        return self.moment.locked if self.moment is not None else None

    def save(
        self, path: Union[str, int], registers: Sequence[target.RegisterSets], release: Callable[[], float]
    ) -> target.SavedCore:
        from .save_image import save_core

        return save_core(self, path, self.residency(), self.mapping_use())


def lay_out(
    headers: Sequence[Segment], file_size: int, pointer_size: int
) -> tuple[list[Segment], list[int], Sequence[Statement]]:
    """Returns a core's PT_LOAD segments in address order, where the bytes of each end in a file of that size (less than
    its memory if it was not dumped, or was cut), and the damage in its program headers. If two claim the same address,
    the one that begins later has it."""
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
    return segments, [each.address + size for each, size in zip(segments, sizes)], wrong
