"""What the walkers found: frozen values, no I/O, no knowledge of where they came from."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Sequence, Union, cast


class Statement(NamedTuple):
    """A conclusion about a process, apart from its words, which are looked up by `id`."""

    id: str
    """Stays the same from release to release: "thresholds-grew", "stopped" …"""
    figures: Mapping[str, Optional[float]] = {}
    """What shows it, by name; None where one of them is not known."""
    names: Mapping[str, str] = {}
    """What else shows it and is no number: addresses, names."""
    text: str = ""
    """Its words, where whoever met it has put it into words already."""


def whole(figures: Mapping[str, Optional[float]]) -> Mapping[str, int]:
    """Those of a statement that has counts and sizes alone. One that is not known is None all the same: sentences ask
    for it first, or leave it to what writes sizes."""
    return cast("Mapping[str, int]", figures)


WHAT = "what"
"""Among a finding's names: which of those that break its rule."""


def cannot_read(id: str, address: int, size: int) -> Statement:
    """Of a MemoryReadError."""
    return Statement(id, {"bytes": size}, {"from": f"{address:#x}"})


OTHER_FILES = "other-files"
"""The id by which an answer says that files which are here are not those of the modules in memory."""
NOT_AS_COUNTED = "block-count"
"""The id by which an answer says that mp_ counts other blocks served by mmap than were found."""
REPLACED = "malloc-replaced"
"""The id by which an answer says that malloc does not lead to glibc's heap, of which alone it tells."""
HOLD_OVER = "hold-over"
"""The id by which an answer says that it holds only what was read in the time for which the process may be held."""
LEFT_OUT = "left_out"
"""Among the names of that, or of "stopped": what was asked for, and is not in the answer, as it takes a copy."""


class Finding(NamedTuple):
    """Something in memory that is not as glibc leaves it, or that could not be read."""

    what: Statement
    """What exactly: several may break one rule."""
    address: Optional[int] = None
    arena: Optional[int] = None
    rule: str = ""
    """The invariant that it breaks, by a short name; "" where it only says what is not known."""
    holder: Optional[int] = None
    """Where the link lies that led to `address`: a chunk, or the head of its list."""
    unknown: str = "unreadable"
    """Where no rule is broken: what is not known, by a short name."""

    @property
    def statement(self) -> Statement:
        """By the rule that it breaks, or what is not known."""
        what = self.what
        figures = {} if self.arena is None else {"arena": self.arena}
        names = {} if self.address is None else {"address": f"{self.address:#x}"}
        return Statement(self.rule or self.unknown, {**figures, **what.figures}, {WHAT: what.id, **names, **what.names})

    @property
    def key(self) -> tuple[str, Optional[int], Optional[int]]:
        """Distinguishes it from others of the same walk."""
        return self.what.id, self.address, self.arena


class Breach(NamedTuple):
    """A violated invariant of malloc's."""

    address: int
    arena: Optional[int]
    rule: str
    """A short name that stays the same from release to release: "prev-inuse", "bin-order" …"""
    what: Statement
    """Which of those that break the rule, with what stands there and what should."""
    culprit: Optional[int] = None
    """The chunk in front of a damaged header: a write past its end does such damage."""
    transient: bool = False
    """What an interrupted malloc or free may leave for a moment."""


class Range(NamedTuple):
    """A number of bytes from an address on."""

    address: int
    bytes: int

    @property
    def end(self) -> int:
        return self.address + self.bytes


class Tally(NamedTuple):
    """A number of chunks and their bytes."""

    chunks: int = 0
    bytes: int = 0

    def plus(self, other: Tally) -> Tally:
        return Tally(self.chunks + other.chunks, self.bytes + other.bytes)


class Bin(NamedTuple):
    """One non-empty list of free chunks, in list order."""

    kind: str
    """"fast", "unsorted", "small", "large" or "tcache"."""
    index: int  # type: ignore[assignment]  # tuple.index is of no use here
    min_bytes: int
    max_bytes: Optional[int]
    """The chunk sizes that belong here; max_bytes is None where only memory bounds them."""
    addresses: Sequence[int]
    sizes: Sequence[int]
    """Chunk (not user) addresses and masked sizes: two arrays, as a list of a million chunks must stay small."""
    raw_flags: int = 0
    """The sum of the flag bits in the size words: malloc_info sums words with their flags."""
    whole: bool = True
    """False where the list could not be followed to its end: then this is its beginning."""

    @property
    def chunks(self) -> int:
        return len(self.addresses)

    @property
    def bytes(self) -> int:
        return sum(self.sizes)


