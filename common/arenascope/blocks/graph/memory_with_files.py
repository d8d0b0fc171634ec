"""Memory together with what files have of it: cores leave out code, its tables and tables of symbols."""

from __future__ import annotations

from ...base.errors import MemoryReadError
from ...sources.elf.modules import Modules
from ...sources.memory import Memory
from ...sources.target import Target


def with_constants(target: Target, modules: Modules) -> Memory:
    def read(address: int, size: int) -> bytes:
        try:
            return target.read(address, size)
        except MemoryReadError:
            module = next((each for each in modules.all if each.contains(address)), None)
            if module is None:
                raise
            return modules.read(module, address, size)

    return Memory(read, target.pointer_size, target.byte_order)
