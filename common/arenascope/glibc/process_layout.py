"""The places of fields in a process: from the table, checked against memory and debug information.

A Layout is made once per Session and passed on; code further down never asks for a version.
"""

from __future__ import annotations

from functools import cache
from typing import Iterable, Mapping, NamedTuple, Optional

from ..base.heap_model import Finding, Statement
from ..glibc import release_table
from ..sources.target import StructInfo
from .release_table import Behaviour, Release, ReleaseField


class Struct:
    """The offsets of the members that this release has."""

    def __init__(self, offsets: Mapping[str, int], size: int) -> None:
        self.offsets = offsets
        self.size = size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and (self.offsets, self.size) == (other.offsets, other.size)

    def __getitem__(self, name: str) -> int:
        return self.offsets[name]

    def get(self, name: str) -> Optional[int]:
        return self.offsets.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self.offsets


class TcacheLayout(NamedTuple):
    """tcache_perthread_struct."""

    bins: int
    count_bytes: int
    counts: int
    counts_free_slots: bool
    """2.42: num_slots holds how many more chunks would fit, not how many there are."""
    entries: int
    size: int


class LayoutCheck(NamedTuple):
    """A condition on the layout, and whether it holds."""

    what: Statement
    times: int = 1
    of: int = 1
    """The number of arenas that were checked."""

    @property
    def held(self) -> bool:
        return self.times == self.of


class Layout(NamedTuple):
    """Everything that a walker must know about this glibc."""

    word: int
    align: int
    release: Release
    """The row of the table that agrees with memory."""
    arena: Struct
    heap: Struct
    params: Struct
    tcache: Optional[TcacheLayout]
    fastbins: int
    heap_max: int
    behaviour: Behaviour
    checks: tuple[LayoutCheck, ...] = ()
    """The checks against memory and debug information."""
    newer: Optional[Release] = None
    """The image's release where it is newer than the table, NEVER where the structures match no known release."""
    mmaps_proven: bool = True
    """False where mp_.n_mmaps of such a release must agree with the blocks that are found."""
    tcache_proven: bool = True
    """False where caches of such a release have a form that could not be told."""
    unknown: tuple[Finding, ...] = ()
    """What could not be located in such a release: figures that depend on it are not known."""
    mp_in_parts: Optional[Finding] = None
    """The finding that members of mp_ could not be located: it matters only to what depends on one of them."""

    @property
    def header(self) -> int:
        """Computes CHUNK_HDR_SZ."""
        return 2 * self.word

    @property
    def mask(self) -> int:
        """Computes MALLOC_ALIGN_MASK."""
        return self.align - 1

    @property
    def min_size(self) -> int:
        """Computes MINSIZE."""
        return (4 * self.word + self.mask) & ~self.mask

    def chunk_for(self, request: int) -> int:
        """Computes request2size: the bytes of the chunk that malloc(request) takes, if it can split one off."""
        return max((request + self.word + self.mask) & ~self.mask, self.min_size)

    @property
    def chunk_struct(self) -> int:
        """Computes sizeof (struct malloc_chunk): what mtrim leaves at the head of a free chunk."""
        return 6 * self.word

    def aligned(self, chunk: int) -> bool:
        return not (chunk + self.header) & self.mask

    def first_aligned(self, start: int) -> int:
        """Returns the first place from `start` on where a chunk can lie: as sysmalloc and new_heap round it."""
        return start + (-(start + self.header) & self.mask)