class Lists(NamedTuple):
    """What was read of an arena's or a thread cache's lists of one kind."""

    bins: tuple[Bin, ...] = ()
    whole: bool = True
    """Whether they are all that there is, each to its end."""


class Heap(NamedTuple):
    """A sub-heap of a thread arena (heap_info), or a region of the main arena."""

    arena: int
    address: int
    end: int
    mprotect_bytes: Optional[int]
    last: bool

    @property
    def bytes(self) -> int:
        return self.end - self.address


class Ends(NamedTuple):
    """Where the free chunks of a run end."""

    indexes: list[int]
    """Of the size words there, among the run's; the number of these where it is the one after the last."""
    addresses: list[int]
    feet: list[Optional[int]]
    """prev_size there; None where it cannot be read."""

    def add(self, indexes: Sequence[int], addresses: Sequence[int], feet: Sequence[Optional[int]]) -> None:
        self.indexes.extend(indexes)
        self.addresses.extend(addresses)
        self.feet.extend(feet)


class ChunkRun(NamedTuple):
    """Chunks that lie back to back, as their size words stand."""

    heap: Heap
    address: int
    bytes: int
    raws: Sequence[int]
    follow: int
    """The size word after the last: its PREV_INUSE tells whether that one is free."""
    counts: Mapping[int, int]
    """How many there are of each size word."""
    marks: Sequence[tuple[int, int]]
    """(index among the words, address) of the chunks that were watched for."""
    free: Optional[Ends] = None
    """None where nobody asked."""

    def after(self, index: int) -> int:
        """The size word after a chunk: it holds the chunk's own state."""
        return self.raws[index + 1] if index + 1 < len(self.raws) else self.follow


class Gap(NamedTuple):
    """Bytes of a heap that are no block: what the allocator keeps for itself, or what could not be read as chunks."""

    heap: Heap
    address: int
    bytes: int
    kind: str
    """"header", "fencepost", "foreign" (somebody else's sbrk), "top" or "damage"."""


Piece = Union[ChunkRun, Gap]


NONCONTIGUOUS = 2
"""NONCONTIGUOUS_BIT of malloc_state.flags: set in every arena of a thread, in main_arena once sbrk failed."""
ARENA_FLAGS = 7
"""All bits that flags ever had: with FASTCHUNKS_BIT, and what 2.22 to 2.26 marked a damaged arena with."""


class ArenaHeader(NamedTuple):
    """malloc_state, as it stands."""

    index: int  # type: ignore[assignment]  # tuple.index is of no use here
    address: int
    main: bool
    mutex: int
    flags: int
    top: int
    top_bytes: Optional[int]
    """None where top cannot be read, or cannot be what it should be."""
    next: int
    attached_threads: Optional[int]
    system_mem: int
    max_system_mem: int
    initialised: bool
    """False while top and the bins are still zero (glibc up to 2.41 before the first malloc)."""

    @property
    def peak(self) -> int:
        """No list of the arena holds more bytes, and no chunk is larger."""
        return max(self.system_mem, self.max_system_mem)

    @property
    def contiguous(self) -> bool:
        return not self.flags & NONCONTIGUOUS

    @property
    def brk_base(self) -> Optional[int]:
        """Where a contiguous main arena begins, by its top; None where that cannot be told."""
        return self.top + self.top_bytes - self.system_mem if self.contiguous and self.top_bytes else None


class Arena(NamedTuple):
    """An arena with its lists and heaps."""

    header: ArenaHeader
    bins: tuple[Bin, ...]
    fastbins: tuple[Bin, ...]
    heaps: tuple[Heap, ...]
    complete: bool = True
    fast_read: bool = True
    bins_read: bool = True
    """False where a list of this kind is not whole, or none could be read."""

    @property
    def fast(self) -> Optional[Tally]:
        return _sum_of(self.fastbins) if self.fast_read else None

    @property
    def binned(self) -> Optional[Tally]:
        return _sum_of(self.bins) if self.bins_read else None

    @property
    def free_bytes(self) -> Optional[int]:
        """In lists and in top; None where not all of it was read."""
        fast, binned, top = self.fast, self.binned, self.header.top_bytes
        return None if fast is None or binned is None or top is None else fast.bytes + binned.bytes + top


def _sum_of(lists: Sequence[Bin]) -> Tally:
    return Tally(sum(b.chunks for b in lists), sum(b.bytes for b in lists))


