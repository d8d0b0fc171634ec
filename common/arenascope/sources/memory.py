"""Bytes of the image as numbers. All walkers read through this module and nowhere else."""

from __future__ import annotations

import os
import struct
import sys
from array import array
from functools import cached_property
from typing import Callable, Optional, Sequence

from ..base.errors import MemoryReadError
from .target import ByteOrder, View, Words

Read = Callable[[int, int], bytes]
Fill = Callable[[int, memoryview], int]
"""Reads into the buffer up to the end of the mapping, and returns how many bytes. MemoryReadError if there is none."""
Window = Callable[[int], Optional[View]]
"""Returns the image's bytes around an address; None if it has no such window."""
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
        window: Optional[Window] = None,
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
        self._windows: Optional[_Windows] = None
        if window is not None:
            self._windows = _Windows(self, window, f"{self.mark}3{self.code}")
            self.node = self._windows.first

    def let_go(self) -> None:
        """Drops windows before other lists are read: pages seen in a mapping no longer count as ours."""
        if self._windows is not None:
            self._windows.let_go()

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


SLOT_SHIFT = 20
MOST_SLOTS = 256
"""The most megabytes that lists are followed through in windows; the rest is read: all pages seen in a mapping count as
our memory."""


class _Windows:
    """Reads words without a copy. Windows are kept per megabyte, as a list leads from heap to heap and back. Beyond so
    many of them, each read is a call."""

    def __init__(self, memory: Memory, window: Window, form: str) -> None:
        self._memory, self._window, self._slow = memory, window, memory.node
        self._word, self._form = memory.pointer_size, struct.Struct(form)
        self._slots: dict[int, tuple[memoryview, int]] = {}
        self._files: dict[int, tuple[int, int]] = {}
        self._forget: Optional[Callable[[], None]] = None

    def first(self, chunk: int) -> Words:
        memory = self._memory
        if memory.node != self.first:
            return memory.node(chunk)  # a long list was begun before
        if self._find(chunk):
            memory.node = self._by_window(self._by_file())
        return self._slow(chunk)

    def let_go(self) -> None:
        """Drops windows if many are held."""
        if self._forget is not None and 2 * len(self._slots) >= MOST_SLOTS:
            self._slots.clear()
            self._files.clear()
            self._forget()

    def _find(self, chunk: int) -> bool:
        """Opens a window around that chunk, if there is one."""
        around = self._window(chunk) if chunk >= 0 else None
        start = chunk >> SLOT_SHIFT << SLOT_SHIFT
        if around is None or around.base > start or start + (1 << SLOT_SHIFT) + 4 * self._word > around.limit:
            return False
        if around.file >= 0 and len(self._slots) >= MOST_SLOTS:
            self._files[chunk >> SLOT_SHIFT] = around.file, around.offset - around.base + self._word
        else:
            self._slots[chunk >> SLOT_SHIFT] = around.data, around.base - self._word
            self._forget = around.forget
        return True

    # closures, not methods: see _node_reader

    def _by_file(self) -> Node:
        unpack, unpack_from, size, pread = self._form.unpack, self._form.unpack_from, self._form.size, os.pread
        slots, files, find, slow = self._slots.get, self._files.get, self._find, self._slow

        def node(chunk: int) -> Words:
            place = files(chunk >> SLOT_SHIFT)
            if place is None:
                slot = slots(chunk >> SLOT_SHIFT) if find(chunk) else None
                return slow(chunk) if slot is None else unpack_from(slot[0], chunk - slot[1])
            data = pread(place[0], size, chunk + place[1])
            # a file that was cut meanwhile
            return unpack(data) if len(data) == size else slow(chunk)

        return node

    def _by_window(self, beyond: Node) -> Node:
        unpack, known = self._form.unpack_from, self._slots.get

        def node(chunk: int) -> Words:
            slot = known(chunk >> SLOT_SHIFT)
            if slot is None:
                return beyond(chunk)
            return unpack(slot[0], chunk - slot[1])

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
