"""Which pages of a core were in memory, from the holes in its file. Of a live process pagemap.py tells."""

from __future__ import annotations

from typing import Optional

from ..target import MappingUse, Residency
from .core import CoreImage
from .holes import DenseResidency, HoleResidency, holes_tell


def core_residency(core: CoreImage) -> Residency:
    """By the holes where the kernel wrote the file and its holes survived, else by counting non-zero pages."""
    return HoleResidency(core) if holes_tell(core) else DenseResidency(core)


def core_mappings(core: CoreImage) -> Optional[list[MappingUse]]:
    """What the holes tell of each mapping: pages in swap count too, and pages of files were faulted in by the dump."""
    residency = core_residency(core)
    if not residency.exact:
        return None
    found = []
    for region in core.regions():
        pages = None if region.is_file else residency.count(region.start, region.end)
        found.append(MappingUse(region, pages.resident if pages else None))
    return found
