"""What an image answers of which nothing but the bytes is known."""

from __future__ import annotations

from typing import Callable, Optional, Sequence, Union

from ..base.model import Statement
from .target import (
    MappingUse,
    MemoryUse,
    Readable,
    Region,
    RegisterSets,
    Residency,
    Saved,
    SharedMemory,
    Span,
    Timer,
    Watched,
)


class BytesAlone:
    """An Image that knows nothing but the bytes."""

    cut: Optional[Statement] = None
    redacted = False

    def residency(self) -> Optional[Residency]:
        return None

    def mapping_use(self) -> Optional[Sequence[MappingUse]]:
        return None

    def memory_use(self) -> Optional[MemoryUse]:
        return None

    def locked(self) -> Optional[Sequence[Span]]:
        return None

    def processors(self) -> Optional[int]:
        return None

    def watched(self) -> Optional[Sequence[Watched]]:
        return None

    def timers(self) -> Sequence[Timer]:
        return ()

    def own_pages(self, regions: Sequence[Region]) -> Sequence[Region]:
        return ()

    def shared_memory(self) -> Optional[SharedMemory]:
        return None

    def readable(self, start: int, end: int) -> Optional[Readable]:
        return None

    def shortage(self) -> Sequence[Statement]:
        return ()

    def save(
        self, path: Union[str, int], registers: Sequence[RegisterSets], release: Callable[[], float]
    ) -> Optional[Saved]:
        return None
