"""A live process, as far as whoever saves it must know it."""

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
    """For a copy, made ready before it is held."""

    @abstractmethod
    def thread_names(self) -> Mapping[int, str]:
        """By tid, in order."""

    @abstractmethod
    def smaps(self) -> bytes:
        """The text of /proc/PID/smaps, for which the kernel goes through all pages."""

    @abstractmethod
    def shared_files(self, residency: Residency, most: Optional[int] = None) -> SharedFiles:
        """What lies behind its shared mappings, which are read there from here on."""
