"""Saves a live process into the file of a core, or into memory: see core/save_image.py and core/core_in_memory.py."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Callable, NamedTuple, Optional, Sequence, Union

from ...base.background import BackgroundWork
from ...base.errors import TargetError
from ..core.core_image import CoreImage
from ..core.core_in_memory import Copied, Copier, MemoryWriter, NoRoomInMemory, slots_for
from ..core.save_image import (
    CoreWriter,
    ElfForm,
    Piece,
    Who,
    first_notes,
    lay_out,
    may_have_own,
    pieces_of,
    whole_piece,
)
from ..core.saved_note import KernelFacts
from ..elf.address_names import local_file
from ..target import MappingUse, Region, RegisterSets, SavedCore, Span, Target
from . import proc_tables
from .pagemap import PagemapResidency
from .shared_memory import SharedFiles

if TYPE_CHECKING:
    from ..core.open_core import CoreBytes
    from .process import ProcessImage


def save_process(
    image: ProcessImage, path: Union[str, int], registers: Sequence[RegisterSets], release: Callable[[], float]
) -> SavedCore:
    """Saves the process. `release` lets the process go, and returns how long it was held. If room in memory was
    reserved, it is copied there, and written after the release."""
    room, image.room = image.room, None
    with CoreWriter(path) as writer:
        if room is not None:
            with suppress(NoRoomInMemory), room:
                return _save(image, writer, registers, release, room=room)
        return _save(image, writer, registers, release)


def room_in_memory(
    image: ProcessImage, most: int, copier: Optional[Copier] = None, shared: Optional[int] = None
) -> Optional[MemoryWriter]:
    """Reserves pages for a running process's present memory; None if more than `most` bytes are to be copied, or too
    few addresses are free. `shared`: the limit for shared memory, including what others have written; None: `most`."""
    with suppress(OSError):
        form, seen = _form(image), _look(image, most if shared is None else shared)
        writer = MemoryWriter(most, slots_for(form, seen.pieces, image.page_size), copier)
        layout = lay_out(form, seen.pieces, b"", image.page_size, slots=writer.slots)
        if layout.bytes <= most:
            writer.touch(layout)
            writer.before = seen.uses
            return writer
    return None


def copy_process(
    image: ProcessImage,
    target: Target,
    writer: MemoryWriter,
    registers: Sequence[RegisterSets],
    release: Callable[[], float],
) -> tuple[ProcessCopy, SavedCore]:
    """Copies the process into our memory. NoRoomInMemory if there is too little."""
    saved = _save(image, writer, registers, release)
    return ProcessCopy(f"[copy of process {image.pid}]", target, saved.lost, writer.bytes), saved


class _Seen(NamedTuple):
    """The parts of a process to be copied."""

    uses: Sequence[MappingUse]
    smaps: Optional[BackgroundWork[bytes]]
    """smaps while it is being read: then `uses` are from before the hold, except for their addresses."""
    resident: Sequence[Span]
    swapped: Sequence[Span]
    exact: bool
    pieces: Sequence[Piece]
    shared: SharedFiles


def _form(image: ProcessImage) -> ElfForm:
    return ElfForm(image.machine, image.pointer_size, image.mark)


def _look(image: ProcessImage, room: int, before: Sequence[MappingUse] = ()) -> _Seen:
    """Collects what to copy. `before`: the mappings while it ran. With them smaps, for which the kernel visits all
    pages, is read during the copy. Not if pages are in swap: reading brings them back, and the two would be of two
    moments."""
    smaps = None
    if before and proc_tables.read_status(image.memory_tid).swap == 0:
        smaps = BackgroundWork(image.smaps)
    with PagemapResidency(image.memory_tid, image.page_size) as pages:
        uses = _as_before(image.regions(), before) if smaps is not None else image.mapping_use() or ()
        resident: list[Span] = []
        swapped: list[Span] = []
        pieces: list[Piece] = []
        # what others have written there is left out where there is no room for it
        shared = image.shared_files(pages, room - (image.status.rss or 0))
        for use in uses:
            states = pages.states(use.region.start, use.region.end)
            resident += states.present
            swapped += states.swapped
            told = shared.pages.get(use.region.start)
            if told is not None:
                pieces.append(whole_piece(use.region, told))
            else:
                here = sorted([*states.present, *states.swapped])
                pieces += pieces_of(use, here, pages.own, whole=use.region.finds_malloc, page=image.page_size)
        return _Seen(uses, smaps, resident, swapped, exact=pages.exact, pieces=pieces, shared=shared)


def _as_before(regions: Sequence[Region], before: Sequence[MappingUse]) -> list[MappingUse]:
    known = {use.region: use for use in before}
    return [known.get(region) or MappingUse(region, 0) for region in regions]


def _agree(uses: Sequence[MappingUse], guessed: Sequence[MappingUse]) -> bool:
    """Tells whether both would copy the same."""
    return len(uses) == len(guessed) and all(
        use.region == guess.region and (not use.region.is_file or may_have_own(use) == may_have_own(guess))
        for use, guess in zip(uses, guessed)
    )


def _save(
    image: ProcessImage,
    writer: CoreWriter,
    registers: Sequence[RegisterSets],
    release: Callable[[], float],
    room: Optional[MemoryWriter] = None,
) -> SavedCore:
    """Copies and writes the process; `room` takes the copy until the release."""
    first = room or writer
    form, seen = _form(image), _look(image, writer.room, first.before if isinstance(first, MemoryWriter) else ())
    names = image.thread_names()
    who = Who(image.pid, names.get(image.pid, image.status.name), _arguments(image.memory_tid), image.status.uid)
    notes = first_notes(form, who, image.auxv_bytes, seen.uses, page=image.page_size, threads=registers)
    layout = lay_out(form, seen.pieces, notes, image.page_size, slots=first.slots)
    if isinstance(first, MemoryWriter):
        first.process = Copied(image.memory_tid, image.memory_file, seen.shared.has)
    try:
        lost = first.copy(layout, image.fill)
    except ProcessLookupError:
        raise image.gone() from None
    uses = seen.uses
    if seen.smaps is not None:
        uses = proc_tables.Uses(seen.smaps.result)
        if not _agree(uses, seen.uses):
            assert isinstance(first, MemoryWriter)
            first.begin_again()
            return _save(image, writer, registers, release, room=room)
    moment = KernelFacts(
        uses=uses,
        memory=uses.memory if isinstance(uses, proc_tables.Uses) else image.memory_use(),
        locked=image.locked() or (),
        processors=image.processors(),
        names=names,
        environment=image.environment(),
        resident=seen.resident,
        swapped=seen.swapped,
        exact=seen.exact,
        taken=time.time(),
        watched=image.watched(),
        timers=image.timers(),
        shared=seen.shared.told,
    )
    held = release()
    if room is not None:
        here, layout = layout, lay_out(form, seen.pieces, notes, image.page_size)
        room.write_to(writer, here, layout)
    written = writer.finish(form, layout, moment, lambda region: image.open_file(region, ()))
    return SavedCore(written, layout.bytes - lost, lost, held)


class ProcessCopy(CoreImage):
    """A copy of a process; its files are the process's own."""

    def __init__(self, path: str, target: Target, lost: int, held: Optional[CoreBytes] = None) -> None:
        """`lost`: how many bytes could not be copied; `held`: the copy in memory."""
        super().__init__(path, held=held)
        self.lost = lost
        self._target = target

    def open_file(self, region: Region, likely: Sequence[str]) -> Optional[str]:
        try:
            return self._target.open_file(region)
        except TargetError:
            return local_file(likely)  # it has ended meanwhile


def _arguments(pid: int) -> str:
    with suppress(OSError):
        return os.fsdecode(proc_tables.read_bytes(f"/proc/{pid}/cmdline").replace(b"\0", b" ").strip())
    return ""
