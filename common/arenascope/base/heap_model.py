"""The records that walkers make: frozen values, no I/O, no knowledge of where they came from."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Mapping, NamedTuple, Optional, Sequence, Union, cast


class Statement(NamedTuple):
    """A conclusion about a process, without its text, which is looked up by `id`."""

    id: str
    """Stays the same from release to release: "thresholds-grew", "stopped" …"""
    figures: Mapping[str, Optional[float]] = {}
    """The figures that show it, by name; None if one is not known."""
    names: Mapping[str, str] = {}
    """Other evidence that is no number: addresses, names."""
    text: str = ""
    """Its text, if it was made where it was found."""


def whole(figures: Mapping[str, Optional[float]]) -> Mapping[str, int]:
    """The figures of a statement that has only counts and sizes. Unknown ones are None all the same: sentences check
    that first, or leave it to the formatter of sizes."""
    return cast("Mapping[str, int]", figures)


WHAT = "what"
"""The key among a finding's names that tells how the rule is broken."""


def cannot_read(id: str, address: int, size: int) -> Statement:
    """States that memory could not be read."""
    return Statement(id, {"bytes": size}, {"from": f"{address:#x}"})


OTHER_FILES = "other-files"
"""The id of the problem that local files are not those of the modules in memory."""
NOT_AS_COUNTED = "block-count"
"""The id of the problem that mp_ counts other mmapped blocks than were found."""
REPLACED = "malloc-replaced"
"""The id of the problem that malloc does not lead to glibc's heap, which is all that is shown."""
HOLD_OVER = "hold-over"
"""The id of the problem that the answer holds only what was read before the hold ended."""
LEFT_OUT = "left_out"
"""The name, in that problem or in "stopped", of what was asked for and left out, as it needs a copy."""


class Finding(NamedTuple):
    """Something in memory that is not as glibc leaves it, or that could not be read."""

    what: Statement
    """Which way the rule is broken: several may break one rule."""
    address: Optional[int] = None
    arena: Optional[int] = None
    rule: str = ""
    """The invariant that it breaks, by a short name; "" if it only says what is not known."""
    holder: Optional[int] = None
    """The place of the link that led to `address`: a chunk, or the head of its list."""
    unknown: str = "unreadable"
    """The short name of what is not known, if no rule is broken."""

    @property
    def statement(self) -> Statement:
        """A Statement whose id is the broken rule, or what is not known."""
        what = self.what
        figures = {} if self.arena is None else {"arena": self.arena}
        names = {} if self.address is None else {"address": f"{self.address:#x}"}
        return Statement(self.rule or self.unknown, {**figures, **what.figures}, {WHAT: what.id, **names, **what.names})

    @property
    def key(self) -> tuple[str, Optional[int], Optional[int]]:
        """Distinguishes it from other findings of the same walk."""
        return self.what.id, self.address, self.arena


class Breach(NamedTuple):
    """A violated invariant of malloc's."""

    address: int
    arena: Optional[int]
    rule: str
    """A short name that stays the same from release to release: "prev-inuse", "bin-order" …"""
    what: Statement
    """Which way the rule is broken, with the value there and the value expected."""
    culprit: Optional[int] = None
    """The chunk in front of a damaged header: a write past its end causes such damage."""
    transient: bool = False
    """Whether an interrupted malloc or free may leave this for a moment."""


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
    """The chunk sizes that belong here; max_bytes is None if only memory bounds them."""
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
    """The lists of one kind that could be read, of an arena or a thread cache."""

    bins: tuple[Bin, ...] = ()
    whole: bool = True
    """Whether all lists were read, each to its end."""


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
    """The ends of the free chunks in a run."""

    indexes: list[int]
    """Indexes of the size words there, among the run's; for the last chunk, the number of these."""
    addresses: list[int]
    feet: list[int]
    """prev_size there; 0 if it cannot be read."""

    def add(self, indexes: Sequence[int], addresses: Sequence[int], feet: Sequence[int]) -> None:
        self.indexes.extend(indexes)
        self.addresses.extend(addresses)
        self.feet.extend(feet)

    def cut(self, last: int) -> None:
        """Leaves out what lies behind this size word."""
        left = bisect_right(self.indexes, last)
        for each in self:
            del each[left:]


class ChunkRun(NamedTuple):
    """Adjacent chunks, with their raw size words."""

    heap: Heap
    address: int
    bytes: int
    raws: Sequence[int]
    follow: int
    """The size word after the last chunk: its PREV_INUSE tells whether that chunk is free."""
    counts: Mapping[int, int]
    """The number of chunks with each size word."""
    marks: Sequence[tuple[int, int]]
    """(index among the words, address) of the chunks that were watched for."""
    free: Ends

    def after(self, index: int) -> int:
        """The size word after a chunk: it holds the chunk's own state."""
        return self.raws[index + 1] if index + 1 < len(self.raws) else self.follow


