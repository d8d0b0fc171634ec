"""What a door must supply. Integers, bytes and small records pass through it, no objects of a debugger.

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
    Union,
)

from ..base.model import HUGE_PAGES, Statement, may_be_shared

if TYPE_CHECKING:
    from .debug_info_types import TypeSource

Words = tuple[int, int, int]
"""(size word, fd, bk) of a free chunk: no record, as there may be millions."""


class Nodes(Protocol):
    """The free chunks of a process that were found while it ran on, and are read again in bulk while it is held."""

    passed: set[int]
    """Where links led to that was no free chunk of the heaps then, and may be one later."""

    def __len__(self) -> int: ...
    def __contains__(self, chunk: int) -> bool: ...

    def node(self, chunk: int) -> Words:
        """Its words; MemoryReadError."""

    def add(self, chunk: int) -> Optional[Words]:
        """Reads one more, and keeps it; None where it cannot be read."""

    def add_many(self, chunks: Sequence[int]) -> Sequence[Optional[Words]]:
        """Reads some more, and keeps them; None for what cannot be read."""

    def add_rings(self, rings: Mapping[int, Followed], flags: int) -> None:
        """Keeps the chunks of these rings, by their bins, before any other; `flags` are in each size word."""

    def ring(self, head: int) -> Optional[Followed]:
        """The ring of that bin, where every word of it is as it was when it was added; None otherwise."""

    @property
    def read_nodes(self) -> ReadNodes: ...

    @property
    def read_pair(self) -> ReadPair: ...

    def read_many(self, chunks: Sequence[int]) -> Sequence[Optional[Words]]:
        """Some more; None for what cannot be read."""

    def read_again(self) -> Iterator[int]:
        """All of them; those that have changed. From now on they are answered from what was read."""

    def cut_short(self) -> None:
        """HoldOver came before all were read: of any other that is asked for, Unread."""


class Followed(NamedTuple):
    """What a bin's ring holds, in its order."""

    addresses: array[int]
    sizes: array[int]


class NodeWords(NamedTuple):
    """Words of many free chunks, in their order; 0 for what could not be read."""

    raws: Sequence[int]
    """Size words."""
    forward: Sequence[int]
    backward: Sequence[int]


ReadNodes = Callable[["array[int]"], NodeWords]
"""At each of these places the three words of a free chunk, in few system calls."""
ReadPair = Callable[[int, int], Sequence[int]]
"""At these two places the three words of a free chunk, of one after the other; 0 for what could not be read."""


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
    """The mapped file, a kernel name such as "[heap]", or "" where it is anonymous or not known."""
    offset: int = 0
    """The file offset of `start`, where `path` is a file."""
    shared: bool = False
    present: bool = True
    """False where the image does not hold the bytes (a core that leaves a mapping out)."""

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def is_file(self) -> bool:
        return self.path.startswith("/") and self.path != HUGE_PAGES

    @property
    def is_shared_memory(self) -> bool:
        """Others may have written there what this process never touched."""
        return self.shared and may_be_shared(self.path)

    @property
    def finds_malloc(self) -> bool:
        """Of a file whose own bytes say where malloc is, or that it is not glibc's: libc, the loader."""
        files = ("libc.so", "libc-2.", "ld-linux", "ld-2.", "ld.so", "ld64.so", "ld-musl")
        return self.is_file and self.path.rpartition("/")[2].startswith(files)

    def contains(self, address: int) -> bool:
        return self.start <= address < self.end


class Symbol(NamedTuple):
    """An address, and the build-id of the file whose symbol table gave it (None: not known)."""

    address: int
    build_id: Optional[str] = None


class FieldPlace(NamedTuple):
    """A field of a struct."""

    offset: int
    size: int


class StructInfo(NamedTuple):
    """A struct as debug information has it."""

    name: str
    size: int
    fields: Mapping[str, FieldPlace]


class ThreadInfo(NamedTuple):
    """A thread, at the moment of the command."""

    tid: int
    name: Optional[str] = None
    stack_pointer: Optional[int] = None
    thread_pointer: Optional[int] = None
    """The TLS base (x86: fs_base or gs_base, arm: tpidr, …); None where the door cannot know it."""
    program_counter: Optional[int] = None
    runs: bool = False
    """It runs on while the process is read: the debugger does not hold it."""
    link_register: Optional[int] = None  # where its innermost function returns to; x86 has none
    lone: bool = False  # it has no TLS: of the kernel's own (io_uring's), or made by clone(2) without CLONE_SETTLS


