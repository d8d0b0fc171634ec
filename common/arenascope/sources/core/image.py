"""A core as an image: its memory, and what the file tells of the kernel's view of it."""

from __future__ import annotations

from typing import Optional, Sequence

from ...target import MappingUse, MemoryUse, Region, Residency, Span
from ..elf.naming import local_file
from ..local import LocalImage
from .memory import CoreMemory


class CoreImage(CoreMemory, LocalImage):
    """An ELF core. What was locked, and how much of files was in memory, no core tells."""

    kind = "core"

    def open_file(self, region: Region, likely: Sequence[str] = ()) -> Optional[str]:
        return local_file(region, likely)

    # holes are looked for only where somebody asks: most looks at a core need none of that file

    def residency(self) -> Optional[Residency]:
        from .holes import core_residency

        return core_residency(self)

    def mapping_use(self) -> Optional[Sequence[MappingUse]]:
        from .holes import core_mappings

        return core_mappings(self)

    def memory_use(self) -> Optional[MemoryUse]:
        return None

    def processors(self) -> Optional[int]:
        return None

    def locked(self) -> Optional[Sequence[Span]]:
        return None
