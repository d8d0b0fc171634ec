"""Encoded pointers: what a second search looks for, where no plain pointer leads to a block.

With a tag in the low bits a pointer still leads into the block. What takes a calculation that the program alone knows
(XOR lists, references from a base of its own) is not found.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from types import ModuleType
from typing import TYPE_CHECKING, Callable, Iterator, Literal, Mapping, NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError, MemoryReadError
from ...session.session import Session
from ...sources.elf.modules import Modules
from ...sources.memory import Memory, Read
from ...sources.target import Residency, SharedMemory, Span

if TYPE_CHECKING:
    from ...base.array_types import Flags, Numbers


class WordWindow(NamedTuple):
    """Words in memory: they hold until the next window."""

    address: int
    words: Sequence[int]
    goes_on: bool = False
    """What is right behind it is of the same range, and in memory."""


class ImageWords:
    """What can be read of an image; `lost` counts what cannot."""

    def __init__(self, session: Session, shared: Optional[SharedMemory]) -> None:
        self._memory = session.memory
        # a lower bound will do: what a core's does not count is zeros
        self._residency = session.any_residency
        self._readable = session.target.image.readable
        self._shared = shared
        self._page = session.target.page_size
        self.lost = 0

    def of(self, start: int, end: int) -> Iterator[WordWindow]:
        word = self._memory.pointer_size
        start, end = -(-start // word) * word, end // word * word
        for low, high in self._present(start, end):
            low, high = max(low, start), min(high, end)
            readable = self._readable(low, high) if low < high else None
            if readable is None:
                yield from self._windows(low, high)
                continue
            self.lost += high - low - readable.bytes
            for first, last in readable.data:
                # a part that ends within a word
                yield from self._windows(max(low, first // word * word), last)

    def bytes(self, start: int, end: int) -> int:
        """How many there are to be looked at, at most."""
        readable = self._readable(start, end)
        return end - start if readable is None else sum(each.bytes for each in readable.data)

    def _present(self, start: int, end: int) -> Sequence[Span]:
        shared = self._shared
        index = bisect_right(shared.mappings, (start + 1,)) - 1 if shared is not None else -1
        if shared is not None and index >= 0 and start < shared.mappings[index].end:
            return _within(shared.pages, start, end)
        return present(self._residency, start, end)

    def _windows(self, at: int, end: int) -> Iterator[WordWindow]:
        word = self._memory.pointer_size
        while end - at >= word:
            size = min(end - at, Memory.BLOCK) // word * word
            try:
                words = self._memory.block(at, size)
            except MemoryReadError:
                words = ()
            if len(words):
                stop = at + len(words) * word
                yield WordWindow(at, words, goes_on=stop < end)
                at = stop
            elif size > self._page:
                # something in it cannot be read: page by page
                stop = at + size
                while at < stop:
                    size = min(self._page - at % self._page, stop - at)
                    yield from self._page_at(at, size, goes_on=at + size < end)
                    at += size
                at = stop
            else:
                self.lost += size
                at += size

    def _page_at(self, at: int, size: int, goes_on: bool) -> Iterator[WordWindow]:
        try:
            words = self._memory.block(at, size)
        except MemoryReadError:
            words = ()
        # a core that was cut ends within a page, or a word
        self.lost += size - len(words) * self._memory.pointer_size
        if len(words):
            yield WordWindow(at, words, goes_on)


def _within(pages: Sequence[Span], start: int, end: int) -> Sequence[Span]:
    first = max(0, bisect_right(pages, (start + 1,)) - 1)
    here = pages[first : bisect_left(pages, (end,))]
    return [Span(max(low, start), min(high, end)) for low, high in here if high > start]


def present(residency: Optional[Residency], start: int, end: int) -> Sequence[Span]:
    """Where there may be anything but zeros."""
    if residency is None:
        return [Span(start, end)]
    pages = residency.count(start, end)
    if pages is None or pages.swapped:
        return [Span(start, end)]
    ranges = residency.resident_ranges(start, end)
    return [Span(start, end)] if ranges is None else ranges


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


HALVES = 4
"""Of 16 bits in a word; user space has no more than three of them."""


class Decoded(NamedTuple):
    """What the words of a window may mean."""

    encoding: str
    address: int
    """Where the first lies; the next a word further."""
    words: Sequence[int]
    places: Optional[Sequence[int]] = None
    """Which of the window's these are; None: all."""

    def place(self, index: int) -> int:
        return index if self.places is None else int(self.places[index])


def _tagged(words: Sequence[int]) -> Sequence[int]:
    """The upper 16 bits are a count or a tag (boost::lockfree)."""
    halves = array("H", memoryview(words).cast("B").tobytes())  # type: ignore[arg-type]
    halves[3::HALVES] = array("H", bytes(2 * len(words)))
    return memoryview(halves).cast("B").cast("Q")


def _shifted(words: Sequence[int]) -> Sequence[int]:
    """The lower 16 bits are."""
    data = memoryview(words).cast("B")[2:].tobytes() + bytes(2)  # type: ignore[arg-type]
    return _tagged(memoryview(data).cast("Q"))


