"""Decides where each byte of a process goes in a core: its mappings as pieces, and the pieces one after the other.

Resident and swapped pages are copied, untouched ones stay holes. Unchanged pages of a file are read from that file
after the release, and only those that finding glibc needs. Shared memory is kept whoever wrote it; if it cannot be
read, only the part that the process has mapped: the rest is left out and not called zero.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from typing import Iterable, Iterator, NamedTuple, Optional, Protocol, Sequence

from ..elf import elf_file
from ..elf.elf_file import FileMapping, Note, Segment
from ..target import MappingUse, Region, RegisterSets, Span, joined

SIGINFO_BYTES = 128
STOPPED_BY = 19
"""SIGSTOP: the process was stopped, and nothing is wrong with it."""
EV_CURRENT = 1


class ElfForm(NamedTuple):
    """The format of a core's structures."""

    machine: int
    """Its ELF number."""
    word: int
    mark: str
    """struct's sign for its byte order."""

    @property
    def header_bytes(self) -> tuple[int, int, int]:
        """The sizes of the ELF header, of a program header and of a section header."""
        return (64, 56, 64) if self.word == 8 else (52, 32, 40)


class Who(NamedTuple):
    """The fields of NT_PRPSINFO."""

    pid: int
    name: str
    arguments: str
    uid: int = 0


def head_bytes(form: ElfForm, segments: int) -> int:
    """Returns the size of the headers; too many segments for the field need a section header as well."""
    elf, program, section = form.header_bytes
    return elf + segments * program + (section if segments >= elf_file.PN_XNUM else 0)


