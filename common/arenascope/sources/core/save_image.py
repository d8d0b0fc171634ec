"""Copies a process's memory into a core file as fast as possible: the process stands still only for the copy."""

from __future__ import annotations

import errno
import os
import struct
from bisect import bisect_left, bisect_right
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, NamedTuple, Optional, Sequence, Union

from ...base.errors import ArenascopeError, MemoryReadError
from ...base.heap_model import Range
from ...base.whole_file import PRIVATE, PartialFile
from ..elf import elf_file
from ..elf.elf_file import FileMapping, Note, Segment
from ..elf.registers import without_values
from ..elf.sysroot import open_regular
from ..memory import Fill
from ..target import MappingUse, Region, RegisterSets, Residency, Runs, SavedCore, Span, joined
from .open_core import data_within
from .saved_note import KernelFacts, mark

if TYPE_CHECKING:
    from .core_image import CoreImage

# Decides where each byte of a process goes in a core: its mappings as pieces, and the pieces one after the other.
#
# Resident and swapped pages are copied, untouched ones stay holes. Unchanged pages of a file are read from that file
# after the release, and only those that finding glibc needs. Shared memory is kept whoever wrote it; if it cannot be
# read, only the part that the process has mapped: the rest is left out and not called zero.

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


OwnPages = Callable[[int, int], Sequence[Span]]
"""Returns the pages of a private mapping of a file that are no longer the file's; see live/pagemap.py."""


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


def pieces_of(use: MappingUse, here: Sequence[Span], own_pages: OwnPages, *, whole: bool, page: int) -> Iterator[Piece]:
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
        own = own_pages(start, end) if may_have_own(use) else []
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


PAGE = 4096
BLOCK = 1 << 20
"""The bytes copied into a file at a time: they are still in the processor's cache when they are written."""
LAST_NOTES = 1 << 20

Take = Callable[[int, int, int], int]
"""Copies bytes from an address to an offset, as many as one call does, and returns how many."""
OpenFile = Callable[[Region], Optional[str]]
"""Returns the path of the very file that a mapping is of."""


def _was_saved(path: str) -> bool:
    """Tells whether `save` made a file, which may then be replaced: by its note, at its end."""
    try:
        with open(open_regular(path), "rb") as file:
            start = file.read(len(elf_file.MAGIC))
            file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_NOTES))
            return start == elf_file.MAGIC and elf_file.OWN.encode() + b"\0" in file.read(LAST_NOTES)
    except OSError:
        return False


