"""Decides where each byte of a process goes in a core: its mappings as pieces, and the pieces one after the other.

Resident and swapped pages are copied, untouched ones stay holes. Unchanged pages of a file are read from that file
after the release, and only those that finding glibc needs. Shared memory is kept whoever wrote it; if it cannot be
read, only the part that the process has mapped: the rest is left out and not called zero.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Iterable, Iterator, NamedTuple, Optional, Protocol, Sequence

from ..elf.elf_file import PF_R, PF_W, PF_X, Segment
from ..elf.elf_notes import FileMapping, Note
from ..target import MappingUse, Region, RegisterSets, Span, joined
from .writing import ElfForm, Who, head_bytes, load_segment, note_bytes, note_segment, process_notes

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

    def states(self, start: int, end: int) -> tuple[Sequence[Span], Sequence[Span]]:
        """(in memory, in swap)."""

    def own(self, start: int, end: int) -> Sequence[Span]:
        """Returns the pages of a private mapping of a file that are no longer the file's."""


def _flags(region: Region) -> int:
    return (PF_R if region.readable else 0) | (PF_W if region.writable else 0) | (PF_X if region.executable else 0)


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


def lay_out_notes(form: ElfForm, pieces: Sequence[Piece], notes: Iterable[Note], page: int) -> CoreLayout:
    return lay_out(form, pieces, note_bytes(notes, form.mark), page)


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