def head(form: ElfForm, segments: Sequence[Segment]) -> bytes:
    """Returns the ELF header and the program headers."""
    many = len(segments) >= elf_file.PN_XNUM
    ident = elf_file.MAGIC + bytes([form.word // 4, 1 if form.mark == "<" else 2, EV_CURRENT]) + bytes(9)
    header, program, section = form.header_bytes
    sections_at = header + len(segments) * program if many else 0
    address = "Q" if form.word == 8 else "I"
    elf = struct.pack(
        f"{form.mark}2HI3{address}I6H",
        elf_file.ET_CORE,
        form.machine,
        EV_CURRENT,
        0,
        header,
        sections_at,
        0,
        header,
        program,
        min(len(segments), elf_file.PN_XNUM),
        section if many else 0,
        1 if many else 0,
        0,
    )
    rows = b"".join(_program_header(form, each) for each in segments)
    # sh_info of section header 0 has the count
    last = struct.pack(f"{form.mark}2I4{address}2I2{address}", *[0] * 7, len(segments), 0, 0) if many else b""
    return ident + elf + rows + last


def _program_header(form: ElfForm, segment: Segment) -> bytes:
    kind, flags, offset, address, size, memory, align = segment
    if form.word == 8:
        return struct.pack(f"{form.mark}2I6Q", kind, flags, offset, address, 0, size, memory, align)
    return struct.pack(f"{form.mark}8I", kind, offset, address, 0, size, memory, flags, align)


def note_segment(offset: int, size: int) -> Segment:
    return Segment(elf_file.PT_NOTE, flags=0, offset=offset, address=0, file_size=size, memory_size=0, align=4)


def load_segment(flags: int, offset: int, address: int, file_size: int, memory_size: int, page: int) -> Segment:
    return Segment(elf_file.PT_LOAD, flags, offset, address, file_size=file_size, memory_size=memory_size, align=page)


def note_bytes(notes: Iterable[Note], mark: str) -> bytes:
    parts = []
    for note in notes:
        owner = os.fsencode(note.owner) + b"\0"
        parts.append(struct.pack(f"{mark}3I", len(owner), len(note.data), note.type))
        parts += [_padded(owner), _padded(note.data)]
    return b"".join(parts)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def process_notes(
    form: ElfForm,
    who: Who,
    auxv: bytes,
    files: Sequence[FileMapping],
    page: int,
    threads: Sequence[RegisterSets],
) -> Iterator[Note]:
    """Returns notes in the kernel's order: the process's notes stand among those of the first thread."""
    shared = (
        Note("CORE", elf_file.NT_PRPSINFO, _prpsinfo(form, who)),
        Note("CORE", elf_file.NT_SIGINFO, struct.pack(f"{form.mark}i", STOPPED_BY).ljust(SIGINFO_BYTES, b"\0")),
        Note("CORE", elf_file.NT_AUXV, auxv),
        Note("CORE", elf_file.NT_FILE, _files(form, files, page)),
    )
    first = True
    for thread in threads:
        yield Note("CORE", elf_file.NT_PRSTATUS, prstatus(form, thread, who.pid))
        if first:
            yield from shared
        first = False
        yield from (Note(*each) for each in thread.others)
    if first:
        yield from shared


def prstatus(form: ElfForm, thread: RegisterSets, parent: int) -> bytes:
    """Returns struct elf_prstatus, without parents and times. Without a signal LLDB 22 waits for ever."""
    word = "Q" if form.word == 8 else "I"
    signals = struct.pack(f"{form.mark}3ihh2{word}", STOPPED_BY, 0, 0, STOPPED_BY, 0, 0, 0)
    pids = struct.pack(f"{form.mark}4i", thread.tid, 0, parent, parent)
    data = signals + pids + bytes(8 * form.word) + thread.general + struct.pack(f"{form.mark}i", 0)
    return data + bytes(-len(data) % form.word)


def _prpsinfo(form: ElfForm, who: Who) -> bytes:
    state = struct.pack(f"{form.mark}4b", 0, ord("t"), 0, 0)
    name, arguments = os.fsencode(who.name)[:15], os.fsencode(who.arguments)[:79]
    if form.word == 8:
        start = state + bytes(4) + struct.pack(f"{form.mark}Q2I", 0, who.uid & 0xFFFFFFFF, 0)
    else:
        start = state + struct.pack(f"{form.mark}I2H", 0, who.uid & 0xFFFF, 0)
    pids = struct.pack(f"{form.mark}4i", who.pid, 0, who.pid, who.pid)
    return start + pids + name.ljust(16, b"\0") + arguments.ljust(80, b"\0")


def _files(form: ElfForm, files: Sequence[FileMapping], page: int) -> bytes:
    word = "Q" if form.word == 8 else "I"
    data = struct.pack(f"{form.mark}2{word}", len(files), page)
    for each in files:
        data += struct.pack(f"{form.mark}3{word}", each.start, each.end, each.offset // page)
    return data + b"".join(os.fsencode(each.path) + b"\0" for each in files)


MOST_PIECES = 1 << 16
"""The most pieces of one shared mapping: a mapping with more is left out as a whole."""
KERNEL_OWN = ("[vvar", "[vsyscall]")


class CopiedRange(NamedTuple):
    """Bytes of the process, and their offset in the file."""

    address: int
    size: int
    offset: int


class FromFile(NamedTuple):
    """Bytes of a mapped file that the process has not changed."""

    region: Region
    address: int
    size: int
    offset: int


class Piece(NamedTuple):
    """A range of addresses that becomes a segment: `held` bytes of it are in the file, including holes."""

    start: int
    end: int
    flags: int
    held: int
    copied: Sequence[Span] = ()
    file: Optional[Region] = None
    """The file whose unchanged bytes fill what is not copied."""


class PageStates(Protocol):
    """Page states, from page tables; see live/pagemap.py."""

    def own(self, start: int, end: int) -> Sequence[Span]:
        """Returns the pages of a private mapping of a file that are no longer the file's."""


def _flags(region: Region) -> int:
    return (
        (elf_file.PF_R if region.readable else 0)
        | (elf_file.PF_W if region.writable else 0)
        | (elf_file.PF_X if region.executable else 0)
    )


def whole_piece(region: Region, copied: Sequence[Span]) -> Piece:
    """Returns all of a mapping, with zeros where nothing is copied."""
    return Piece(region.start, region.end, _flags(region), region.size, copied=copied)


def may_have_own(use: MappingUse) -> bool:
    """Tells whether a private mapping of a file may have pages that are no longer the file's."""
    return bool(use.region.writable or use.anonymous or use.swapped)


def pieces_of(use: MappingUse, here: Sequence[Span], pages: PageStates, *, whole: bool, page: int) -> Iterator[Piece]:
    """Returns the pieces of a mapping with pages `here`. `whole`: include all of its file's bytes."""
    region = use.region
    flags = _flags(region)
    start, end = region.start, region.end
    # what nobody may read is a guard, or a reserve; or it was protected with all that is in it
    closed = not region.readable and (region.shared or region.is_file or not here)
    if closed or region.path.startswith(KERNEL_OWN):
        yield Piece(start, end, flags, 0)
    elif region.shared:
        runs = joined(here)
        if len(runs) > MOST_PIECES:
            runs = []
        at = start
        for low, high in runs:
            if at < low:
                yield Piece(at, low, flags, 0)
            yield Piece(low, high, flags, high - low, copied=[Span(low, high)])
            at = high
        if at < end:
            yield Piece(at, end, flags, 0)
    elif region.is_file:
        own = pages.own(start, end) if may_have_own(use) else []
        if whole or own or region.writable:
            yield Piece(start, end, flags, end - start, copied=own, file=region)
        else:
            # its first page has its headers, and with them its build-id
            held = page if not region.offset else 0
            yield Piece(start, end, flags, held, copied=(), file=region)
    else:
        yield whole_piece(region, joined(here))


class ReservedRange(NamedTuple):
    """Addresses whose bytes have a reserved place, and the offset of the first."""

    start: int
    end: int
    offset: int


class Slots:
    """Reserved places, in order and without overlap; everything else goes behind them."""

    def __init__(self, slots: Sequence[ReservedRange], start: int, end: int) -> None:
        self._slots, self.start, self.end = slots, start, end
        self._starts = [each.start for each in slots]

    def find(self, piece: Piece) -> Optional[int]:
        at = bisect_right(self._starts, piece.start) - 1
        if at < 0 or piece.start + piece.held > self._slots[at].end:
            return None
        return self._slots[at].offset + piece.start - self._slots[at].start


class CoreLayout(NamedTuple):
    """The place of everything in the file."""

    segments: Sequence[Segment]
    copies: Sequence[CopiedRange]
    files: Sequence[FromFile]
    notes: bytes
    notes_at: int
    end: int
    """The end of the last segment's bytes; the moment's note follows."""

    @property
    def bytes(self) -> int:
        return sum(each.size for each in self.copies)


def lay_out(
    form: ElfForm, pieces: Sequence[Piece], notes: bytes, page: int, slots: Optional[Slots] = None
) -> CoreLayout:
    """Places one piece after the other, except those that have a place in `slots`."""
    # the segments, and two of notes
    notes_at = head_bytes(form, len(pieces) + 2)
    at = -(-(notes_at + len(notes)) // page) * page
    if slots is not None and at > slots.start:
        slots = None
    at = slots.end if slots is not None else at
    segments = [note_segment(notes_at, len(notes))]
    copies: list[CopiedRange] = []
    files: list[FromFile] = []
    for piece in pieces:
        known = slots.find(piece) if slots is not None else None
        offset = at if known is None else known
        shift = offset - piece.start
        segments.append(
            load_segment(piece.flags, offset, piece.start, piece.held, memory_size=piece.end - piece.start, page=page)
        )
        copies += [CopiedRange(low, high - low, low + shift) for low, high in piece.copied]
        if piece.file is not None:
            gaps = between(piece.start, piece.start + piece.held, piece.copied)
            files += [FromFile(piece.file, low, high - low, low + shift) for low, high in gaps]
        at += -(-piece.held // page) * page if known is None else 0
    return CoreLayout(segments, copies, files, notes, notes_at=notes_at, end=at)


def between(start: int, end: int, spans: Sequence[Span]) -> Iterator[Span]:
    for low, high in spans:
        if start < low:
            yield Span(start, low)
        start = high
    if start < end:
        yield Span(start, end)


def first_notes(
    form: ElfForm, who: Who, auxv: bytes, uses: Sequence[MappingUse], page: int, threads: Sequence[RegisterSets]
) -> bytes:
    """Returns the notes that debuggers need: threads with their registers, the process, its files."""
    files = [
        FileMapping(each.region.start, each.region.end, each.region.offset, each.region.path)
        for each in uses
        if each.region.is_file
    ]
    return note_bytes(process_notes(form, who, auxv, files, page=page, threads=threads), form.mark)