class Gap(NamedTuple):
    """Bytes of a heap that are no block: the allocator's own, or what could not be read as chunks."""

    heap: Heap
    address: int
    bytes: int
    kind: str
    """"header", "fencepost", "foreign" (another user of sbrk), "top" or "damage"."""


Piece = Union[ChunkRun, Gap]


NONCONTIGUOUS = 2
"""NONCONTIGUOUS_BIT of malloc_state.flags: set in every arena of a thread, in main_arena once sbrk failed."""
ARENA_FLAGS = 7
"""All bits that flags ever had: FASTCHUNKS_BIT, and the mark of a damaged arena in 2.22 to 2.26, included."""


class ArenaHeader(NamedTuple):
    """The fields of malloc_state, unchanged."""

    index: int  # type: ignore[assignment]  # tuple.index is of no use here
    address: int
    main: bool
    mutex: int
    flags: int
    top: int
    top_bytes: Optional[int]
    """None if top cannot be read, or has an impossible value."""
    next: int
    attached_threads: Optional[int]
    system_mem: int
    max_system_mem: int
    initialised: bool
    """False while top and the bins are still zero (glibc up to 2.41 before the first malloc)."""

    @property
    def peak(self) -> int:
        """The upper bound for the bytes in any list of the arena, and for any chunk."""
        return max(self.system_mem, self.max_system_mem)

    @property
    def contiguous(self) -> bool:
        return not self.flags & NONCONTIGUOUS

    @property
    def brk_base(self) -> Optional[int]:
        """The start of a contiguous main arena, computed from its top; None if unknown."""
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
    """False if a list of this kind is incomplete, or none could be read."""

    @property
    def fast(self) -> Optional[Tally]:
        return _sum_of(self.fastbins) if self.fast_read else None

    @property
    def binned(self) -> Optional[Tally]:
        return _sum_of(self.bins) if self.bins_read else None

    @property
    def free_bytes(self) -> Optional[int]:
        """Free bytes in lists and in top; None if not all of it was read."""
        fast, binned, top = self.fast, self.binned, self.header.top_bytes
        return None if fast is None or binned is None or top is None else fast.bytes + binned.bytes + top


def _sum_of(lists: Sequence[Bin]) -> Tally:
    return Tally(sum(b.chunks for b in lists), sum(b.bytes for b in lists))


class ThreadCache(NamedTuple):
    """A thread, the arena it allocates from and the chunks it keeps."""

    tid: int
    name: Optional[str]
    arena: Optional[int]
    """The arena's index; None if the thread has none, or it is not known."""
    address: Optional[int]
    """tcache_perthread_struct, None if there is none."""
    bins: tuple[Bin, ...] = ()
    known: bool = True
    """False if neither symbols nor a scan found what this thread has."""

    @property
    def tally(self) -> Tally:
        return Tally(sum(b.chunks for b in self.bins), sum(b.bytes for b in self.bins))


class MmappedBlock(NamedTuple):
    """A block that malloc got from mmap: the whole mapping."""

    chunk: int
    base: int
    bytes: int


class Params(NamedTuple):
    """The fields of mp_, unchanged; a field that this glibc lacks is not in `values`."""

    address: int
    values: Mapping[str, int]

    def get(self, name: str) -> Optional[int]:
        return self.values.get(name)


class Allocator(NamedTuple):
    """Another allocator than glibc's malloc in this process."""

    name: str
    """"jemalloc", "Go" …, or the file that exports a malloc of its own."""
    how: str
    """The evidence for it: its library, or a symbol in the program."""
    replaces_malloc: Optional[bool]
    """Whether malloc leads to it. False: it has a heap of its own beside malloc. None: not known."""
    instead: str
    """The tool that reports on its memory."""
    places: tuple[int, ...] = ()
    """Addresses in its memory that its own variables tell."""
    shadowed_by: Optional[str] = None
    """The file that the linker finds first: malloc leads there, and nothing to this one."""


SHELL_CALLS_INTO = ("x86_64", "aarch64")
"""Machines where the shell can call functions in a process (shell_calls.PROCESSORS); elsewhere only debuggers can."""


class Means(NamedTuple):
    """The means of calling a function in a process (trim --apply)."""

    shell: bool = True
    """Whether the shell can; otherwise debuggers can."""
    lacks: str = ""
    """The reason why no door can."""


