"""HotSpot's blocks (JDK 17 and its like): chunks of its arenas, symbols and the nodes of their table, and the memory of
Java's direct buffers.

A chunk begins with the next one and how many bytes it has for others, of which there are four sizes. A Symbol has a
count of references and a hash, two bytes each, how long it is, and its letters. Whose a direct buffer is tells the
java.nio.DirectByteBuffer.Deallocator in Java's heap: it has the address, the size and how much the buffer takes.
"""

from __future__ import annotations

import struct
from typing import Collection, Optional, Sequence

from ...base.model import Kind
from .module_memory import Front, LoadedModules, fits

CHUNK = Kind("HotSpot arena chunk", "holder", how="its length, which is one of the four that there are")
SYMBOL = Kind("HotSpot Symbol", "string", how="its count of references and its length")
NODE = Kind("HotSpot SymbolTable node", "node", certain=False, how="its Symbol, and the next node's")
BUFFER = Kind("Java direct buffer", "holder", how="its Deallocator's address, size and capacity")
CHUNK_FRONT = 16
CHUNK_LENGTHS = tuple(size - 40 for size in (256, 1 << 10, 10 << 10, 32 << 10))
"""Chunk::tiny_size and its like: malloc's header and its own are left room for."""
FRONT = 6
"""Bytes of a Symbol in front of its letters."""
SHORTEST = 3
"""Letters: with fewer something else may look so."""
NODE_BYTES, LOOKED_AT = 16, 256


class Jvm:
    """HotSpot's structs in one process."""

    holders: Collection[str] = ()
    apart = True
    past = (0,)

    def __init__(self, ground: LoadedModules) -> None:
        self._ground = ground
        self.runs = ground.has("gHotSpotVMStructs", "libjvm")

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        if len(head) < NODE_BYTES:
            return None
        first, second = struct.unpack_from("<2Q", head)
        if second in CHUNK_LENGTHS and fits(CHUNK_FRONT + second, usable) and (not first or self._is_chunk(first)):
            return CHUNK
        if self._is_symbol(user, head, usable):
            return SYMBOL
        if fits(NODE_BYTES, usable) and self._leads_to_symbol(second):
            after = self._ground.words(first, 2) if first and not first % 8 else None
            if not first or (after is not None and self._leads_to_symbol(after[1])):
                return NODE
        return None

    def kept_by(self, words: Sequence[int], at: int, usable: int) -> Optional[Kind]:
        """What a block of so many bytes is that words[at] points to, in Java's heap."""
        if not 0 < at < len(words) - 2:
            return None
        size = words[at + 1]
        # with compressed class pointers the header leaves room in front
        capacities = words[at - 1] >> 32, words[at + 2] & 0xFFFFFFFF
        return BUFFER if fits(size, usable) and size in capacities else None

    def _is_chunk(self, chunk: int) -> bool:
        words = self._ground.words(chunk, 2) if not chunk % 8 else None
        return words is not None and words[1] in CHUNK_LENGTHS

    def _leads_to_symbol(self, pointer: int) -> bool:
        """Symbols of a shared archive lie in a mapping."""
        head = self._ground.memory.try_read(pointer, 8) if pointer and not pointer % 8 else None
        return head is not None and self._is_symbol(pointer, head, None)

    def _is_symbol(self, symbol: int, head: bytes, usable: Optional[int]) -> bool:
        references, _, length = struct.unpack_from("<3H", head)
        if not references or length < SHORTEST:
            return False
        if usable is not None and not fits(-(-(FRONT + length) // 8) * 8, usable):
            return False
        length = min(length, LOOKED_AT)
        letters = head[FRONT : FRONT + length]
        if len(letters) < length:
            letters = self._ground.memory.try_read(symbol + FRONT, length) or b""
        if len(letters) < length or 0 in letters:
            return False
        try:
            # Java's own UTF-8 has surrogates, and no zero
            letters.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            # what is looked at may end within a letter
            return bool(length == LOOKED_AT and error.start > length - 4)
        return True


NAMES, LEVEL = "_ZN7NMTUtil18_memory_type_namesE", "_ZN10MemTracker15_tracking_levelE"
OFF = 1
MARK = 0xE99E
HEADER, MARK_AFTER = 16, 2
MOST_TYPES, LONGEST_NAME = 64, 64
OTHER = "Other"
"""Direct buffers are of that, and have a name of their own."""


class Nmt:
    """HotSpot's headers in one process."""

    sizes: Sequence[int] = (HEADER,)

    def __init__(self, ground: LoadedModules) -> None:
        self._ground = ground
        self._names: dict[int, Optional[str]] = {}
        self._table = 0
        library = next((each for each in ground.modules.all if each.name == "libjvm.so"), None)
        little = ground.memory.pointer_size == 8 and ground.memory.byte_order == "little"
        if library is not None and little:
            found = ground.modules.static(library, [NAMES, LEVEL])
            base = library.base
            level = ground.word(found[LEVEL] + base) if len(found) == 2 else None
            if level is not None and level & 0xFFFFFFFF > OFF:
                self._table = found[NAMES] + base
        self.runs = self._table != 0

    def front_of(self, words: Sequence[int], at: int, count: int, usable: int) -> Optional[Front]:
        """Of a block of so many bytes, of which `count` words are known, from `at` on."""
        if count < 3:
            return None
        size, marks = words[at], words[at + 1]
        if marks >> 48 != MARK or not size or not fits(HEADER + size + MARK_AFTER, usable):
            return None
        name = self._name(marks >> 32 & 0xFF)
        return Front(HEADER // 8, size, name) if name is not None else None

    def holds(self, front: Front, words: Sequence[int], user: int) -> Optional[str]:
        """What a block is that is known by no more than its front."""
        return f"HotSpot {front.of} (NMT)" if front.of != OTHER else None

    def _name(self, number: int) -> Optional[str]:
        if number not in self._names:
            place = self._ground.word(self._table + 8 * number) if number < MOST_TYPES else None
            name = self._ground.string(place, LONGEST_NAME) if place else None
            self._names[number] = name.decode("ascii", "replace") if name else None
        return self._names[number]