class CoreWriter:
    """Writes a file that gets its name once it is whole, and is its owner's alone, as a core of the kernel's is."""

    block = BLOCK
    """Bytes copied at a time."""
    slots: Optional[Slots] = None
    """Places reserved in advance."""
    lost = Runs()
    """The offsets that could not be read."""

    def __init__(self, path: Union[str, int]) -> None:
        """A descriptor is that of a file without a name, which stays without one."""
        self._partial: Optional[PartialFile] = None
        if isinstance(path, int):
            self.path, self._file = "a temporary file", path
            return
        self.path = path
        if os.path.lexists(path) and not _was_saved(path):
            raise ArenascopeError(f"{path} is there already", "name another file, or remove it")
        try:
            self._partial = PartialFile(path, PRIVATE)
        except OSError as error:
            raise self._cannot(error) from error
        self._file = self._partial.descriptor

    @property
    def room(self) -> int:
        """Bytes of free space there."""
        disk = os.fstatvfs(self._file)
        return disk.f_bavail * disk.f_frsize

    def _cannot(self, error: OSError) -> ArenascopeError:
        # offsets follow addresses: ext4's files end at 16 TiB
        larger = "another file system takes larger files (xfs, tmpfs): TMPDIR, or the file's name, can lead there"
        hint = larger if error.errno == errno.EFBIG else None
        return ArenascopeError(f"cannot write {self.path}: {error.strerror or error}", hint)

    def copy(self, layout: CoreLayout, fill: Fill) -> int:
        """Copies the process's bytes, and returns how many could not be read."""
        self.lost = Runs(joined(sorted(self._copy(layout.end, layout.copies, self.taker(fill)))))
        return sum(each.bytes for each in self.lost)

    def put_all(
        self,
        layout: CoreLayout,
        copied: Sequence[CopiedRange],
        view: Callable[[int, int], memoryview],
    ) -> None:
        """Writes what was `copied` before: from where in `view`, how much, and where to in the file."""

        def take(at: int, size: int, offset: int) -> int:
            self.put(view(at, size), offset)
            return size

        self._copy(layout.end, copied, take)

    def _copy(self, end: int, copies: Sequence[CopiedRange], take: Take) -> Sequence[Span]:
        """Copies, and returns what could not be read."""
        try:
            self.reserve(end)
            return copy_all(copies, take, self.block)
        except OSError as error:
            raise self._cannot(error) from error

    def reserve(self, size: int) -> None:
        os.ftruncate(self._file, size)

    def put(self, data: Union[bytes, bytearray, memoryview], offset: int) -> None:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._file, rest, offset)
            rest, offset = rest[written:], offset + written

    def taker(self, fill: Fill) -> Take:
        """Returns a function that copies."""
        buffer = memoryview(bytearray(BLOCK))

        def take(address: int, size: int, offset: int) -> int:
            done = fill(address, buffer[:size])
            self.put(buffer[:done], offset)
            return done

        return take

    @property
    def _taken(self) -> int:
        """Bytes used on the disk."""
        return os.fstat(self._file).st_blocks * 512

    def write_kept(self, layout: CoreLayout, kept: Sequence[Range], read: Callable[[int, int], bytes]) -> int:
        """Writes these bytes, with zeros between them, and returns how many were written."""
        starts = [each.address for each in kept]
        written = 0
        for load in layout.segments:
            if not (load.file_size and load.memory_size):
                continue
            end = load.address + load.file_size
            # what goes on from one mapping to the next is cut
            first = max(0, bisect_right(starts, load.address) - 1)
            here = _within(kept[first : bisect_left(starts, end)], load.address, end)
            for window in _windows(here):
                low, high = window[0].address, window[-1].end
                try:
                    data = read(low, high - low)
                except MemoryReadError:
                    continue
                block = bytearray(high - low)
                for address, size in window:
                    block[address - low : address - low + size] = data[address - low : address - low + size]
                    written += size
                self.put(block, low - load.address + load.offset)
        return written

    def finish(
        self,
        form: ElfForm,
        layout: CoreLayout,
        moment: Optional[KernelFacts],
        open_file: OpenFile,
        redacted: bool = False,
    ) -> int:
        """Writes the rest, after the release, and returns how many bytes the file takes on the disk."""
        try:
            self._copy_files(layout.files, open_file)
            last = note_bytes([mark(redacted)] if moment is None else moment.notes(), form.mark)
            self.put(last, layout.end)
            self.put(layout.notes, layout.notes_at)
            segments = [*layout.segments, note_segment(layout.end, len(last))]
            self.put(head(form, segments), 0)
            if self._partial is not None:
                self._partial.finish()
            return self._taken
        except OSError as error:
            raise self._cannot(error) from error

    def _copy_files(self, files: Sequence[FromFile], open_file: OpenFile) -> None:
        # one after the other: a process may have more mappings of files than anybody may have files open
        for region, parts in groupby(files, attrgetter("region")):
            path = open_file(region)
            if path is None:
                continue
            source = open_regular(path)
            try:
                for each in parts:
                    data = os.pread(source, each.size, region.offset + each.address - region.start)
                    self.put(data, each.offset)
            finally:
                os.close(source)

    def __enter__(self) -> CoreWriter:
        return self

    def __exit__(self, *_: object) -> None:
        """Without finish() nothing is left of it."""
        if self._partial is not None:
            self._partial.close()


def _within(ranges: Iterable[Range], start: int, end: int) -> Iterator[Range]:
    for each in ranges:
        low, high = max(start, each.address), min(end, each.end)
        if low < high:
            yield Range(low, high - low)


def _windows(kept: Iterable[Range]) -> Iterator[Sequence[Range]]:
    """Groups ranges that lie close together, to be written at once."""
    window: list[Range] = []
    for each in kept:
        if window and (each.address - window[-1].end >= PAGE or each.end - window[0].address > BLOCK):
            yield window
            window = []
        window.append(each)
    if window:
        yield window


def copy_all(copies: Sequence[CopiedRange], take: Take, block: int) -> Sequence[Span]:
    """Copies by so many bytes at a time, and returns where in the file what could not be read would be: a page that is
    gone, or memory of a device."""
    lost = []
    for address, size, offset in copies:
        for done in range(0, size, block):
            at, end = done, min(size, done + block)
            try:
                while at < end:
                    at += take(address + at, end - at, offset + at)
            except MemoryReadError:
                lost.append(Span(offset + at, offset + end))
    return lost


ARGUMENT_BYTES = 80
NAME_BYTES = 16 + ARGUMENT_BYTES
"""The end of NT_PRPSINFO: the process's name, the command line."""
KEPT_NOTES = (elf_file.NT_AUXV, elf_file.NT_FILE, elf_file.NT_386_TLS, elf_file.NT_ARM_TLS)