class RegisterSet(NamedTuple):
    """Some of a thread's registers, as a note of a core has them."""

    owner: str  # "CORE" or "LINUX"
    type: int
    data: bytes


class RegisterSets(NamedTuple):
    """All registers of a thread, as far as they are known."""

    tid: int
    general: bytes
    """As in NT_PRSTATUS; empty where they are not known."""
    others: Sequence[RegisterSet] = ()  # floating point, vectors, TLS


class Span(NamedTuple):
    """What lies between two addresses."""

    start: int
    end: int

    @property
    def bytes(self) -> int:
        return self.end - self.start


def joined(spans: Iterable[tuple[int, int]]) -> list[Span]:
    """Those that touch or overlap as one; none begins lower than the one before it."""
    apart: list[Span] = []
    low = high = -1
    for start, end in spans:
        if start > high:
            apart.append(Span(low, high))
            low, high = start, end
        high = max(high, end)
    return [*apart, Span(low, high)][1:]


class View(NamedTuple):
    """Bytes of the image where they lie, without a copy."""

    data: memoryview
    base: int
    """The address of the first."""
    limit: int
    """The address after the last."""
    file: int = -1
    """To be read from rather, where much is looked at: every page that is would count as this process's memory."""
    offset: int = 0
    """The first byte's place in that file."""
    forget: Optional[Callable[[], None]] = None
    """Pages that were looked at no longer count as such."""


class SymbolPlace(NamedTuple):
    """A symbol's name, and how far past it an address lies; a file's, where no symbol is known there."""

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
    """What a range of addresses has in memory, in bytes."""

    resident: int
    """Present, without the kernel's shared zero page: what RSS counts."""
    swapped: int = 0


class Readable(NamedTuple):
    """What an image has of a range of addresses."""

    bytes: int
    """How many can be read."""
    data: Sequence[Span]
    """Where these may be anything but zeros, in order."""


class MemoryUse(NamedTuple):
    """What a process has in memory, in bytes."""

    rss: int
    anonymous: int


class MappingUse(NamedTuple):
    """What one mapping has in memory, in bytes."""

    region: Region
    rss: Optional[int]
    """None where that cannot be known: a core does not tell which pages of a file were in memory."""
    swapped: Optional[int] = None
    huge: Optional[int] = None
    """AnonHugePages: the part that transparent huge pages back."""
    anonymous: Optional[int] = None
    """What is no file's, or no longer."""


class Residency(Protocol):
    """Which pages of the image are in memory."""

    @property
    def exact(self) -> bool:
        """False where the figures are a lower bound (a core whose holes were filled)."""

    def count(self, start: int, end: int) -> Optional[PageUse]:
        """What [start, end) has in memory; None where that cannot be known. Partial pages count in full."""

    def resident_ranges(self, start: int, end: int) -> Optional[Sequence[Span]]:
        """The resident parts of [start, end), in order; None where that cannot be known."""


class SavedCore(NamedTuple):
    """What came of writing an image into a file."""

    written: int  # bytes that the file takes
    resident: int  # bytes of memory in it
    lost: int  # what could not be read of what was in memory
    held: float
    """Seconds for which the process was held for it; 0.0 where it was not, or by somebody else."""


class SharedMemory(NamedTuple):
    """What there is in it, whether this process has touched it or not."""

    mappings: Sequence[Span]
    """Those of which that is known, in order."""
    pages: Sequence[Span]
    """All that these have, in order: the rest are zeros."""
    unknown: Sequence[Span]
    """The other mappings, where something may be besides what is resident."""


