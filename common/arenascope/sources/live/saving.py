"""A live process into the file of a core: see core/saving.py."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Callable, Optional, Sequence, Union

from ...base.errors import TargetError
from ..core.core_image import CoreImage
from ..core.saved_note import Moment
from ..core.saving import CoreWriter, Piece, first_notes, lay_out, pieces_of, whole_piece
from ..core.writing import Form, Who
from ..elf.address_names import local_file
from ..target import Region, RegisterSets, Saved, Span, Target
from . import kernel_pointers as _kernel  # noqa: F401  what `watched` takes, loaded before a process is held
from . import procfiles
from .bulk_reads import block_reader
from .live_source import LiveSource
from .pagemap import PagemapResidency
from .shared_memory import SharedFiles


def save_process(
    image: LiveSource, path: Union[str, int], registers: Sequence[RegisterSets], release: Callable[[], float]
) -> Saved:
    """`release` lets the process go, and says for how long it was held."""
    with CoreWriter(path) as writer:
        return _save(image, writer, registers, release)


def _save(
    image: LiveSource, writer: CoreWriter, registers: Sequence[RegisterSets], release: Callable[[], float]
) -> Saved:
    pages = PagemapResidency(image.memory_tid, image.page_size)
    uses = list(image.mapping_use() or ())
    resident: list[Span] = []
    swapped: list[Span] = []
    pieces: list[Piece] = []
    # what others have written there is left out where there is no room for it
    shared = image.shared_files(pages, writer.room - (image.status.rss or 0))
    for use in uses:
        states = pages.states(use.region.start, use.region.end)
        resident += states.present
        swapped += states.swapped
        told = shared.pages.get(use.region.start)
        if told is not None:
            pieces.append(whole_piece(use.region, told))
        else:
            here = sorted([*states.present, *states.swapped])
            pieces += pieces_of(use, here, pages, whole=use.region.finds_malloc, page=image.page_size)
    form = Form(image.machine, image.pointer_size, image.mark)
    names = image.thread_names()
    who = Who(image.pid, names.get(image.pid, image.status.name), _arguments(image.memory_tid), image.status.uid)
    notes = first_notes(form, who, image.auxv_bytes, uses, page=image.page_size, threads=registers)
    layout = lay_out(form, pieces, notes, image.page_size)
    moment = Moment(
        uses=uses,
        memory=image.memory_use(),
        locked=image.locked() or (),
        processors=image.processors(),
        names=names,
        environment=image.environment(),
        resident=resident,
        swapped=swapped,
        exact=pages.exact,
        taken=time.time(),
        watched=image.watched(),
        timers=image.timers(),
        shared=shared.told,
    )
    lost = writer.copy(layout, _reader(image, shared))
    held = release()
    written = writer.finish(form, layout, moment, lambda region: image.open_file(region, ()))
    return Saved(written, layout.bytes - lost, lost, held)


class ProcessCopy(CoreImage):
    """A process as it was; its files are the process's own."""

    def __init__(self, path: str, target: Target) -> None:
        super().__init__(path)
        self._target = target

    def open_file(self, region: Region, likely: Sequence[str]) -> Optional[str]:
        try:
            return self._target.open_file(region)
        except TargetError:
            return local_file(likely)  # it has ended meanwhile


def _reader(image: LiveSource, shared: SharedFiles) -> Callable[[int, memoryview], int]:
    plain = block_reader(image.memory_tid, image.fill)
    if not shared.told.pages:
        return plain
    return lambda address, block: shared.fill(address, block) or plain(address, block)


def _arguments(pid: int) -> str:
    with suppress(OSError):
        return os.fsdecode(procfiles.read_bytes(f"/proc/{pid}/cmdline").replace(b"\0", b" ").strip())
    return ""
