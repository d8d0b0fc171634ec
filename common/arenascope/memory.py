"""Memory: bytes of the image as numbers. Everything right of it reads through here and nowhere else."""

from __future__ import annotations

import struct
from typing import Callable, Optional

from .errors import MemoryReadError

Read = Callable[[int, int], bytes]


class Memory:
    """Reads words of the target's size and byte order."""

    def __init__(self, read: Read, pointer_size: int, byte_order: str) -> None:
        self.read = read
        self.pointer_size = pointer_size
        self.byte_order = byte_order
        self.mark = "<" if byte_order == "little" else ">"
        self.code = "Q" if pointer_size == 8 else "I"
        self.top = (1 << (8 * pointer_size)) - 1
        self._word = struct.Struct(self.mark + self.code)
        self._u32 = struct.Struct(self.mark + "I")
        self.node = _node_reader(read, f"{self.mark}3{self.code}", pointer_size)

    def word(self, address: int) -> int:
        value: int = self._word.unpack(self.read(address, self.pointer_size))[0]
        return value

    def u32(self, address: int) -> int:
        value: int = self._u32.unpack(self.read(address, 4))[0]
        return value

    def words(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"{self.mark}{count}{self.code}", self.read(address, count * self.pointer_size))

    def try_word(self, address: int) -> Optional[int]:
        """The word, or None where it cannot be read."""
        try:
            return self.word(address)
        except MemoryReadError:
            return None

    def try_read(self, address: int, size: int) -> Optional[bytes]:
        """The bytes, or None where not all of them can be read."""
        try:
            return self.read(address, size)
        except MemoryReadError:
            return None

    def unpack_words(self, data: bytes) -> tuple[int, ...]:
        """All whole words of a block that was read before."""
        count = len(data) // self.pointer_size
        return struct.unpack_from(f"{self.mark}{count}{self.code}", data)


def _node_reader(read: Read, form: str, word: int) -> Callable[[int], tuple[int, int, int]]:
    """Reads (size word, fd, bk) of a free chunk: what bin walks repeat a million times, so a closure, not a method."""
    unpack, size = struct.Struct(form).unpack, 3 * word

    def node(chunk: int) -> tuple[int, int, int]:
        return unpack(read(chunk + word, size))

    return node


class BlockCache:
    """Keeps blocks of what it read: for sources where a call costs more than the bytes (a remote stub)."""

    BLOCK = 4096
    LIMIT = 16384

    def __init__(self, read: Read) -> None:
        self._read = read
        self._blocks: dict[int, bytes] = {}

    def read(self, address: int, size: int) -> bytes:
        block, offset = divmod(address, self.BLOCK)
        if offset + size > self.BLOCK:
            return self._read(address, size)
        data = self._blocks.get(block)
        if data is None:
            try:
                data = self._read(block * self.BLOCK, self.BLOCK)
            except MemoryReadError:
                return self._read(address, size)
            if len(self._blocks) >= self.LIMIT:
                self._blocks.clear()
            self._blocks[block] = data
        return data[offset : offset + size]
