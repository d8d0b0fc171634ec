"""The fields of a live process that `save` needs."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Mapping, Optional, Sequence

from ..source import Source
from ..target import Residency

if TYPE_CHECKING:
    from ..core.core_in_memory import MemoryWriter
    from .procfiles import Status
    from .shared_memory import SharedFiles


class LiveSource(Source):
    """/proc/PID; see process.py."""

    kind = "live"
    pid: int
    memory_tid: int
    status: Status
    mark: str
    auxv_bytes: bytes
    read_times: Optional[Sequence[float]] = None
    """See predicted_hold.py."""
    room: Optional[MemoryWriter] = None
    """Memory reserved for a copy before the process is held."""

    @abstractmethod
    def thread_names(self) -> Mapping[int, str]:
        """Returns names by tid, in order."""

    @abstractmethod
    def smaps(self) -> bytes:
        """Returns the text of /proc/PID/smaps, for which the kernel visits all pages."""

    @abstractmethod
    def shared_files(self, residency: Residency, most: Optional[int] = None) -> SharedFiles:
        """Opens what lies behind its shared mappings, which are read there from then on."""
