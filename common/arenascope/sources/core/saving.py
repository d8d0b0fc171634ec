"""A process's memory into the file of a core, as fast as it can be copied: the process stands still for that alone.

What is resident or in swap is written, what never was stays a hole; pages that are a file's, unchanged, come from that
file once the process goes on, and only of what finding glibc needs. Shared memory is kept whoever wrote it; where it
is not to be had, as far as the process has it mapped: what it has not is left out and not called zero.
"""

from __future__ import annotations

import errno
import os
import threading
from array import array
from bisect import bisect_left, bisect_right
from itertools import groupby
from operator import attrgetter
from typing import Callable, Iterable, Iterator, Optional, Protocol, Sequence, Union

from ...base.errors import ArenascopeError, MemoryReadError
from ...base.model import Range
from ...base.records import NamedTuple
from ...base.whole_file import PartialFile
from ..elf.elf_file import MAGIC, PF_R, PF_W, PF_X, Segment
from ..elf.kernel_records import OWN, FileMapping
from ..elf.notes import Note
from ..elf.sysroot import open_regular
from ..memory import Fill
from ..target import MappingUse, Region, RegisterSets, Span, joined
from .saved_note import Moment, mark
from .writing import Form, Who, head, head_bytes, load_segment, note_bytes, note_segment, process_notes

PAGE = 4096
BLOCK = 1 << 20
"""Copied at a time: what has just been read lies in the processor's cache when it is written."""
THREADS = 2
LAST_NOTES = 1 << 20
MOST_PIECES = 1 << 16
"""Of one shared mapping: a larger one is left out as a whole."""
KERNEL_OWN = ("[vvar", "[vsyscall]")

OpenFile = Callable[[Region], Optional[str]]
"""The path of the very file that a mapping is of."""


class Copy(NamedTuple):
    """Bytes of the process, and where in the file they go."""

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
    """A range of addresses that becomes a segment: `held` bytes of it are in the file, holes among them."""

    start: int
    end: int
    flags: int
    held: int
    copied: Sequence[Span] = ()
    file: Optional[Region] = None
    """Whose unchanged bytes fill what is not copied."""


class Pages(Protocol):
    """What page tables say; see live/pagemap.py."""

    def states(self, start: int, end: int) -> tuple[Sequence[Span], Sequence[Span]]:
        """(in memory, in swap)."""

    def own(self, start: int, end: int) -> Sequence[Span]:
        """Of a private mapping of a file: the pages that are no longer the file's."""


def _flags(region: Region) -> int:
    return (PF_R if region.readable else 0) | (PF_W if region.writable else 0) | (PF_X if region.executable else 0)


def whole_piece(region: Region, copied: Sequence[Span]) -> Piece:
    """All of a mapping, with zeros where nothing is copied."""
    return Piece(region.start, region.end, _flags(region), region.size, copied=copied)


def pieces_of(use: MappingUse, here: Sequence[Span], pages: Pages, *, whole: bool, page: int) -> Iterator[Piece]:
    """How one mapping is kept that has pages `here`. `whole`: all of its file's bytes too."""
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
        own = pages.own(start, end) if region.writable or use.anonymous or use.swapped else []
        if whole or own or region.writable:
            yield Piece(start, end, flags, end - start, copied=own, file=region)
        else:
            # its first page has its headers, and with them its build-id
            held = page if not region.offset else 0
            yield Piece(start, end, flags, held, copied=(), file=region)
    else:
        yield whole_piece(region, joined(here))


class Layout(NamedTuple):
    """Where everything goes in the file."""

    segments: Sequence[Segment]
    copies: Sequence[Copy]
    files: Sequence[FromFile]
    notes: bytes
    notes_at: int
    end: int
    """Where the last segment's bytes end; the moment's note follows."""

    @property
    def bytes(self) -> int:
        return sum(each.size for each in self.copies)


def lay_out(form: Form, pieces: Sequence[Piece], notes: bytes, page: int) -> Layout:
    # the segments, and two of notes
    notes_at = head_bytes(form, len(pieces) + 2)
    at = -(-(notes_at + len(notes)) // page) * page
    segments = [note_segment(notes_at, len(notes))]
    copies: list[Copy] = []
    files: list[FromFile] = []
    for piece in pieces:
        shift = at - piece.start
        segments.append(
            load_segment(piece.flags, at, piece.start, piece.held, memory_size=piece.end - piece.start, page=page)
        )
        copies += [Copy(low, high - low, low + shift) for low, high in piece.copied]
        if piece.file is not None:
            gaps = _between(piece.start, piece.start + piece.held, piece.copied)
            files += [FromFile(piece.file, low, high - low, low + shift) for low, high in gaps]
        at += -(-piece.held // page) * page
    return Layout(segments, copies, files, notes, notes_at=notes_at, end=at)


def _between(start: int, end: int, spans: Sequence[Span]) -> Iterator[Span]:
    for low, high in spans:
        if start < low:
            yield Span(start, low)
        start = high
    if start < end:
        yield Span(start, end)


def _was_saved(path: str) -> bool:
    """A file of ours may be replaced: by its note, at its end."""
    try:
        with open(open_regular(path), "rb") as file:
            start = file.read(len(MAGIC))
            file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_NOTES))
            return start == MAGIC and OWN.encode() + b"\0" in file.read(LAST_NOTES)
    except OSError:
        return False


