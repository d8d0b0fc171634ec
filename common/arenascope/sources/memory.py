"""Bytes of the image as numbers. All walkers read through this module and nowhere else."""

from __future__ import annotations

import struct
import sys
from array import array
from functools import cached_property
from typing import Callable, Optional, Sequence

from ..base.errors import MemoryReadError
from .target import ByteOrder, Words

Read = Callable[[int, int], bytes]
Fill = Callable[[int, memoryview], int]
"""Reads into the buffer up to the end of the mapping, and returns how many bytes. MemoryReadError if there is none."""
Node = Callable[[int], Words]


class Memory:
    """Reads words of the target's size and byte order."""

    BLOCK = 512 << 10
    """Small enough for the processor's cache, large enough that the cost of a read does not matter."""

    def __init__(
        self,
        read: Read,
        pointer_size: int,
        byte_order: ByteOrder,
        fill: Optional[Fill] = None,
    ) -> None:
        self.read = read
        self.pointer_size = pointer_size
        self.byte_order = byte_order
        self.mark = "<" if byte_order == "little" else ">"
        self.code = "Q" if pointer_size == 8 else "I"
        self.top = (1 << (8 * pointer_size)) - 1
        self._word = struct.Struct(self.mark + self.code)
        self._u32 = struct.Struct(self.mark + "I")
        self._fill = fill if byte_order == sys.byteorder else None
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
        """Returns the word; None if it cannot be read."""
        try:
            return self.word(address)
        except MemoryReadError:
            return None

    def try_words(self, address: int, count: int) -> Optional[tuple[int, ...]]:
        """Returns so many words; None if not all can be read."""
        try:
            return self.words(address, count)
        except MemoryReadError:
            return None

    def few_words(self, address: int, count: int) -> Optional[Sequence[int]]:
        """Returns up to three words, as fast as `node`."""
        try:
            return self.node(address - self.pointer_size)[:count]
        except MemoryReadError:
            return self.try_words(address, count)  # what follows may be where memory ends

    def try_read(self, address: int, size: int) -> Optional[bytes]:
        """Returns the bytes; None if not all can be read."""
        try:
            return self.read(address, size)
        except MemoryReadError:
            return None

    def block(self, address: int, size: int) -> Sequence[int]:
        """Returns the words from an address on, `size` bytes of them (BLOCK at most) or as many as one read gives.

        One buffer serves all: they are valid until the next block. A word becomes a Python number when it is used.
        """
        if self._fill is None:
            return self.as_words(self.read(address, min(size, self.BLOCK)))
        data, words = self._buffer
        return words[: self._fill(address, data[:size]) // self.pointer_size]

    @cached_property
    def _buffer(self) -> tuple[memoryview, memoryview]:
        data = memoryview(bytearray(self.BLOCK))
        return data, data.cast("Q" if self.pointer_size == 8 else "I")

    def as_words(self, data: bytes) -> Sequence[int]:
        """Returns words that become Python numbers when they are used."""
        if self.byte_order == sys.byteorder:
            return memoryview(data).cast("Q" if self.pointer_size == 8 else "I")
        words = array("Q" if self.pointer_size == 8 else "I", data)
        words.byteswap()
        return words

    def unpack_words(self, data: bytes) -> tuple[int, ...]:
        """Unpacks all whole words of a block that was read before."""
        count = len(data) // self.pointer_size
        return struct.unpack_from(f"{self.mark}{count}{self.code}", data)


def _node_reader(read: Read, form: str, word: int) -> Node:
    """Returns a closure rather than a method: bin walks call it a million times."""
    unpack, size = struct.Struct(form).unpack, 3 * word

    def node(chunk: int) -> tuple[int, int, int]:
        return unpack(read(chunk + word, size))

    return node


class BlockCache:
    """Caches blocks, for sources where a call costs more than the bytes (a remote stub)."""

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
                data = b""  # not whole, which is tried once
            if len(self._blocks) >= self.LIMIT:
                self._blocks.clear()
            self._blocks[block] = data
        if not data:
            return self._read(address, size)
        return data[offset : offset + size]