def save_core(
    core: CoreImage,
    path: Union[str, int],
    residency: Optional[Residency],
    uses: Optional[Sequence[MappingUse]],
    kept: Optional[Sequence[Range]] = None,
) -> SavedCore:
    """Saves a core again. `residency` and `uses` are what the core itself tells. With `kept` all other memory becomes
    zeros."""
    with CoreWriter(path) as writer:
        form = ElfForm(core.machine, core.pointer_size, core.elf.mark)
        notes = [Note(each.owner, each.type, each.data) for each in core.all_notes() if each.owner != elf_file.OWN]
        moment = _moment(core, residency, uses)
        pieces = [*_pieces(core)]
        if kept is not None:
            notes = [*_redacted(core, notes)]
            pieces = [*_emptied(core, pieces, kept)]
            if moment is not None:
                moment = moment._replace(environment=None, watched=None, timers=(), redacted=True)
        layout = lay_out(form, pieces, note_bytes(notes, form.mark), core.page_size)
        lost = writer.copy(layout, core.fill)
        words = writer.write_kept(layout, kept, core.read) if kept is not None else 0
        written = writer.finish(form, layout, moment, lambda region: None, redacted=kept is not None)
        return SavedCore(written, layout.bytes + words - lost, lost, 0.0)


def _pieces(core: CoreImage) -> Iterator[Piece]:
    for segment in core.segments:
        start, end = segment.address, segment.address + segment.memory_size
        held = core.readable_end(segment)
        shift = start - segment.offset
        data = data_within(core.file, segment.offset, held - shift)
        copied = [Span(low + shift, high + shift) for low, high in data]
        yield Piece(start, end, segment.flags, held - start, copied=copied)


def _emptied(core: CoreImage, pieces: Iterable[Piece], kept: Sequence[Range]) -> Iterator[Piece]:
    """Replaces contents by zeros. What follows a file's headers is left out: zeros would pass for the file's constants,
    which are read from the file if it is there."""
    names = {each.start: each for each in core.regions()}
    starts = [each.address for each in kept]
    for piece in pieces:
        region = names.get(piece.start)
        held = piece.held
        if region is not None and region.is_file and not (region.writable or region.offset or region.finds_malloc):
            last = bisect_left(starts, piece.end) - 1
            held = min(held, max(0, kept[last].end - piece.start)) if last >= 0 else 0
        yield piece._replace(held=held, copied=())


def _redacted(core: CoreImage, notes: Iterable[Note]) -> Iterator[Note]:
    """Keeps threads with their program counters, stacks and TLS; no other register."""
    for note in notes:
        if note.owner not in ("CORE", "LINUX"):
            continue
        data = note.data
        if note.type == elf_file.NT_PRSTATUS:
            yield note._replace(data=without_values(core.machine, core.pointer_size, data))
        elif note.type == elf_file.NT_PRPSINFO:
            yield note._replace(data=data[:-NAME_BYTES] + _name(core, data[-NAME_BYTES:]).ljust(NAME_BYTES, b"\0"))
        elif note.type == elf_file.NT_SIGINFO:
            # si_signo and si_code: what follows is whatever the sender gave with it, or where memory was missing
            yield note._replace(data=data[:4] + bytes(4) + data[8:12] + bytes(max(0, len(data) - 12)))
        elif note.type in KEPT_NOTES:
            yield note


def _name(core: CoreImage, data: bytes) -> bytes:
    """Keeps the process's name if a thread or a file bears it: gcore and QEMU take it from the arguments."""
    name = data[:-ARGUMENT_BYTES].split(b"\0")[0]
    files = (os.fsencode(os.path.basename(each.path))[: len(name)] for each in core.regions() if each.is_file)
    return name if core.made_by == "kernel" or name in files else b""


def _moment(
    core: CoreImage, residency: Optional[Residency], uses: Optional[Sequence[MappingUse]]
) -> Optional[KernelFacts]:
    """Returns the moment's facts; None if the core does not tell which pages were in memory: its holes may be
    anybody's."""
    if core.moment is not None or residency is None or not residency.exact or uses is None:
        return core.moment
    resident: list[Span] = []
    for use in uses:
        resident += residency.resident_ranges(use.region.start, use.region.end) or ()
    return KernelFacts(
        uses=uses,
        memory=None,
        locked=None,
        processors=None,
        names={each.tid: each.name for each in core.threads()},
        environment=core.environment(),
        resident=resident,
        swapped=(),
        exact=True,
    )