def fastbin_count(word: int, align: int) -> int:
    """Computes NFASTBINS: fastbin_index (request2size (MAX_FAST_SIZE)) + 1."""
    mask = align - 1
    largest = (80 * word // 4 + word + mask) & ~mask
    return (largest >> (4 if word == 8 else 3)) - 2 + 1


def build_struct(fields: tuple[ReleaseField, ...], release: Release, word: int, align: int, pad_to: int = 0) -> Struct:
    """Lays the members out as the C compiler does."""
    widths = {"word": word, "int": 4, "char": 1}
    offset = 0
    offsets: dict[str, int] = {}
    for member in fields:
        if not member.present(release):
            continue
        width = widths[member.kind]
        if member.kind != "char":
            offset = (offset + width - 1) & ~(width - 1)
        offsets[member.name] = offset
        count = fastbin_count(word, align) if member.length == release_table.FASTBINS else member.length
        offset += width * count
    offset = (offset + word - 1) & ~(word - 1)
    if pad_to:
        # heap_info ends in a pad so that the first chunk's user pointer is aligned
        offset += -(offset + 2 * word) & (pad_to - 1)
    return Struct(offsets, offset)


def tcache_layout(release: Release, word: int) -> Optional[TcacheLayout]:
    """Lays out the members in any order: the row of `entries` tells how many bins there are."""
    lengths = {field.name: field.length for field in release_table.TCACHE_PERTHREAD if field.present(release)}
    if "entries" not in lengths:
        return None
    struct = build_struct(release_table.TCACHE_PERTHREAD, release, word, 2 * word)
    counts = "num_slots" if "num_slots" in lengths else "counts"
    bins = lengths["entries"]
    return TcacheLayout(
        bins,
        lengths[counts] // bins,
        counts=struct[counts],
        counts_free_slots=counts == "num_slots",
        entries=struct["entries"],
        size=struct.size,
    )


def tcache_forms(layout: Layout) -> list[TcacheLayout]:
    """Returns all forms of thread cache, the layout's own first: branches of 2.27 to 2.29 have that of a later tag."""
    own = [layout.tcache] if layout.tcache is not None else []
    return [*own, *(form for form in _forms_of_table(layout.word) if form not in own)]


@cache
def _forms_of_table(word: int) -> tuple[TcacheLayout, ...]:
    """Computed once for all threads."""
    forms = (tcache_layout(release, word) for release in release_table.shapes())
    return tuple(dict.fromkeys(form for form in forms if form is not None))


def heap_max(word: int) -> int:
    """Computes HEAP_MAX_SIZE: 2 * DEFAULT_MMAP_THRESHOLD_MAX, 1 MiB on 32-bit."""
    return 64 << 20 if word == 8 else 1 << 20


@cache
def from_table(release: Release, word: int, machine: str, align: Optional[int] = None) -> Layout:
    """Returns the layout of a release from the table."""
    align = align or release_table.alignment(word, machine, release)
    arena = build_struct(release_table.MALLOC_STATE, release, word, align)
    return Layout(
        word=word,
        align=align,
        release=release,
        arena=arena,
        heap=build_struct(release_table.HEAP_INFO, release, word, align, pad_to=align),
        params=build_struct(release_table.MALLOC_PAR, release, word, align),
        tcache=tcache_layout(release, word),
        fastbins=fastbin_count(word, align) if "fastbinsY" in arena else 0,
        heap_max=heap_max(word),
        behaviour=release_table.behaviour(release),
    )


def disagreements(struct: Struct, info: StructInfo) -> list[str]:
    """Lists members that debug information places elsewhere; "" if both agree on all they share."""
    wrong = []
    for name, offset in struct.offsets.items():
        # 2.42 renamed tcache_bins, at the same offset
        seen = info.fields.get(name) or info.fields.get({"tcache_bins": "tcache_small_bins"}.get(name, ""))
        if seen is None:
            wrong.append(f"{info.name}.{name}: not in the debug information")
        elif seen.offset != offset:
            wrong.append(f"{info.name}.{name}: at {seen.offset} in the debug information, at {offset} here")
    if info.size != struct.size:
        wrong.append(f"{info.name}: {info.size} bytes in the debug information, {struct.size} here")
    return wrong


KINDS = ("main_arena", "mp_", "layout", "thread_arena", "thread_caches")


class Candidate(NamedTuple):
    """A candidate for a structure's place or form."""

    kind: str
    """One of KINDS."""
    name: str
    """An address, a release, a distance from the thread pointer: unique within its kind."""
    speaks_for: tuple[Statement, ...] = ()
    against: tuple[Statement, ...] = ()
    chosen: bool = False


class CandidateTrail:
    """All candidates, in the order in which they were met."""

    def __init__(self, wanted: bool = True) -> None:
        self.wanted = wanted
        """Whether candidates are reported: otherwise nothing is kept."""
        self._met: dict[tuple[str, str], Candidate] = {}

    def add(
        self, kind: str, name: str, speaks_for: Iterable[Statement] = (), against: Iterable[Statement] = ()
    ) -> None:
        """Adds a candidate. Further facts about a known one come after the earlier ones."""
        if not self.wanted:
            return
        known = self._met.get((kind, name), Candidate(kind, name))
        self._met[kind, name] = known._replace(
            speaks_for=_once(known.speaks_for, speaks_for), against=_once(known.against, against)
        )

    def choose(self, kind: str, name: Optional[str], instead: Optional[Statement] = None) -> None:
        """Records the choice, or that there is none; `instead` tells why not another that nothing spoke against."""
        for key, each in self._met.items():
            if each.kind != kind:
                continue
            chosen = each.name == name
            lost = (instead,) if instead is not None and not chosen and not each.against else ()
            self._met[key] = each._replace(chosen=chosen, against=(*each.against, *lost))

    def of(self, kind: str) -> list[Candidate]:
        """Returns the candidates of a kind: the chosen one first, then those with the most in their favour."""
        met = [each for each in self._met.values() if each.kind == kind]
        return sorted(met, key=lambda each: (not each.chosen, -len(each.speaks_for)))


NO_TRAIL = CandidateTrail(wanted=False)


def _once(known: tuple[Statement, ...], more: Iterable[Statement]) -> tuple[Statement, ...]:
    said = list(known)
    said += [each for each in more if each not in known]
    return tuple(said)
