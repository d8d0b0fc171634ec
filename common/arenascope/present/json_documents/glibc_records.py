"""JSON records of info, stats and version."""

from __future__ import annotations

from typing import Annotated, Mapping, Optional, Sequence

from .arena_records import ALLOCATORS, SHARE, GlibcShareRecord, OtherAllocator
from .record import Address, Document, Record, Size, StatementRecord


class InfoDocument(Document, command="info"):
    """The answer of info."""

    xml: Annotated[Optional[str], "malloc_info's; null where not all of it can be read"]


class StatsDocument(Document, command="stats"):
    """The answer of stats."""

    text: Annotated[Optional[str], "malloc_stats'; null where not all of it can be read"]


class LayoutCheckRecord(StatementRecord, first=True):
    """A check; holds_in tells in how many of the arenas it holds."""

    check: Annotated[str, "What it checks, and in how many arenas it does not hold"]
    held: Annotated[bool, "Whether it holds"]


class Checks(Record):
    """Checks of the layout."""

    held: Annotated[Size, "How many hold"]
    tried: Annotated[Size, "How many there are"]
    list: Annotated[Sequence[LayoutCheckRecord], "Each"]


class LibcRecord(Record):
    """A libc of the process."""

    libc: Annotated[int, "Its number, for --libc"]
    path: Annotated[Optional[str], "Its file"]
    version: Annotated[Optional[str], "Its release"]
    main_arena: Annotated[Address, "Its main_arena"]
    used: Annotated[bool, "Whether its malloc was called"]
    chosen: Annotated[bool, "Whether it is the one that was examined"]


class CandidateRecord(Record):
    """A candidate."""

    name: Annotated[str, "An address, a release, a distance from the thread pointer; once in its list"]
    taken: Annotated[bool, "Whether it is the one that was taken"]
    for_: Annotated[Sequence[str], "What spoke for it"]
    against: Annotated[Sequence[str], "What spoke against it"]
    for_records: Annotated[Sequence[StatementRecord], "The same, with ids"]
    against_records: Annotated[Sequence[StatementRecord], "The same, with ids"]


Found = Annotated[Sequence[CandidateRecord], "Empty where nothing did"]


class Candidates(Record):
    """With --full: the candidates, the chosen one first."""

    main_arena: Found
    mp_: Found
    layout: Found
    thread_arena: Found
    thread_caches: Found


class VersionDocument(Document, command="version"):
    """The answer of version."""

    arenascope: Annotated[str, "Its version"]
    debugger: Annotated[Optional[str], "The debugger, or that there is none"]
    python: Annotated[str, "Its version"]
    libraries: Annotated[Mapping[str, Annotated[str, "Which and where"]], "Optional libraries, and where they are"]
    layout: Annotated[Optional[str], "What is known of glibc's structures; null: no glibc"]
    checks: Checks
    libcs: Annotated[Sequence[LibcRecord], "Every glibc in the process"]
    allocators: Annotated[Sequence[OtherAllocator], ALLOCATORS]
    share: Annotated[Optional[GlibcShareRecord], SHARE]
    without_debug_information: Annotated[
        Optional[Sequence[str]], "Files of modules that have none here, or that of another build; null: nobody asked"
    ]
    candidates: Candidates = None  # type: ignore[assignment]  # left out: there only with --full
