"""THE table: what changed in glibc malloc, and in which release. The only file that knows version numbers.

Memory outranks this table: distributions ship backports, so process_layout.py uses a row only if it fits memory. A new
release needs a row here only if something changed; without one the newest row is tried and checked. Each row names
glibc's commit that made the change: `git show` in glibc's repository has the details.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Union

Release = tuple[int, int]

OLDEST: Release = (2, 17)
NEWEST: Release = (2, 44)
"""The newest release whose structures were checked field by field."""

NEVER: Release = (999, 0)


class ReleaseField(NamedTuple):
    """A member of a struct, and the releases [since, until) that have it."""

    name: str
    kind: str = "word"
    """"word" (size_t or pointer), "int" (4 bytes) or "char" (bytes)."""
    length: int = 1
    since: Release = OLDEST
    until: Release = NEVER

    def present(self, release: Release) -> bool:
        return self.since <= release < self.until


FASTBINS = -1
"""A length that depends on the machine: layout.fastbin_count()."""

MALLOC_STATE = (
    ReleaseField("mutex", "int"),
    ReleaseField("flags", "int"),
    ReleaseField("have_fastchunks", "int", since=(2, 27), until=(2, 43)),  # e956075a5a, bb5a4f5295
    ReleaseField("fastbinsY", length=FASTBINS, until=(2, 43)),  # bb5a4f5295
    ReleaseField("top"),
    ReleaseField("last_remainder"),
    ReleaseField("bins", length=254),
    ReleaseField("binmap", "int", 4),
    ReleaseField("next"),
    ReleaseField("next_free"),
    ReleaseField("attached_threads", since=(2, 23)),  # a62719ba90
    ReleaseField("system_mem"),
    ReleaseField("max_system_mem"),
)

HEAP_INFO = (
    ReleaseField("ar_ptr"),
    ReleaseField("prev"),
    ReleaseField("size"),
    ReleaseField("mprotect_size"),
    ReleaseField("pagesize", since=(2, 35)),  # c1beb51d08
)

MALLOC_PAR = (
    ReleaseField("trim_threshold"),
    ReleaseField("top_pad"),
    ReleaseField("mmap_threshold"),
    ReleaseField("arena_test"),
    ReleaseField("arena_max"),
    ReleaseField("thp_mode", "int", since=(2, 43)),  # 9097cbf5d8
    ReleaseField("thp_pagesize", since=(2, 35)),  # 5f6d8d97c6
    ReleaseField("hp_pagesize", since=(2, 35)),  # 98d5fcb8d0
    ReleaseField("hp_flags", "int", since=(2, 35)),  # 98d5fcb8d0
    ReleaseField("n_mmaps", "int"),
    ReleaseField("n_mmaps_max", "int"),
    ReleaseField("max_n_mmaps", "int"),
    ReleaseField("no_dyn_threshold", "int"),
    ReleaseField("mmapped_mem"),
    ReleaseField("max_mmapped_mem"),
    ReleaseField("max_total_mem", until=(2, 24)),  # ca135f824b
    ReleaseField("sbrk_base"),
    ReleaseField("tcache_bins", since=(2, 26)),  # d5c3fafc43, this and what follows
    ReleaseField("tcache_max_bytes", since=(2, 26)),
    ReleaseField("tcache_count", since=(2, 26)),
    ReleaseField("tcache_unsorted_limit", since=(2, 26), until=(2, 44)),  # ea4c36c36b
)

TCACHE_PERTHREAD = (
    ReleaseField("counts", "char", 64, since=(2, 26), until=(2, 30)),  # d5c3fafc43
    ReleaseField("counts", "char", 128, since=(2, 30), until=(2, 42)),  # 1f50f2ad85: uint16_t[64]
    ReleaseField("num_slots", "char", 152, since=(2, 42)),  # 7e10e30e64: uint16_t[76], slots still free
    ReleaseField("entries", length=64, since=(2, 26), until=(2, 42)),  # d5c3fafc43
    ReleaseField("entries", length=76, since=(2, 42)),  # cbfd798810
)


class Behaviour(NamedTuple):
    """The behaviour of code where it differs between releases; CHANGES tells from which on.

    The defaults are the oldest release's.
    """

    safe_linking: bool = False
    """Fastbin and thread-cache links are stored XORed with their own address."""
    tcache_key: bool = False
    """Chunks in a thread cache have a key after their link."""
    tcache_logarithmic: bool = False
    """12 more thread-cache bins for powers of two above the small sizes."""
    tcache_dummy: bool = False
    """A thread without a cache points to zeros among libc's constants, no longer to null."""
    heap_max_follows_hugepages: bool = False
    """heap_max_size() is 4 huge pages if mp_.hp_pagesize is set."""
    mmapped_size_less_header: bool = False
    """The size word of an mmapped chunk leaves out its own header."""
    info_top_in_rest: bool = False
    """malloc_info counts top in "rest"."""
    info_size_indent: str = ""
    info_unsorted_indent: str = ""
    info_mmap_line: bool = False
    info_subheaps_line: bool = False
    info_fast_lines: bool = True
    systrim_unsigned: bool = False
    """systrim compares area with pad unsigned, so a top of MINSIZE grows the heap by a page."""
    heap_trim_threshold: Optional[str] = None
    """What heap_trim compares with trim_threshold: nothing, "extra" or "top"."""
    tcache_count: int = 7
    """The default of mp_.tcache_count."""
    glibc_tunables: bool = False
    """GLIBC_TUNABLES is read (malloc's own, and by default)."""
    arena_for_each_processor: bool = False
    """The limit of arenas is the number of processors, no longer 8 (on 32-bit 2) times that."""


