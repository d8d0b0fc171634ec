"""Memory together with what files have of it: cores leave out code, its tables and tables of symbols."""

from __future__ import annotations

import struct

from ...base.errors import ArenascopeError, MemoryReadError
from ...sources.elf.modules import Modules
from ...sources.memory import Memory, Read


def with_constants(read_memory: Read, modules: Modules) -> Memory:
    def read(address: int, size: int) -> bytes:
        try:
            return read_memory(address, size)
        except MemoryReadError:
            module = modules.at(address)
            if module is None:
                raise
            try:
                return modules.read(module, address, size)
            except (ArenascopeError, struct.error):
                raise MemoryReadError(address, size) from None

    return Memory(read, modules.target.pointer_size, modules.target.byte_order)
