"""The interface that a door implements. Integers, bytes and small records pass through it, no objects of a debugger.

A Target answers for memory: bytes, names, mappings, threads. Each door has one (GDB, LLDB, the shell), and so have the
heaps that unit tests build. An Image behind it answers for the kernel. Each command makes a Target of what is selected.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate, chain
from operator import sub
from typing import (
    TYPE_CHECKING,
    Callable,
    Iterable,
    Iterator,
    Literal,
    Mapping,
    NamedTuple,
    Optional,
    Protocol,
    Sequence,
)

from ..base.heap_model import HUGE_PAGES, Statement, may_be_shared

if TYPE_CHECKING:
    from .type_source import TypeSource

Words = tuple[int, int, int]
"""(size word, fd, bk) of a free chunk. A tuple, as there may be millions."""


class Watched(NamedTuple):
    """A file that an epoll instance watches, and the word that the kernel keeps for its events (epoll_data)."""

    epoll: int
    file: int
    data: int


class Timer(NamedTuple):
    """A POSIX timer, and the word that its signal brings (sigev_value)."""

    number: int
    data: int


ByteOrder = Literal["little", "big"]


class Region(NamedTuple):
    """One mapping of the address space."""

    start: int
    end: int
    readable: bool = True
    writable: bool = True
    executable: bool = False
    path: str = ""
    """The mapped file, a kernel name such as "[heap]", or "" if it is anonymous or not known."""
    offset: int = 0
    """The file offset of `start`, if `path` is a file."""
    shared: bool = False
    present: bool = True
    """False if the image does not hold the bytes (a core that leaves a mapping out)."""

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def is_file(self) -> bool:
        return self.path.startswith("/") and self.path != HUGE_PAGES

    @property
    def is_shared_memory(self) -> bool:
        """Whether others may have written pages there that this process never touched."""
        return self.shared and may_be_shared(self.path)

    @property
    def finds_malloc(self) -> bool:
        """Whether the file's own bytes tell where malloc is, or that it is not glibc's: libc, the loader."""
        files = ("libc.so", "libc-2.", "ld-linux", "ld-2.", "ld.so", "ld64.so", "ld-musl")
        return self.is_file and self.path.rpartition("/")[2].startswith(files)

    def contains(self, address: int) -> bool:
        return self.start <= address < self.end


class Symbol(NamedTuple):
    """An address, and the build-id of the file whose symbol table gave it (None: not known)."""

    address: int
    build_id: Optional[str] = None


class FieldPlace(NamedTuple):
    """The place of a field in a struct."""

    offset: int
    size: int


class StructInfo(NamedTuple):
    """A struct, from debug information."""

    name: str
    size: int
    fields: Mapping[str, FieldPlace]


class ThreadInfo(NamedTuple):
    """A thread at the moment of the command."""

    tid: int
    name: Optional[str] = None
    stack_pointer: Optional[int] = None
    thread_pointer: Optional[int] = None
    """The TLS base (x86: fs_base or gs_base, arm: tpidr, …); None if the door cannot know it."""
    program_counter: Optional[int] = None
    runs: bool = False
    """Whether it runs while the process is read: the debugger does not hold it."""
    link_register: Optional[int] = None  # where its innermost function returns to; x86 has none
    lone: bool = False  # it has no TLS: of the kernel's own (io_uring's), or made by clone(2) without CLONE_SETTLS


class RegisterSet(NamedTuple):
    """A set of a thread's registers, as in a note of a core."""

    owner: str  # "CORE" or "LINUX"
    type: int
    data: bytes


class RegisterSets(NamedTuple):
    """All known registers of a thread."""

    tid: int
    general: bytes
    """As in NT_PRSTATUS; empty if not known."""
    others: Sequence[RegisterSet] = ()  # floating point, vectors, TLS


class Span(NamedTuple):
    """The range between two addresses."""

    start: int
    end: int

    @property
    def bytes(self) -> int:
        return self.end - self.start


def joined(spans: Iterable[tuple[int, int]]) -> list[Span]:
    """Joins spans that touch or overlap; they must be sorted by start."""
    apart: list[Span] = []
    low = high = -1
    for start, end in spans:
        if start > high:
            apart.append(Span(low, high))
            low, high = start, end
        high = max(high, end)
    return [*apart, Span(low, high)][1:]


class MemoryPiece(NamedTuple):
    """Bytes of the image from an address on: in a buffer, or in an open file from an offset on."""

    address: int
    bytes: int
    data: Optional[memoryview] = None
    file: int = -1
    offset: int = 0


class SymbolPlace(NamedTuple):
    """A symbol's name, and the distance of an address past it; a file's name if no symbol is known there."""

    name: str
    offset: int
    in_file: bool = False

    @property
    def text(self) -> str:
        """ "vtable for Shape+16", else "libc.so.6+0x1d3c60"."""
        if self.in_file:
            return f"{self.name}+{self.offset:#x}"
        return f"{self.name}+{self.offset}" if self.offset else self.name


def text_of(place: Optional[SymbolPlace]) -> Optional[str]:
    return place.text if place is not None else None


