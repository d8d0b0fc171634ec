"""A core written anew as `save` writes one: its own notes, its memory with its holes, and what it told of residency."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ...target import MappingUse, Residency, Saved, Span
from ..elf.core_notes import OWN
from ..elf.core_saving import CoreWriter, Piece, lay_out_notes
from ..elf.core_writing import Form
from ..elf.moment import Moment
from ..elf.notes import Note
from .holes import data_within
from .memory import CoreMemory


def save_core(
    core: CoreMemory, path: str, residency: Optional[Residency], uses: Optional[Sequence[MappingUse]]
) -> Saved:
    """`residency` and `uses` are what the core itself tells."""
    with CoreWriter(path) as writer:
        form = Form(core.machine, core.pointer_size, core.elf.mark)
        notes = [Note(each.owner, each.type, each.data) for each in core.all_notes() if each.owner != OWN]
        layout = lay_out_notes(form, [*_pieces(core)], notes, core.page_size)
        lost = writer.copy(layout, core.fill)
        written = writer.finish(form, layout, _moment(core, residency, uses), lambda region: None)
        return Saved(written, layout.bytes - lost, lost, 0.0)


def _pieces(core: CoreMemory) -> Iterator[Piece]:
    for segment in core.segments:
        start, end = segment.address, segment.address + segment.memory_size
        held = core.readable_end(segment)
        shift = start - segment.offset
        data = data_within(core.file, segment.offset, held - shift)
        copied = [Span(low + shift, high + shift) for low, high in data]
        yield Piece(start, end, segment.flags, held - start, copied)


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
