"""A core as an image: its memory, and what the file tells of the kernel's view of it."""

from __future__ import annotations

from typing import Callable, Optional, Sequence, Union

from ..source import Source
from ..target import (
    MappingUse,
    MemoryUse,
    Readable,
    Region,
    RegisterSets,
    Residency,
    SavedCore,
    SharedMemory,
    Span,
    Timer,
    Watched,
    joined,
)
from .core_memory import CoreMemory


class CoreImage(CoreMemory, Source):
    """An ELF core. Only one made by `save` tells what was locked, and how many pages of files were in memory."""

    kind = "core"

    # loaded on demand: most commands on a core need no holes

    def residency(self) -> Optional[Residency]:
        if self.moment is not None:
            from .saved_note import SavedResidency

            return SavedResidency(self.moment, self.page_size)
        from .holes import core_residency

        return core_residency(self)

    def mapping_use(self) -> Optional[Sequence[MappingUse]]:
        if self.moment is not None:
            return self.moment.uses
        from .holes import core_mappings

        return core_mappings(self)

    def memory_use(self) -> Optional[MemoryUse]:
        return self.moment.memory if self.moment is not None else None

    def watched(self) -> Optional[Sequence[Watched]]:
        return self.moment.watched if self.moment is not None else None

    def timers(self) -> Sequence[Timer]:
        return self.moment.timers if self.moment is not None else ()

    def own_pages(self, regions: Sequence[Region]) -> Sequence[Region]:
        """Returns whole mappings: a core has such a mapping whole, or all memory was asked for; bytes of files do no
        harm."""
        return [each for each in regions if each.present]

    def shared_memory(self) -> Optional[SharedMemory]:
        if self.moment is None or self.moment.shared is not None:
            return self.moment.shared if self.moment is not None else None
        # an earlier release's file has what was in page tables
        shared = (each for each in self.regions() if each.is_shared_memory and each.readable)
        return SharedMemory((), (), [Span(each.start, each.end) for each in shared if not each.present])

    def readable(self, start: int, end: int) -> Readable:
        """A header may claim any size, and a hole in the file may have any."""
        size, data = 0, []
        for low, high, shift in self.parts(start, end):
            size += high - low
            written = self.held.data_within(low + shift, high + shift)
            data += [(first - shift, last - shift) for first, last in written]
        return Readable(size, joined(data))

    def processors(self) -> Optional[int]:
        return self.moment.processors if self.moment is not None else None

    def locked(self) -> Optional[Sequence[Span]]:
        return self.moment.locked if self.moment is not None else None

    def save(self, path: Union[str, int], registers: Sequence[RegisterSets], release: Callable[[], float]) -> SavedCore:
        from .save_image import save_core

        return save_core(self, path, self.residency(), self.mapping_use())