WHOLE: Mapping[str, Callable[[Sequence[int]], Sequence[int]]] = {"tagged": _tagged, "shifted": _shifted}
UPPER, LOWER = 48, 16
"""The same in bits: where a tag above begins, where one below ends."""
ALIKE = "inside"
"""No other writing: the offset inside a block is that of all blocks of its size."""
UNALIGNED, RELATIVE = "unaligned", "relative"
TAGS = 16
"""Tags in the low bits stay below malloc's alignment."""
FAR = 4096
"""A distance is longer: lengths and counts would lead to a neighbour."""


def room(encoding: str) -> int:
    """How far past a block's start a word leads, at most, that can be a pointer to it, and one: what is written
    otherwise has to lead to the start."""
    return TAGS if encoding in WHOLE else 1


def decoded(
    window: WordWindow, memory: Memory, numpy: Optional[ModuleType] = None, tops: Optional[Sequence[Span]] = None
) -> Iterator[Decoded]:
    """On 32-bit machines only the last two: there is no room for a tag, and chance would find one everywhere. With
    `numpy` the words are an array of its own; `tops` are the upper halves that matter, where these are few: words
    that have none of them are left out."""
    at, words, word = window.address, window.words, memory.pointer_size
    if isinstance(words, tuple) or memory.mark != "<":
        return
    data = memoryview(words).cast("B")  # type: ignore[arg-type]
    # what goes on in the next window is in this one, too
    rest = memory.try_read(at + len(data), word) if window.goes_on else None
    longer = data.tobytes() + (rest or bytes(word))
    yield from _plain(at, words, longer, memory) if numpy is None else _fast(at, words, longer, numpy, tops=tops)


def _plain(at: int, words: Sequence[int], longer: bytes, memory: Memory) -> Iterator[Decoded]:
    word, size, top = memory.pointer_size, len(longer) - memory.pointer_size, memory.top
    code: Literal["Q", "I"] = "Q" if word == 8 else "I"
    if word == 8:
        for name, decode in WHOLE.items():
            yield Decoded(name, at, decode(words))
    for shift in range(1, word):
        yield Decoded(UNALIGNED, at + shift, memoryview(longer[shift : size + shift]).cast(code))
    near, far = FAR, top - FAR
    places = range(at, at + size, word)
    values = array(code, [(value + place) & top if near <= value <= far else 0 for value, place in zip(words, places)])
    yield Decoded(RELATIVE, at, memoryview(values))


def _fast(
    at: int, words: Sequence[int], longer: bytes, numpy: ModuleType, tops: Optional[Sequence[Span]]
) -> Iterator[Decoded]:
    values = numpy.asarray(words)
    number, word = values.dtype.type, values.itemsize
    if tops is not None:
        yield from _by_tops(at, values, longer, numpy, tops=tops)
    elif word == 8:
        yield Decoded("tagged", at, values & number((1 << UPPER) - 1))
        yield Decoded("shifted", at, values >> number(LOWER))
    for shift in range(1, word) if tops is None else ():
        yield Decoded(UNALIGNED, at + shift, numpy.frombuffer(longer, values.dtype, len(values), shift))
    top = (1 << 8 * word) - 1
    is_far = values - number(FAR) <= number(top - 2 * FAR)
    if tops is not None:
        # where the sum's upper half is to be, with what is carried over
        low, high = at >> 32, at + len(longer) >> 32
        sums = [Span(each.start - high - 1, each.end - low) for each in tops]
        is_far &= _is_within(numpy, values.view(numpy.uint32)[1::2].copy(), sums)
    places = numpy.flatnonzero(is_far)
    yield Decoded(RELATIVE, at, values[places] + (places * word + at).astype(values.dtype), places)


def _by_tops(at: int, values: Numbers, longer: bytes, numpy: ModuleType, tops: Sequence[Span]) -> Iterator[Decoded]:
    """All but what is relative. Words are told by the 16 bits that are an address's upper half, wherever these stand:
    two passes over them in place of one for each writing."""
    number, data = values.dtype.type, numpy.frombuffer(longer, dtype=numpy.uint8)
    even, odd = (
        2 * numpy.flatnonzero(_is_within(numpy, numpy.frombuffer(data[first : len(data) - first], numpy.uint16), tops))
        + first
        for first in (0, 1)
    )
    places = even >> 3
    inside = places < len(values)
    tagged, shifted = (places[inside & (even & 7 == past)] for past in (4, 6))
    yield Decoded("tagged", at, values[tagged] & number((1 << UPPER) - 1), tagged)
    yield Decoded("shifted", at, values[shifted] >> number(LOWER), shifted)
    begins = numpy.concatenate((even, odd)) - 4
    begins = begins[(begins >= 0) & (begins & 7 > 0) & (begins >> 3 < len(values))]
    begins = begins[(data[begins + 6] == 0) & (data[begins + 7] == 0)]
    for shift in sorted({*(begins & 7).tolist()}):
        unaligned = begins[begins & 7 == shift] >> 3
        askew = numpy.frombuffer(longer, values.dtype, len(values), shift)
        yield Decoded(UNALIGNED, at + shift, askew[unaligned], unaligned)


def _is_within(numpy: ModuleType, values: Numbers, spans: Sequence[Span]) -> Flags:
    """Of each whether it is in one of these, which may begin below 0."""
    number = values.dtype.type
    most = (1 << 8 * values.itemsize) - 1
    is_within: Flags = numpy.zeros(len(values), dtype=bool)
    for start, end in spans:
        is_within |= values - number(start & most) <= number(min(end - start - 1, most))
    return is_within