class CoreWriter:
    """A file that gets its name once it is whole, and is its owner's alone, as a core of the kernel's is."""

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
            self._partial = PartialFile(path, 0o600)
        except OSError as error:
            raise self._cannot(error) from error
        self._file = self._partial.descriptor

    @property
    def room(self) -> int:
        """Bytes that find room there."""
        disk = os.fstatvfs(self._file)
        return disk.f_bavail * disk.f_frsize

    def _cannot(self, error: OSError) -> ArenascopeError:
        # offsets follow addresses: ext4's files end at 16 TiB
        larger = "another file system takes larger files (xfs, tmpfs): TMPDIR, or the file's name, can lead there"
        hint = larger if error.errno == errno.EFBIG else None
        return ArenascopeError(f"cannot write {self.path}: {error.strerror or error}", hint)

    def copy(self, layout: Layout, fill: Fill) -> int:
        """The process's bytes; how many could not be read."""
        try:
            os.ftruncate(self._file, layout.end)
            return _Copying(self._file, layout.copies, fill).run()
        except OSError as error:
            raise self._cannot(error) from error

    def write_kept(self, layout: Layout, kept: Sequence[Range], read: Callable[[int, int], bytes]) -> int:
        """These bytes, and zeros between them; how many were written."""
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
                os.pwrite(self._file, block, low - load.address + load.offset)
        return written

    def finish(
        self, form: Form, layout: Layout, moment: Optional[Moment], open_file: OpenFile, redacted: bool = False
    ) -> int:
        """The rest, for which nobody waits; the bytes that the file takes on the disk."""
        try:
            self._copy_files(layout.files, open_file)
            last = note_bytes([mark(redacted)] if moment is None else moment.notes(), form.mark)
            os.pwrite(self._file, last, layout.end)
            os.pwrite(self._file, layout.notes, layout.notes_at)
            segments = [*layout.segments, note_segment(layout.end, len(last))]
            os.pwrite(self._file, head(form, segments), 0)
            if self._partial is not None:
                self._partial.finish()
            return os.fstat(self._file).st_blocks * 512
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
                    os.pwrite(self._file, data, each.offset)
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
    """Those that lie close together: written at once."""
    window: list[Range] = []
    for each in kept:
        if window and (each.address - window[-1].end >= PAGE or each.end - window[0].address > BLOCK):
            yield window
            window = []
        window.append(each)
    if window:
        yield window


class _Copying:
    """Threads that copy: reading and writing both let the interpreter go."""

    def __init__(self, file: int, copies: Sequence[Copy], fill: Fill) -> None:
        self._file, self._copies, self._fill = file, copies, fill
        self._lock = threading.Lock()
        self._next = self._blocks()
        self._failed: Optional[BaseException] = None
        self._lost = array("Q", [0] * THREADS)

    def _blocks(self) -> Iterator[Copy]:
        for address, size, offset in self._copies:
            for done in range(0, size, BLOCK):
                yield Copy(address + done, min(BLOCK, size - done), offset + done)

    def run(self) -> int:
        others = [threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(1, THREADS)]
        for each in others:
            each.start()
        try:
            self._work(0)
        except BaseException as error:
            # Ctrl-C too, which is no Exception: the others must hear of it, and end at their next block
            self._failed = error
            raise
        finally:
            for each in others:
                each.join()
        if self._failed is not None:
            raise self._failed
        return sum(self._lost)

    def _work(self, number: int) -> None:
        buffer = memoryview(bytearray(BLOCK))
        try:
            while self._failed is None:
                with self._lock:
                    block = next(self._next, None)
                if block is None:
                    return
                self._lost[number] += self._copy(block, buffer)
        except (OSError, ArenascopeError) as error:
            self._failed = self._failed or error

    def _copy(self, block: Copy, buffer: memoryview) -> int:
        """How much of it could not be read: a page that is gone, memory of a device."""
        address, size, offset = block
        end = address + size
        while address < end:
            try:
                done = self._fill(address, buffer[: end - address])
            except MemoryReadError:
                return end - address
            rest = buffer[:done]
            while rest:
                written = os.pwrite(self._file, rest, offset)
                rest, offset = rest[written:], offset + written
            address += done
        return 0


def lay_out_notes(form: Form, pieces: Sequence[Piece], notes: Iterable[Note], page: int) -> Layout:
    return lay_out(form, pieces, note_bytes(notes, form.mark), page)


def first_notes(
    form: Form, who: Who, auxv: bytes, uses: Sequence[MappingUse], page: int, threads: Sequence[RegisterSets]
) -> bytes:
    """What debuggers go by: threads with their registers, the process, its files."""
    files = [
        FileMapping(each.region.start, each.region.end, each.region.offset, each.region.path)
        for each in uses
        if each.region.is_file
    ]
    return note_bytes(process_notes(form, who, auxv, files, page=page, threads=threads), form.mark)
