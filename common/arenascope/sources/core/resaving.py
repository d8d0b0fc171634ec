"""A core written anew as `save` writes one: its own notes, its memory with its holes, and what it told of residency."""

from __future__ import annotations

import os
from bisect import bisect_left
from typing import Iterable, Iterator, Optional, Sequence, Union

from ...base.model import Range
from ..elf.kernel_records import NT_386_TLS, NT_ARM_TLS, NT_AUXV, NT_FILE, NT_PRPSINFO, NT_PRSTATUS, NT_SIGINFO, OWN
from ..elf.notes import Note
from ..elf.registers import without_values
from ..target import MappingUse, Residency, Saved, Span
from .core_layout import Piece, lay_out_notes
from .memory import CoreMemory
from .open_core import data_within
from .saved_note import Moment
from .saving import CoreWriter
from .writing import Form

ARGUMENT_BYTES = 80
NAME_BYTES = 16 + ARGUMENT_BYTES
"""The end of NT_PRPSINFO: the process's name, the command line."""
KEPT_NOTES = (NT_AUXV, NT_FILE, NT_386_TLS, NT_ARM_TLS)


def save_core(
    core: CoreMemory,
    path: Union[str, int],
    residency: Optional[Residency],
    uses: Optional[Sequence[MappingUse]],
    kept: Optional[Sequence[Range]] = None,
) -> Saved:
    """`residency` and `uses` are what the core itself tells. With `kept` all other memory becomes zeros."""
    with CoreWriter(path) as writer:
        form = Form(core.machine, core.pointer_size, core.elf.mark)
        notes = [Note(each.owner, each.type, each.data) for each in core.all_notes() if each.owner != OWN]
        moment = _moment(core, residency, uses)
        pieces = [*_pieces(core)]
        if kept is not None:
            notes = [*_redacted(core, notes)]
            pieces = [*_emptied(core, pieces, kept)]
            if moment is not None:
                moment = moment._replace(environment=None, watched=None, timers=(), redacted=True)
        layout = lay_out_notes(form, pieces, notes, core.page_size)
        lost = writer.copy(layout, core.fill)
        words = writer.write_kept(layout, kept, core.read) if kept is not None else 0
        written = writer.finish(form, layout, moment, lambda region: None, redacted=kept is not None)
        return Saved(written, layout.bytes + words - lost, lost, 0.0)


def _pieces(core: CoreMemory) -> Iterator[Piece]:
    for segment in core.segments:
        start, end = segment.address, segment.address + segment.memory_size
        held = core.readable_end(segment)
        shift = start - segment.offset
        data = data_within(core.file, segment.offset, held - shift)
        copied = [Span(low + shift, high + shift) for low, high in data]
        yield Piece(start, end, segment.flags, held - start, copied=copied)


def _emptied(core: CoreMemory, pieces: Iterable[Piece], kept: Sequence[Range]) -> Iterator[Piece]:
    """Zeros alone. What follows a file's headers is left out: zeros would pass for the file's constants, which are
    read from the file where it is there."""
    names = {each.start: each for each in core.regions()}
    starts = [each.address for each in kept]
    for piece in pieces:
        region = names.get(piece.start)
        held = piece.held
        if region is not None and region.is_file and not (region.writable or region.offset or region.finds_malloc):
            last = bisect_left(starts, piece.end) - 1
            held = min(held, max(0, kept[last].end - piece.start)) if last >= 0 else 0
        yield piece._replace(held=held, copied=())


def _redacted(core: CoreMemory, notes: Iterable[Note]) -> Iterator[Note]:
    """Threads, where they stand and where their variables are; no other register."""
    for note in notes:
        if note.owner not in ("CORE", "LINUX"):
            continue
        data = note.data
        if note.type == NT_PRSTATUS:
            yield note._replace(data=without_values(core.machine, core.pointer_size, data))
        elif note.type == NT_PRPSINFO:
            yield note._replace(data=data[:-NAME_BYTES] + _name(core, data[-NAME_BYTES:]).ljust(NAME_BYTES, b"\0"))
        elif note.type == NT_SIGINFO:
            # si_signo and si_code: what follows is whatever the sender gave with it, or where memory was missing
            yield note._replace(data=data[:4] + bytes(4) + data[8:12] + bytes(max(0, len(data) - 12)))
        elif note.type in KEPT_NOTES:
            yield note


def _name(core: CoreMemory, data: bytes) -> bytes:
    """The process's, if a thread or a file bears it: gcore and QEMU take it from the arguments."""
    name = data[:-ARGUMENT_BYTES].split(b"\0")[0]
    files = (os.fsencode(os.path.basename(each.path))[: len(name)] for each in core.regions() if each.is_file)
    return name if core.made_by == "kernel" or name in files else b""


def _moment(core: CoreMemory, residency: Optional[Residency], uses: Optional[Sequence[MappingUse]]) -> Optional[Moment]:
    """None where the core does not tell which pages were in memory: its holes may be anybody's."""
    if core.moment is not None or residency is None or not residency.exact or uses is None:
        return core.moment
    resident: list[Span] = []
    for use in uses:
        resident += residency.resident_ranges(use.region.start, use.region.end) or ()
    return Moment(
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
