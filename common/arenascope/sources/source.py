"""An image with its bytes, as a Target asks it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Mapping, Optional, Sequence

from .elf.address_names import local_file
from .elf.machines import machine_name
from .memory import Fill
from .target import ByteOrder, Image, Region, RegisterSets, ThreadInfo, View


class Source(Image, ABC):
    """/proc/PID, the file of a core, or what a debugger reads of something else."""

    kind: str
    pid: Optional[int]
    pointer_size: int
    byte_order: ByteOrder
    page_size: int
    machine: int = 0
    """An ELF header's number; 0: not known."""

    @property
    def machine_name(self) -> str:
        """As in Target.machine."""
        return machine_name(self.machine, self.pointer_size)

    @abstractmethod
    def read(self, address: int, size: int) -> bytes:
        """As in Target, and what follows."""

    def fill(self, address: int, block: memoryview) -> int:
        block[:] = self.read(address, len(block))
        return len(block)

    @property
    def threaded_fill(self) -> Optional[Fill]:
        return self.fill

    def window(self, address: int) -> Optional[View]:
        return None

    @abstractmethod
    def regions(self) -> Sequence[Region]: ...

    def threads(self) -> Sequence[ThreadInfo]:
        """As far as it knows them: /proc has no thread pointers."""
        return ()

    def register_sets(self) -> Sequence[RegisterSets]:
        """As far as it knows them: a process that is not held shows none."""
        return ()

    def environment(self) -> Optional[Mapping[str, str]]:
        return None

    def is_secure(self) -> Optional[bool]:
        return None

    def open_file(self, region: Region, likely: Sequence[str]) -> Optional[str]:
        """As Target.open_file; `likely` is where to look."""
        return local_file(likely)
