"""Row: one glibc on one architecture, with the arithmetic that a builder of heaps needs; ROWS has them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Optional

from glibc_tables import (
    ARCH,
    FAMILY,
    FAMILY_FIELDS,
    HEAP,
    HEAP_FIELDS,
    PAR,
    PAR_FIELDS,
    ROW_CELLS,
    STATE,
    STATE_FIELDS,
    TCACHE,
    TCACHE_FIELDS,
    offsets,
)

from arenascope.sources.target import ByteOrder

_LARGE = {  # (shift, highest quotient, index of quotient 0), then what is common to all
    "64": (6, 48, 48),
    "32/8": (6, 38, 56),
    "32/16": (6, 45, 49),
}
_LARGER = ((9, 20, 91), (12, 10, 110), (15, 4, 119), (18, 2, 124))


def up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@dataclass(frozen=True)
class Row:
    """One glibc on one architecture."""

    name: str
    version: str
    family: str
    """"64", "32/8" or "32/16": word size and, on 32-bit, MALLOC_ALIGNMENT."""
    arch: str
    byte_order: ByteOrder
    page_size: int
    word: int
    alignment: int
    minsize: int
    max_fast: int
    min_large: int
    nfastbins: int
    heap_max: int
    state: Mapping[str, int]
    """malloc_state: field offsets, and "sizeof"; the same in heap_info, par and tcache."""
    heap_info: Mapping[str, int]
    par: Mapping[str, int]
    tcache_form: Optional[str]
    """One of TCACHE's: "char", "uint16", "num_slots"; None before 2.26."""
    tcache: Mapping[str, int]
    tcache_key: Optional[str]
    """"pointer", "random" or None: what tcache_entry.key holds."""
    tcache_count: int
    tcache_max_bytes: int
    maxsmall: int
    tcache_lazy: bool
    """Made by the first free that wants it; until then a dummy in .rodata stands for it (2.43)."""
    new_mmap_form: bool
    """The size word of an mmapped chunk leaves the header out (2.43)."""
    safe_linking: bool
    tls_arena: int
    """Where the thread_arena word lies from the thread pointer; tls_tcache likewise."""
    tls_tcache: int

    def __str__(self) -> str:
        return self.name

    @property
    def number(self) -> tuple[int, int]:
        """(2, 36)."""
        major, minor = self.version.split(".")
        return int(major), int(minor)

    @property
    def header(self) -> int:
        """CHUNK_HDR_SZ."""
        return 2 * self.word

    @property
    def has_fastbins(self) -> bool:
        return self.nfastbins > 0

    @property
    def has_tcache(self) -> bool:
        return self.tcache_form is not None

    @property
    def counts_free_slots(self) -> bool:
        """A cache counts the slots that are still free (2.42)."""
        return self.tcache_form is not None and self.tcache_form.partition("/")[0] == "num_slots"

    def user(self, chunk: int) -> int:
        return chunk + self.header

    def request2size(self, request: int) -> int:
        return max(self.minsize, (request + self.word + self.alignment - 1) & -self.alignment)

    def align_chunk(self, address: int) -> int:
        """The lowest place for a chunk at or after the address."""
        return up(address + self.header, self.alignment) - self.header

    def bin_index(self, size: int) -> int:
        if size < self.min_large:
            return size // 8 if self.alignment == 8 else size // 16 + (self.family == "32/16")
        for shift, highest, base in (_LARGE[self.family], *_LARGER):
            if size >> shift <= highest:
                return base + (size >> shift)
        return 126

    def fastbin_index(self, size: int) -> int:
        return (size >> (4 if self.word == 8 else 3)) - 2

    def tcache_index(self, size: int) -> int:
        index = (size - self.minsize) // self.alignment
        if not self.counts_free_slots or index < 64:
            return index
        # the 2.42 tag took MAXSMALL from user bytes, which only moves a power of two on i386
        maxsmall = 1020 if self.family == "32/16" and self.name.startswith("2.42-") else self.maxsmall
        return 64 + size.bit_length() - maxsmall.bit_length()


def _row(name: str) -> Row:
    family, arch, state, heap, par, tcache, key, links = ROW_CELLS[name]
    order, page, tls_arena, tls_tcache = ARCH[arch]
    sizes = offsets(FAMILY_FIELDS, FAMILY[family])
    version = ".".join(name.split("-")[0].split(".")[:2])
    number = tuple(map(int, version.split(".")))
    places = offsets(STATE_FIELDS, STATE[f"{family} {state}"])
    maximum = {"tag": sizes.pop("tcache_max_tag"), "branch": sizes.pop("tcache_max_branch")}
    if "fastbinsY" not in places:
        sizes["nfastbins"] = sizes["max_fast"] = 0
    return Row(
        name=name,
        version=version,
        family=family,
        arch=arch,
        byte_order="little" if order == "little" else "big",
        page_size=int(page),
        state=places,
        heap_info=offsets(HEAP_FIELDS, HEAP[f"{family} {heap}"]),
        par=offsets(PAR_FIELDS, PAR[f"{family.split('/')[0]} {par}"]),
        tcache_form=None if tcache == "-" else tcache,
        tcache=offsets(TCACHE_FIELDS, TCACHE[f"{family} {tcache}"]) if tcache != "-" else {},
        tcache_key=None if key == "-" else key,
        tcache_count=16 if number >= (2, 43) else 7,
        tcache_max_bytes=maximum["branch" if number >= (2, 43) or name.startswith("2.42.x") else "tag"],
        tcache_lazy=number >= (2, 43),
        new_mmap_form=number >= (2, 43),
        safe_linking=links == "safe",
        tls_arena=int(tls_arena, 16),
        tls_tcache=int(tls_tcache, 16),
        **sizes,
    )


ROWS: tuple[Row, ...] = tuple(_row(name) for name in ROW_CELLS)
BY_NAME: dict[str, Row] = {row.name: row for row in ROWS}
