"""What the images on this machine say alike: a process of it, and a core's file."""

from __future__ import annotations

from typing import Optional, Protocol, Sequence

from ..base.model import Statement
from .elf.machines import machine_name
from .memory import Fill
from .target import Readable, RegisterSets


class _Image(Protocol):
    machine: int
    pointer_size: int

    def fill(self, address: int, block: memoryview) -> int: ...


class LocalImage:
    """Half of a Source: its processor is an ELF header's, and every thread may read it."""

    cut: Optional[Statement] = None
    redacted = False

    @property
    def machine_name(self: _Image) -> str:
        return machine_name(self.machine, self.pointer_size)

    @property
    def threaded_fill(self: _Image) -> Fill:
        return self.fill

    def readable(self, start: int, end: int) -> Optional[Readable]:
        """A process's pages come and go."""
        return None

    def register_sets(self) -> Sequence[RegisterSets]:
        """Whoever holds a process knows them."""
        return ()
