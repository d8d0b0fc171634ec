"""THE table: what changed in glibc malloc, and in which release. The only file that knows version numbers.

Memory beats this table: distributions ship backports, so layout.py uses a row only where it fits what is seen.
A new release needs a row here only where something changed; without one the newest row is tried and checked.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

Release = tuple[int, int]

OLDEST: Release = (2, 17)
NEWEST: Release = (2, 43)
"""The newest release whose structures were checked field by field."""

NEVER: Release = (999, 0)


class Field(NamedTuple):
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
    Field("mutex", "int"),
    Field("flags", "int"),
    Field("have_fastchunks", "int", since=(2, 27), until=(2, 43)),
    Field("fastbinsY", length=FASTBINS, until=(2, 43)),
    Field("top"),
    Field("last_remainder"),
    Field("bins", length=254),
    Field("binmap", "int", 4),
    Field("next"),
    Field("next_free"),
    Field("attached_threads", since=(2, 23)),
    Field("system_mem"),
    Field("max_system_mem"),
)

HEAP_INFO = (
    Field("ar_ptr"),
    Field("prev"),
    Field("size"),
    Field("mprotect_size"),
    Field("pagesize", since=(2, 35)),
)

MALLOC_PAR = (
    Field("trim_threshold"),
    Field("top_pad"),
    Field("mmap_threshold"),
    Field("arena_test"),
    Field("arena_max"),
    Field("thp_mode", "int", since=(2, 43)),
    Field("thp_pagesize", since=(2, 35)),
    Field("hp_pagesize", since=(2, 35)),
    Field("hp_flags", "int", since=(2, 35)),
    Field("n_mmaps", "int"),
    Field("n_mmaps_max", "int"),
    Field("max_n_mmaps", "int"),
    Field("no_dyn_threshold", "int"),
    Field("mmapped_mem"),
    Field("max_mmapped_mem"),
    Field("max_total_mem", until=(2, 24)),
    Field("sbrk_base"),
    Field("tcache_bins", since=(2, 26)),
    Field("tcache_max_bytes", since=(2, 26)),
    Field("tcache_count", since=(2, 26)),
    Field("tcache_unsorted_limit", since=(2, 26)),
)

TCACHE_PERTHREAD = (
    Field("counts", "char", 64, since=(2, 26), until=(2, 30)),
    Field("counts", "char", 128, since=(2, 30), until=(2, 42)),  # uint16_t[64]
    Field("num_slots", "char", 152, since=(2, 42)),  # uint16_t[76]: slots still free
    Field("entries", length=64, since=(2, 26), until=(2, 42)),
    Field("entries", length=76, since=(2, 42)),
)


class Behaviour(NamedTuple):
    """What code does with the structures, where it differs between releases."""

    safe_linking: bool
    """2.32: fastbin and thread-cache links are stored XORed with their own address."""
    tcache_key: bool
    """2.29: what is in a thread cache bears a key behind its link."""
    tcache_logarithmic: bool
    """2.42: 12 more thread-cache bins for powers of two above the small sizes."""
    tcache_dummy: bool
    """2.43: a thread without a cache points to zeros among libc's constants, no longer nowhere."""
    heap_max_follows_hugepages: bool
    """2.35 to 2.41: heap_max_size() is 4 huge pages where mp_.hp_pagesize is set."""
    mmapped_size_less_header: bool
    """2.43: the size word of an mmapped chunk leaves out its own header."""
    info_top_in_rest: bool
    """2.31: malloc_info counts top in "rest"."""
    info_size_indent: str
    info_unsorted_indent: str
    info_mmap_line: bool
    info_subheaps_line: bool
    info_fast_lines: bool
    systrim_unsigned: bool
    """2.19: systrim compares area with pad unsigned, so a top of MINSIZE grows the heap by a page."""
    heap_trim_threshold: Optional[str]
    """What heap_trim compares with trim_threshold: None (to 2.21), "extra" (2.22) or "top" (from 2.23)."""
    tcache_count: int
    """The default of mp_.tcache_count."""
    glibc_tunables: bool
    """2.26 (malloc's own): GLIBC_TUNABLES is read."""


def behaviour(release: Release) -> Behaviour:
    """The rows that differ in what code does rather than in where fields lie."""

    def since(*row: int) -> bool:
        return release >= row

    if not since(2, 19):
        indent = ""
    elif not since(2, 20):
        indent = "\t" * 7 + " " * 6
    elif not since(2, 31):
        indent = "\t" * 7 + " " * 8
    else:
        indent = "  "
    trim_rule = "top" if since(2, 23) else "extra" if since(2, 22) else None
    return Behaviour(
        safe_linking=since(2, 32),
        tcache_key=since(2, 29),
        tcache_logarithmic=since(2, 42),
        tcache_dummy=since(2, 43),
        heap_max_follows_hugepages=since(2, 35) and not since(2, 42),
        mmapped_size_less_header=since(2, 43),
        info_top_in_rest=since(2, 31),
        info_size_indent=indent,
        info_unsorted_indent="  " if since(2, 20) else "",
        info_mmap_line=since(2, 20),
        info_subheaps_line=since(2, 27),
        info_fast_lines=not since(2, 43),
        systrim_unsigned=since(2, 19),
        heap_trim_threshold=trim_rule,
        tcache_count=16 if since(2, 43) else 7,
        glibc_tunables=since(2, 26),
    )


def alignment(word: int, machine: str, release: Release) -> int:
    """MALLOC_ALIGNMENT: 2 * SIZE_SZ, or that of long double where it is larger."""
    if word == 8 or machine == "x32":
        return 16
    if machine == "i386":
        return 16 if release >= (2, 26) else 8
    if machine == "ppc":
        return 16 if release >= (2, 24) else 8
    return 8


def shapes() -> tuple[Release, ...]:
    """One release for each distinct set of layouts and behaviours, newest first."""
    changes = {OLDEST, (2, 19), (2, 20), (2, 22), (2, 31), (2, 32), (2, 41)}
    for struct in (MALLOC_STATE, HEAP_INFO, MALLOC_PAR, TCACHE_PERTHREAD):
        for field in struct:
            changes.add(field.since)
            changes.add(field.until)
    changes.discard(NEVER)
    return tuple(sorted(changes, reverse=True))


def parse(text: str) -> Optional[Release]:
    """ "2.36" -> (2, 36); None where it is no release number."""
    parts = text.strip().split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1])


def text(release: Release) -> str:
    return f"{release[0]}.{release[1]}"