class PageUse(NamedTuple):
    """The memory that a range of addresses has, in bytes."""

    resident: int
    """Present pages without the kernel's shared zero page: what RSS counts."""
    swapped: int = 0


def added(uses: Iterable[Optional[PageUse]]) -> Optional[PageUse]:
    """Returns the memory of several ranges; None if that of one is not known."""
    resident = swapped = 0
    for each in uses:
        if each is None:
            return None
        resident += each.resident
        swapped += each.swapped
    return PageUse(resident, swapped)


class Readable(NamedTuple):
    """The readable part of a range of addresses."""

    bytes: int
    """The number of readable bytes."""
    data: Sequence[Span]
    """The parts that may be anything but zeros, in order."""


class MemoryUse(NamedTuple):
    """The memory that a process has, in bytes."""

    rss: int
    anonymous: int


class MappingUse(NamedTuple):
    """The memory that one mapping has, in bytes."""

    region: Region
    rss: Optional[int]
    """None if that cannot be known: a core does not tell which pages of a file were in memory."""
    swapped: Optional[int] = None
    huge: Optional[int] = None
    """AnonHugePages: the part that transparent huge pages back."""
    anonymous: Optional[int] = None
    """Pages that are no file's, or no longer."""


class Residency(Protocol):
    """Tells which pages of the image are in memory."""

    @property
    def exact(self) -> bool:
        """False if the figures are a lower bound (a core whose holes were filled)."""

    def count(self, start: int, end: int) -> Optional[PageUse]:
        """Counts the pages of [start, end) in memory; None if unknown. Partial pages count in full."""

    def resident_ranges(self, start: int, end: int) -> Optional[Sequence[Span]]:
        """Returns the resident parts of [start, end), in order; None if unknown."""


class SavedCore(NamedTuple):
    """The result of writing an image into a file."""

    written: int  # bytes that the file takes
    resident: int  # bytes of memory in it
    lost: int  # bytes in memory that could not be read
    held: float
    """Seconds for which the process was held for it; 0.0 if it was not, or by somebody else."""


class SharedMemory(NamedTuple):
    """The contents of shared memory, whether this process has touched it or not."""

    mappings: Sequence[Span]
    """The mappings whose contents are known, in order."""
    pages: Sequence[Span]
    """All pages of these, in order: the rest are zeros."""
    unknown: Sequence[Span]
    """The other mappings, which may have more than what is resident."""


class Image:
    """A process, a core's file, or a debugger's remote image, as the kernel sees it; None for what is not known."""

    cut: Optional[Statement] = None
    """Why it was not read to the end: the process could not be held long enough."""
    redacted: bool = False
    """Whether zeros replace all data of the program (`save --redact`)."""

    def residency(self) -> Optional[Residency]:
        """Returns which pages are in memory."""
        return None

    def mapping_use(self) -> Optional[Sequence[MappingUse]]:
        """Returns every mapping's share of RSS, in address order."""
        return None

    def memory_use(self) -> Optional[MemoryUse]:
        """Returns the memory of the whole process."""
        return None

    def locked(self) -> Optional[Sequence[Span]]:
        """Returns mappings whose pages madvise does not release: mlocked ones, huge pages of hugetlbfs."""
        return None

    def processors(self) -> Optional[int]:
        """Returns how many processors are online where the process runs."""
        return None

    def watched(self) -> Optional[Sequence[Watched]]:
        """Returns what epoll keeps for the process."""
        return None

    def timers(self) -> Sequence[Timer]:
        """Returns its POSIX timers, as far as they are known."""
        return ()

    def own_pages(self, regions: Sequence[Region]) -> Sequence[Region]:
        """Returns the parts of private mappings of files that are no longer the files', as far as that is known."""
        return ()

    def shared_memory(self) -> Optional[SharedMemory]:
        """Returns what residency does not tell; None if the image has all of it, or lacks it."""
        return None

    def readable(self, start: int, end: int) -> Optional[Readable]:
        """Returns the readable part of [start, end); None if only reading tells."""
        return None

    def shortage(self) -> Sequence[Statement]:
        """Explains why it lacks memory that the process had (a core cut short); empty if it does not."""
        return ()

    def save(
        self, path: str | int, registers: Sequence[RegisterSets], release: Callable[[], float]
    ) -> Optional[SavedCore]:
        """Saves it as a core that keeps what cores lose, under a name or into an open file. Calls `release`, which
        returns how long it was held, once all of it was read. None if it does not lie on this machine."""
        return None


