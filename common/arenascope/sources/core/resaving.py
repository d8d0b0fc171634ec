"""A core written anew as `save` writes one: its own notes, its memory with its holes, and what it told of residency."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ...model import Range
from ...target import MappingUse, Region, Residency, Saved, Span
from ..elf.kernel import NT_386_TLS, NT_ARM_TLS, NT_AUXV, NT_FILE, NT_PRPSINFO, NT_PRSTATUS, NT_SIGINFO, OWN
from ..elf.notes import Note
from ..elf.registers import without_values
from .holes import data_within
from .memory import CoreMemory
from .moment import Moment
from .saving import CoreWriter, Piece, lay_out_notes
from .writing import Form

ARGUMENT_BYTES = 80
"""The end of NT_PRPSINFO: the command line."""
KEPT_NOTES = (NT_SIGINFO, NT_AUXV, NT_FILE, NT_386_TLS, NT_ARM_TLS)


def save_core(
    core: CoreMemory,
    path: str,
    residency: Optional[Residency],
    uses: Optional[Sequence[MappingUse]],
    kept: Optional[Sequence[Range]] = None,
) -> Saved:
    """`residency` and `uses` are what the core itself tells. With `kept` all other memory becomes zeros."""
    with CoreWriter(path) as writer:
        form = Form(core.machine, core.pointer_size, core.elf.mark)
        notes = [Note(each.owner, each.type, each.data) for each in core.all_notes() if each.owner != OWN]
        moment = _moment(core, residency, uses)
        if kept is not None:
            notes = [*_redacted(core, notes)]
            moment = (
                moment._replace(environment=None, watched=None, timers=(), redacted=True)
                if moment is not None
                else None
            )
        layout = lay_out_notes(form, [*_pieces(core, kept is None)], notes, core.page_size)
        lost = writer.copy(layout, core.fill)
        words = writer.write_kept(layout, kept, core.read) if kept is not None else 0
        written = writer.finish(form, layout, moment, lambda region: None)
        return Saved(written, layout.bytes + words - lost, lost, 0.0)


def _pieces(core: CoreMemory, everything: bool) -> Iterator[Piece]:
    names = {each.start: each for each in core.regions()}
    for segment in core.segments:
        start, end = segment.address, segment.address + segment.memory_size
        held = core.readable_end(segment)
        shift = start - segment.offset
        region = names.get(start)
        whole = everything or (region is not None and is_of_libc(region))
        # headers of a file are no data of the program
        limit = held if whole else min(held, start + core.page_size) if region and _begins_file(region) else start
        data = data_within(core.file, segment.offset, limit - shift)
        copied = [Span(low + shift, high + shift) for low, high in data]
        yield Piece(start, end, segment.flags, held - start, copied=copied)


def is_of_libc(region: Region) -> bool:
    """What is in libc's and ld.so's files, and never was the program's."""
    return region.finds_malloc and not region.writable


def _begins_file(region: Region) -> bool:
    return region.is_file and not region.writable and not region.offset


def _redacted(core: CoreMemory, notes: Sequence[Note]) -> Iterator[Note]:
    """Threads, where they stand and where their variables are; no other register."""
    for note in notes:
        if (note.owner, note.type) == ("CORE", NT_PRSTATUS):
            yield note._replace(data=without_values(core.machine, core.pointer_size, note.data))
        elif (note.owner, note.type) == ("CORE", NT_PRPSINFO):
            yield note._replace(data=note.data[:-ARGUMENT_BYTES] + bytes(ARGUMENT_BYTES))
        elif note.type in KEPT_NOTES:
            yield note


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
