"""HotSpot's blocks (JDK 17 and its like): chunks of its arenas, symbols and the nodes of their table, and the memory of
Java's direct buffers.

A chunk begins with the next one and how many bytes it has for others, of which there are four sizes. A Symbol has a
count of references and a hash, two bytes each, how long it is, and its letters. Whose a direct buffer is tells the
java.nio.DirectByteBuffer.Deallocator in Java's heap: it has the address, the size and how much the buffer takes.
"""

from __future__ import annotations

from typing import Collection, Iterator, Sequence

from ...base.heap_model import Kind
from .module_memory import LoadedModules
from .selection import LONGEST_TEXT, LOW, TRUE, USABLE, USER, Condition, Found, Front, Numbers, Selection, Value, value

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
NODE_BYTES = 16


class Jvm:
    """HotSpot's structs in one process."""

    holders: Collection[str] = ()
    apart = True
    past = (0,)

    def __init__(self, ground: LoadedModules) -> None:
        self.runs = ground.has("gHotSpotVMStructs", "libjvm")

    def kinds(self, blocks: Selection) -> Found:
        first, second = USER.word(0), USER.word(1)
        is_last = first == 0
        is_followed = first.is_multiple(8) & first.word(1).is_in(CHUNK_LENGTHS)
        yield blocks.where(second.is_in(CHUNK_LENGTHS) & (second + CHUNK_FRONT).fits() & (is_last | is_followed)), CHUNK
        length = (USER + 4).number(2)
        fills = (USABLE >= NODE_BYTES) & ((length + FRONT + 7) & ~7).fits()
        yield blocks.where(fills & _is_symbol(USER)), SYMBOL
        goes_on = is_last | (first.is_multiple(8) & _leads_to_symbol(first.word(1)))
        yield blocks.where(value(NODE_BYTES).fits() & _leads_to_symbol(second) & goes_on), NODE

    def kept(self, pointers: Selection) -> Found:
        """What lies in Java's heap."""
        size = USER.word(1)
        # with compressed class pointers the header leaves room in front
        is_capacity = (size == USER.word(-1) >> 32) | (size == USER.word(2) & LOW)
        yield pointers.where(size.fits() & is_capacity), BUFFER


def _leads_to_symbol(pointer: Value) -> Condition:
    """Symbols of a shared archive lie in a mapping."""
    return (pointer > 0) & pointer.is_multiple(8) & _is_symbol(pointer)


def _is_symbol(symbol: Value) -> Condition:
    references, length = symbol.number(2), (symbol + 4).number(2)
    return (references > 0) & (length >= SHORTEST) & (symbol + FRONT).is_java_text(length.least(LONGEST_TEXT))


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

    def fronts(self, blocks: Selection) -> Iterator[tuple[Numbers, Front]]:
        size, marks = USER.word(0), USER.word(1)
        is_header = (USABLE >= 24) & (marks >> 48 == MARK) & (size > 0) & (size + HEADER + MARK_AFTER).fits()
        for number, some in blocks.grouped(marks >> 32 & 0xFF, blocks.where(is_header)):
            place = self._ground.word(self._table + 8 * number) if number < MOST_TYPES else None
            name = self._ground.string(place, LONGEST_NAME) if place else None
            if name:
                of = name.decode("ascii", "replace")
                holds = {f"HotSpot {of} (NMT)": TRUE} if of != OTHER else {}
                yield some, Front(HEADER, of, USER.word(-2), holds)