class Image:
    """A process, a core's file, or what only a debugger reaches, as the kernel sees it; None where nobody can tell."""

    cut: Optional[Statement] = None
    """Why it was not read to the end: a process that could not be held for long enough."""
    redacted: bool = False
    """Whether zeros stand in place of all that is the program's (`save --redact`)."""

    def residency(self) -> Optional[Residency]:
        """Which pages are in memory."""
        return None

    def mapping_use(self) -> Optional[Sequence[MappingUse]]:
        """Every mapping's share of RSS, in address order."""
        return None

    def memory_use(self) -> Optional[MemoryUse]:
        """The whole process's."""
        return None

    def locked(self) -> Optional[Sequence[Span]]:
        """Mappings whose pages madvise does not release: mlocked ones, huge pages of hugetlbfs."""
        return None

    def processors(self) -> Optional[int]:
        """How many are online where the process runs."""
        return None

    def watched(self) -> Optional[Sequence[Watched]]:
        """What epoll keeps for the process."""
        return None

    def timers(self) -> Sequence[Timer]:
        """Its POSIX timers, as far as they are to be had."""
        return ()

    def own_pages(self, regions: Sequence[Region]) -> Sequence[Region]:
        """The parts of private mappings of files that are no longer the files', as far as that can be known."""
        return ()

    def shared_memory(self) -> Optional[SharedMemory]:
        """What residency does not tell; None where the image has all that there is of it, or lacks it."""
        return None

    def readable(self, start: int, end: int) -> Optional[Readable]:
        """What of [start, end) can be read; None where only reading tells."""
        return None

    def shortage(self) -> Sequence[Statement]:
        """Why it lacks memory that the process had (a core cut short), with words; empty where it does not."""
        return ()

    def save(
        self, path: Union[str, int], registers: Sequence[RegisterSets], release: Callable[[], float]
    ) -> Optional[SavedCore]:
        """Writes it as a core that keeps what cores lose, by a name or into an open file. Calls `release`, which tells
        for how long it was held, once all of it was read. None where it does not lie on this machine."""
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
        """None where it reads no debug information."""

    @property
    def image(self) -> Image:
        """What is looked at, as the kernel sees it."""

    def read(self, address: int, size: int) -> bytes:
        """All of it, or MemoryReadError."""

    @property
    def nodes(self) -> Optional[Nodes]:
        """Its free chunks, where they are read in bulk."""

    @property
    def read_nodes(self) -> Optional[ReadNodes]:
        """None where one at a time is as cheap, or all there is."""

    def fill(self, address: int, block: memoryview) -> int:
        """Reads into `block`, perhaps only as far as this mapping goes: how many bytes. MemoryReadError where none."""

    @property
    def threaded_fill(self) -> Optional[Callable[[int, memoryview], int]]:
        """`fill` for a thread beside the command's; None where only the debugger itself can read."""

    def window(self, address: int) -> Optional[View]:
        """What the image holds around `address`; None where it is not mapped here, as a live process is not."""

    def symbol(self, name: str) -> Optional[Symbol]:
        """The address of a global or static object; None where only a file of another build-id has it."""

    def describe(self, address: int) -> Optional[SymbolPlace]:
        """What lies there, by name; None where no file is mapped there."""

    def struct(self, name: str) -> Optional[StructInfo]:
        """A struct's size and fields, from debug information."""

    def regions(self) -> Sequence[Region]:
        """The mappings in address order; empty where nothing can tell."""

    def threads(self) -> Sequence[ThreadInfo]:
        """The threads, by tid."""

    def register_sets(self) -> Sequence[RegisterSets]:
        """All registers of each thread, as far as they are to be had."""

    def thread_local(self, name: str, thread: ThreadInfo) -> Optional[int]:
        """The address of a thread-local variable, from symbols; None where they cannot say."""

    def evaluate(self, expression: str) -> int:
        """An address or number as the user typed it, in the debugger's own language; UsageError."""

    def environment(self) -> Optional[Mapping[str, str]]:
        """The environment that the process was started with; None where nothing can tell."""

    def is_secure(self) -> Optional[bool]:
        """Whether glibc heeds nothing that the environment asks for (AT_SECURE); None where nothing can tell."""

    def symbol_files(self, region: Region, build_id: str) -> Sequence[str]:
        """Local files that may have the table of symbols of the file behind `region`; the reader compares build-ids."""

    def loaded_build_id(self, region: Region) -> Optional[str]:
        """The build-id of the file that the debugger has loaded for the module that begins there: "" where that file
        has none, None where it has loaded none, or there is no debugger."""

    def open_file(self, region: Region) -> Optional[str]:
        """A local path under which the file behind `region` can be read, or None."""


class RegionIndex:
    """Mappings in address order."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self.regions = regions
        self._starts = [each.start for each in regions]

    def place(self, address: int) -> Optional[int]:
        """Which of them it is, counted from 0."""
        at = bisect_right(self._starts, address) - 1
        return at if at >= 0 and address < self.regions[at].end else None

    def find(self, address: Optional[int]) -> Optional[Region]:
        at = self.place(address) if address is not None else None
        return self.regions[at] if at is not None else None


class Runs:
    """Runs of bytes, in order, none over another. Arrays: a trimmed heap may have a million holes."""

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        bounds = array("Q", chain.from_iterable(spans))
        self.starts, self.ends = bounds[::2], bounds[1::2]

    def __iter__(self) -> Iterator[Span]:
        return map(Span, self.starts, self.ends)

    @cached_property
    def _sums(self) -> Sequence[int]:
        """The bytes in front of each."""
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
        """Neighbours as one."""
        return joined(self.parts_in(low, high))