class BehaviourChange(NamedTuple):
    """A change of behaviour."""

    release: Release
    """The first release that does so."""
    commit: str
    """glibc's commit that made it so, or its subject."""
    behaviour: Mapping[str, Union[bool, int, str]]
    """The fields of Behaviour that change."""


CHANGES = (
    BehaviourChange((2, 19), "4b5b548c9f", {"systrim_unsigned": True}),
    BehaviourChange((2, 19), "8b35e35d0f", {"info_size_indent": "\t" * 7 + " " * 6}),
    BehaviourChange((2, 20), "62a5881678", {"info_size_indent": "\t" * 7 + " " * 8, "info_unsorted_indent": "  "}),
    BehaviourChange((2, 20), "4d653a59ff", {"info_mmap_line": True}),
    BehaviourChange((2, 22), "c26efef979", {"heap_trim_threshold": "extra"}),
    BehaviourChange((2, 23), "e4bc326dbb", {"heap_trim_threshold": "top"}),
    BehaviourChange((2, 26), "2c0b90ab44", {"glibc_tunables": True}),
    BehaviourChange((2, 27), "34eb41579c", {"info_subheaps_line": True}),
    BehaviourChange((2, 29), "bcdaad21d4", {"tcache_key": True}),
    BehaviourChange((2, 31), "b6d2c4475d", {"info_top_in_rest": True}),
    BehaviourChange((2, 31), "b0f6679bcd", {"info_size_indent": "  "}),
    BehaviourChange((2, 32), "a1a486d70e", {"safe_linking": True}),
    BehaviourChange((2, 35), "c1beb51d08", {"heap_max_follows_hugepages": True}),
    BehaviourChange((2, 42), "9f551e28a7", {"heap_max_follows_hugepages": False}),
    BehaviourChange((2, 42), "cbfd798810", {"tcache_logarithmic": True}),
    BehaviourChange((2, 43), "614cfd0f8a", {"mmapped_size_less_header": True}),
    BehaviourChange((2, 43), "2bf2188fae", {"tcache_dummy": True}),
    BehaviourChange((2, 43), "7447efa962", {"info_fast_lines": False}),
    BehaviourChange((2, 43), "0b9210bd76", {"tcache_count": 16}),
    BehaviourChange((2, 44), "malloc: Reduce maximum arenas", {"arena_for_each_processor": True}),
)
"""Sorted by release."""

WIDER: Mapping[str, Release] = {"ppc": (2, 24), "i386": (2, 26)}
"""Since these releases 32-bit machines align to 16, long double's alignment there: dea39b13e2, 4e61a6be44."""


def behaviour(release: Release) -> Behaviour:
    """Returns what a release's code does."""
    values = dict(Behaviour._field_defaults)
    for change in CHANGES:
        if change.release <= release:
            values.update(change.behaviour)
    return Behaviour._make(values.values())


def alignment(word: int, machine: str, release: Release) -> int:
    """Computes MALLOC_ALIGNMENT: 2 * SIZE_SZ, or that of long double if it is larger."""
    if word == 8 or machine == "x32":
        return 16
    return 16 if release >= WIDER.get(machine, NEVER) else 8


def shapes() -> tuple[Release, ...]:
    """Returns one release for each distinct set of layouts and behaviours, newest first."""
    fields = [field for struct in (MALLOC_STATE, HEAP_INFO, MALLOC_PAR, TCACHE_PERTHREAD) for field in struct]
    changes = {OLDEST, *WIDER.values(), *(change.release for change in CHANGES)}
    changes.update(release for field in fields for release in (field.since, field.until))
    return tuple(sorted(changes - {NEVER}, reverse=True))


def alike(release: Release) -> str:
    """Names the releases that share a shape: "2.35 to 2.41"."""
    every = shapes()
    newer = [each for each in every if each > release]
    last = (newer[-1][0], newer[-1][1] - 1) if newer else NEWEST
    first = next((each for each in every if each <= release), release)
    return text(first) if last <= first else f"{text(first)} to {text(last)}"


def parse(text: str) -> Optional[Release]:
    """ "2.36" -> (2, 36); None where it is no release number."""
    parts = text.strip().split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1])


def text(release: Release) -> str:
    return f"{release[0]}.{release[1]}"