class Target(Protocol):
    """One process image, live or a core."""

    door: str
    """"gdb", "lldb" or "shell"."""
    kind: str
    """"live" or "core"."""
    pid: Optional[int]
    pointer_size: int
    byte_order: ByteOrder
    machine: str
    """The processor by its Linux name: "x86_64", "i386", "aarch64", "arm", "ppc64", "s390x", "riscv64" … or ""."""
    page_size: int

    @property
    def types(self) -> Optional[TypeSource]:
        """The types in debug information; None if it reads none."""

    def forget_types(self) -> None:
        """Lets go of what `types` has read; it may be read again."""

    @property
    def image(self) -> Image:
        """The image behind it, as the kernel sees it."""

    def read(self, address: int, size: int) -> bytes:
        """Reads all of it, or raises MemoryReadError."""

    @property
    def memory_tid(self) -> Optional[int]:
        """The thread by which the kernel reads its memory; None if it is no process of this machine."""

    def fill(self, address: int, block: memoryview) -> int:
        """Reads into `block`, perhaps only up to the end of the mapping, and returns how many bytes. MemoryReadError if
        there are none."""

    def pieces(self, start: int, end: int) -> Optional[Sequence[MemoryPiece]]:
        """Returns where the bytes of [start, end) can be had without `read`; None if there is no other way."""

    def stop_if_asked(self) -> None:
        """Raises KeyboardInterrupt after a Ctrl-C that Python does not learn of."""

    def symbol(self, name: str) -> Optional[Symbol]:
        """Returns the address of a global or static object; None if only a file of another build-id has it."""

    def describe(self, address: int) -> Optional[SymbolPlace]:
        """Returns the name of what lies there; None if no file is mapped there."""

    def struct(self, name: str) -> Optional[StructInfo]:
        """Returns a struct's size and fields, from debug information."""

    def regions(self) -> Sequence[Region]:
        """Returns the mappings in address order; empty if unknown."""

    def threads(self) -> Sequence[ThreadInfo]:
        """Returns the threads, by tid."""

    def register_sets(self) -> Sequence[RegisterSets]:
        """Returns all registers of each thread, as far as they are known."""

    def thread_local(self, name: str, thread: ThreadInfo) -> Optional[int]:
        """Returns the address of a thread-local variable, from symbols; None if they cannot tell."""

    def evaluate(self, expression: str) -> int:
        """Evaluates an address or number as the user typed it, in the debugger's own language; UsageError."""

    def environment(self) -> Optional[Mapping[str, str]]:
        """Returns the environment that the process was started with; None if unknown."""

    def is_secure(self) -> Optional[bool]:
        """Returns whether glibc ignores everything that the environment asks for (AT_SECURE); None if unknown."""

    def symbol_files(self, region: Region, build_id: str) -> Sequence[str]:
        """Returns local files that may have the symbol table of the file behind `region`; the reader compares
        build-ids."""

    def loaded_build_id(self, region: Region) -> Optional[str]:
        """Returns the build-id of the file that the debugger has loaded for the module that begins there: "" if that
        file has none, None if it has loaded none, or there is no debugger."""

    def open_file(self, region: Region) -> Optional[str]:
        """Returns a local path under which the file behind `region` can be read, or None."""


class RegionIndex:
    """Mappings in address order."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self.regions = regions
        self._starts = [each.start for each in regions]

    def place(self, address: int) -> Optional[int]:
        """Returns the index of the mapping."""
        at = bisect_right(self._starts, address) - 1
        return at if at >= 0 and address < self.regions[at].end else None

    def find(self, address: Optional[int]) -> Optional[Region]:
        at = self.place(address) if address is not None else None
        return self.regions[at] if at is not None else None


LAST = (1 << 64) - 1


class Runs:
    """Runs of bytes, in order, without overlap. Arrays: a trimmed heap may have a million holes."""

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        try:
            bounds = array("Q", chain.from_iterable(spans))
        except OverflowError:  # the last one ends where addresses do
            bounds = array("Q", (min(bound, LAST) for span in spans for bound in span))
        self.starts, self.ends = bounds[::2], bounds[1::2]

    def __iter__(self) -> Iterator[Span]:
        return map(Span, self.starts, self.ends)

    @cached_property
    def _sums(self) -> Sequence[int]:
        """The number of bytes in front of each run."""
        return array("Q", accumulate(map(sub, self.ends, self.starts), initial=0))

    def _within(self, low: int, high: int) -> tuple[int, int]:
        return bisect_right(self.ends, low), bisect_left(self.starts, high)

    def bytes_in(self, low: int, high: int) -> int:
        first, end = self._within(low, high)
        if first >= end:
            return 0
        outside = max(low - self.starts[first], 0) + max(self.ends[end - 1] - high, 0)
        return self._sums[end] - self._sums[first] - outside

    def parts_in(self, low: int, high: int) -> Iterator[Span]:
        first, end = self._within(low, high)
        for start, stop in zip(self.starts[first:end], self.ends[first:end]):
            if start < stop:
                yield Span(max(start, low), min(stop, high))

    def spans_in(self, low: int, high: int) -> list[Span]:
        """Returns the spans, with neighbours joined."""
        return joined(self.parts_in(low, high))


def covered(ranges: Iterable[tuple[int, int]], resident: Sequence[Span]) -> int:
    """Returns how many bytes of these ranges, which must be in address order, lie in resident pages."""
    total = index = 0
    low = high = 0
    count = len(resident)
    for start, size in ranges:
        end = start + size
        while high <= start:
            if index == count:
                return total
            low, high = resident[index]
            index += 1
        if low <= start and end <= high:
            # as nearly all of a million are
            total += size
            continue
        at = index - 1
        while at < count and resident[at].start < end:
            total += min(end, resident[at].end) - max(start, resident[at].start)
            at += 1
    return total