class ThreadCache(NamedTuple):
    """A thread, the arena it allocates from and the chunks it keeps."""

    tid: int
    name: Optional[str]
    arena: Optional[int]
    """The arena's index; None while the thread has none, or where it is not known."""
    address: Optional[int]
    """tcache_perthread_struct, None where there is none."""
    bins: tuple[Bin, ...] = ()
    known: bool = True
    """False where neither symbols nor a scan could tell what this thread has."""

    @property
    def tally(self) -> Tally:
        return Tally(sum(b.chunks for b in self.bins), sum(b.bytes for b in self.bins))


class MmappedBlock(NamedTuple):
    """A block that malloc got by mmap: the whole mapping."""

    chunk: int
    base: int
    bytes: int


class Params(NamedTuple):
    """mp_ as it stands; a field that this glibc lacks is not in `values`."""

    address: int
    values: Mapping[str, int]

    def get(self, name: str) -> Optional[int]:
        return self.values.get(name)


class Allocator(NamedTuple):
    """Something beside glibc's malloc that hands out memory in this process."""

    name: str
    """"jemalloc", "Go" …, or the file that exports a malloc of its own."""
    how: str
    """What it was recognised by: its library, or a symbol in the program."""
    replaces_malloc: Optional[bool]
    """Whether malloc leads to it. False: it has a heap of its own beside malloc. None where that is not known."""
    instead: str
    """What reports on its memory."""
    places: tuple[int, ...] = ()
    """Addresses in its memory, as far as its own variables tell."""
    shadowed_by: Optional[str] = None
    """The file that the linker asks first: malloc leads there, and nothing to this one."""


SHELL_CALLS_INTO = ("x86_64", "aarch64")
"""Machines on which the shell makes a process call something (shell_control.PROCESSORS); elsewhere debuggers can."""


class Means(NamedTuple):
    """What can make a process call something (trim --apply)."""

    shell: bool = True
    """The shell can; where it cannot, debuggers can."""
    lacks: str = ""
    """Why no door can."""


class Applied(NamedTuple):
    """What was done and what it returned, in bytes of Anonymous and Rss from smaps_rollup."""

    rss_before: int
    rss_after: int
    predicted_bytes: Optional[int]
    released_bytes: int
    seconds: float
    calls: Sequence[Statement]
    """What each of them released."""


HUGE_PAGES = "/anon_hugepage"
"""An anonymous mapping of hugetlbfs pages: a file of its own, that nobody can open."""
SHARED_MEMORY = ("/dev/shm/", "/memfd:", "/dev/zero", "/SYSV", "[anon_shmem")
"""POSIX shared memory, memfd's, anonymous, System V's."""
_SEMAPHORES = "/dev/shm/sem."
"""sem_open's: they lie there, too, and have room for a count alone."""


def may_be_shared(path: str) -> bool:
    """Whether it has what programs keep for themselves, or for each other."""
    named = path.startswith(SHARED_MEMORY) and not path.startswith(_SEMAPHORES)
    return named or path == HUGE_PAGES


KINDS = (
    "declared",
    "c++",
    "control",
    "python",
    "gobject",
    "string",
    "vector",
    "node",
    "holder",
    "text",
    "zeros",
    "pointers",
    "size",
)
"""What a kind can be of, the stronger first: nothing is named by a weaker one where a stronger one is certain."""
ROOT_KINDS = ("global", "tls", "stack", "register", "kernel", "runtime", "mapping")
"""What a root can be of: the first that leads to a block names its owner."""
CONTAINER_FORMS = ("container", "hash-table", "array", "list", "tree", "chained-hash-table")
"""What containers are, by declared types: the first two are libraries', of the others their form tells."""
MEMBER_FORMS = ("integer", "boolean", "enum", "character", "float", "text", "pointer", "elements")
"""What of a member's values is told; of a container how many elements it has."""
STALE = (
    "stdio-buffer",
    "text",
    "beyond-end",
    "loader-table",
    "popped-stack",
    "vector-register",
    "family-link",
    "not-a-pointer",
    "low-number",
)
"""Why a word that leads to a block is no pointer that holds it: see blocks/graph/stale_words.py."""

BY_SIZE = "its size"
"""How a block is known of which nothing else is."""
POINTED = "what points to it"
"""How a block is known that is named after its holder alone: one row for all that have the name."""


class Kind(NamedTuple):
    """What some blocks are."""

    name: str
    """"Session", "std::map node", "text", "48 bytes"."""
    kind: str
    """One of KINDS."""
    module: Optional[str] = None
    """The file that it is of."""
    certain: bool = True
    """False for a guess."""
    how: str = ""
    """By what it was known, for people."""
    owner: Optional[str] = None
    """Whose it is, where another block or a variable told: "Session+40"."""
