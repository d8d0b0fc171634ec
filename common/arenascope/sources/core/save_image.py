"""Copies a process's memory into a core file as fast as possible: the process stands still only for the copy."""

from __future__ import annotations

import errno
import os
import threading
from bisect import bisect_left, bisect_right
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, Optional, Sequence, Union

from ...base.background import processors
from ...base.errors import ArenascopeError, MemoryReadError
from ...base.model import Range
from ...base.whole_file import PRIVATE, PartialFile
from ..elf import elf_file
from ..elf.elf_file import Note
from ..elf.registers import without_values
from ..elf.sysroot import open_regular
from ..memory import Fill
from ..target import MappingUse, Region, Residency, Runs, SavedCore, Span, joined
from . import core_layout
from .core_layout import CopiedRange, CoreLayout, Piece
from .open_core import data_within
from .saved_note import KernelFacts, mark

if TYPE_CHECKING:
    from .core_image import CoreImage

PAGE = 4096
BLOCK = 1 << 20
"""The bytes copied into a file at a time: they are still in the processor's cache when they are written."""
MOST_THREADS = 8
"""More threads would wait for memory rather than for each other."""
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
    slots: Optional[core_layout.Slots] = None
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
        self.lost = Runs(joined(sorted(self._copy(layout.end, layout.copies, lambda: self.taker(fill)))))
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

        self._copy(layout.end, copied, lambda: take)

    def _copy(self, end: int, copies: Sequence[CopiedRange], taker: Callable[[], Take]) -> Sequence[Span]:
        """Copies, and returns what could not be read."""
        try:
            self.reserve(end)
            return Copying(copies, taker, self.block).run()
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
        """Returns a function that copies, for one thread."""
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
        form: core_layout.ElfForm,
        layout: CoreLayout,
        moment: Optional[KernelFacts],
        open_file: OpenFile,
        redacted: bool = False,
    ) -> int:
        """Writes the rest, after the release, and returns how many bytes the file takes on the disk."""
        try:
            self._copy_files(layout.files, open_file)
            last = core_layout.note_bytes([mark(redacted)] if moment is None else moment.notes(), form.mark)
            self.put(last, layout.end)
            self.put(layout.notes, layout.notes_at)
            segments = [*layout.segments, core_layout.note_segment(layout.end, len(last))]
            self.put(core_layout.head(form, segments), 0)
            if self._partial is not None:
                self._partial.finish()
            return self._taken
        except OSError as error:
            raise self._cannot(error) from error

    def _copy_files(self, files: Sequence[core_layout.FromFile], open_file: OpenFile) -> None:
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


class Copying:
    """Threads that copy: reading and writing both release the interpreter."""

    def __init__(self, copies: Sequence[CopiedRange], taker: Callable[[], Take], block: int) -> None:
        """`block`: bytes at a time."""
        self._copies, self._taker, self._block = copies, taker, block
        self._lock = threading.Lock()
        self._next = self._blocks()
        self._failed: Optional[BaseException] = None
        self._threads = max(2, min(MOST_THREADS, processors()))
        self._lost: list[Span] = []
        """The offsets that could not be read."""

    def _blocks(self) -> Iterator[CopiedRange]:
        for address, size, offset in self._copies:
            for done in range(0, size, self._block):
                yield CopiedRange(address + done, min(self._block, size - done), offset + done)

    def run(self) -> Sequence[Span]:
        others: list[threading.Thread] = []
        try:
            with suppress(RuntimeError):  # where no more threads are to be had, as many as there are
                for _ in range(1, self._threads):
                    other = threading.Thread(target=self._work, daemon=True)
                    other.start()
                    others.append(other)
            self._work()
        except BaseException as error:
            # Ctrl-C too, which is no Exception: the others must hear of it, and end at their next block
            self._failed = error
            raise
        finally:
            for each in others:
                each.join()
        if self._failed is not None:
            raise self._failed
        return self._lost

    def _work(self) -> None:
        take = self._taker()
        try:
            while self._failed is None:
                with self._lock:
                    block = next(self._next, None)
                if block is None:
                    return
                self._copy(block, take)
        except (OSError, ArenascopeError) as error:
            self._failed = self._failed or error

    def _copy(self, block: CopiedRange, take: Take) -> None:
        """Copies what can be read: not a page that is gone, or memory of a device."""
        address, size, offset = block
        end, shift = address + size, offset - address
        while address < end:
            try:
                address += take(address, end - address, address + shift)
            except MemoryReadError:
                self._lost.append(Span(address + shift, end + shift))
                return


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
        form = core_layout.ElfForm(core.machine, core.pointer_size, core.elf.mark)
        notes = [Note(each.owner, each.type, each.data) for each in core.all_notes() if each.owner != elf_file.OWN]
        moment = _moment(core, residency, uses)
        pieces = [*_pieces(core)]
        if kept is not None:
            notes = [*_redacted(core, notes)]
            pieces = [*_emptied(core, pieces, kept)]
            if moment is not None:
                moment = moment._replace(environment=None, watched=None, timers=(), redacted=True)
        layout = core_layout.lay_out(form, pieces, core_layout.note_bytes(notes, form.mark), core.page_size)
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