class Applied(NamedTuple):
    """The calls that were made and what they returned, in bytes of Anonymous and Rss from smaps_rollup."""

    rss_before: int
    rss_after: int
    predicted_bytes: Optional[int]
    released_bytes: int
    seconds: float
    calls: Sequence[Statement]
    """What each call released."""


HUGE_PAGES = "/anon_hugepage"
"""The name of an anonymous mapping of hugetlbfs pages: a file of its own, which nobody can open."""
SHARED_MEMORY = ("/dev/shm/", "/memfd:", "/dev/zero", "/SYSV", "[anon_shmem")
"""Prefixes of shared memory: POSIX, memfd, anonymous, System V."""
_SEMAPHORES = "/dev/shm/sem."
"""Prefixes of sem_open's files, which lie there, too, and hold only a count."""


def may_be_shared(path: str) -> bool:
    """Tells whether a shared mapping may hold program data, rather than what only the kernel or semaphores use."""
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
"""How kinds are recognised, the strongest evidence first: a weaker one never replaces a certain stronger one."""
ROOT_KINDS = ("global", "tls", "stack", "register", "kernel", "runtime", "mapping")
"""The kinds of roots, in the order in which pointers to a block are listed. Which of them is its main holder RANKS in
blocks/graph/leads.py says."""
CONTAINER_FORMS = ("container", "hash-table", "array", "list", "tree", "chained-hash-table")
"""The forms of containers with declared types: the first two are libraries', the others are known by their form."""
WASTE_REASONS = (
    "unused-room",
    "emptied",
    "destroyed-kept",
    "duplicates",
    "captured",
    "tiny-containers",
    "node-overhead",
    "rounding",
    "unlisted",
    "unbounded",
    "cycle",
)
"""Why live memory is not needed, as engine/src/types/tracer/waste.rs numbers it; the last two of Python."""
LOST_REASONS = ("lost", "cycle")
"""Why nothing leads to a live block: what led there is gone, or blocks that count their owners own each other."""
FINDING_REASONS = (*WASTE_REASONS, "lost", "pinned-free")
"""Why a program has memory that it need not have, as reports tell it."""
MEMBER_FORMS = ("integer", "boolean", "enum", "character", "float", "text", "pointer", "elements")
"""The forms of members whose values are shown; for a container, that is its number of elements."""
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
    "free-slot",
    "destroyed",
)
"""Reasons why a word that leads to a block is no pointer that holds it: see blocks/graph/stale_words.py."""


class Owner(NamedTuple):
    """A root, as people name it."""

    kind: str
    name: Optional[str]
    """Of a stack: a local variable, "main(): book"; None: the rest of it."""
    tid: Optional[int] = None
    stale: Optional[str] = None
    """What it holds by stale words is a holding of its own. Why they are stale: one of STALE."""

    @property
    def is_local(self) -> bool:
        """A variable of a function that is on a stack."""
        return self.kind == "stack" and self.name is not None


BY_SIZE = "its size"
"""The evidence for a block of which only the size is known."""
POINTED = "what points to it"
"""The evidence for a block that is named after its holder alone: all blocks of that name are one row."""


class Kind(NamedTuple):
    """The kind of a block."""

    name: str
    """"Session", "std::map node", "text", "48 bytes"."""
    kind: str
    """One of KINDS."""
    module: Optional[str] = None
    """The file that the type comes from."""
    certain: bool = True
    """False for a guess."""
    how: str = ""
    """The evidence, for people."""
    owner: Optional[str] = None
    """The owner, if another block or a variable told: "Session+40"."""


HOLD = 20.0
"""The default limit in seconds: a health check that asks three times, 10 s apart, gets its third answer. The free lists
of a heap of 50 GB take a quarter of it."""
HOLD_AT_MOST = 120.0
"""The longest limit that can be asked for, and the limit of a call (trim --apply), which cannot be cut short."""


def allows_more(than: float) -> str:
    """Returns the option to type where `than` seconds were too few."""
    if than >= HOLD_AT_MOST:
        return f"{HOLD_AT_MOST:g} s are the most"
    return f"--hold-at-most {min(HOLD_AT_MOST, math.ceil(2 * than)):g}s allows more"


def hold_over(at_most: float, names: Optional[Mapping[str, str]] = None) -> Statement:
    """States that the answer holds only what was read in `at_most` seconds."""
    limit = round(at_most * 1000, 3)
    return Statement(HOLD_OVER, {"milliseconds": int(limit) if limit % 1 == 0 else limit}, names or {})
