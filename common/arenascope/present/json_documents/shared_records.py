"""Records that several documents share: of arenas, owners, types and other allocators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional, Sequence

from ...base.heap_model import KINDS, ROOT_KINDS, STALE, Allocator
from .record import Address, Record, Size

if TYPE_CHECKING:
    from ...session.resident import GlibcShare

Index = Annotated[int, "The arena's number, malloc_info's <heap nr>; 0: main_arena"]
ArenaOrNone = Annotated[Optional[int], "The arena's index"]


class ArenaThread(Record):
    """A thread."""

    tid: int
    """The thread's id in its process."""
    name: Optional[str]
    """The thread's name."""


class ArenaIndex(Record):
    """Identifies an arena."""

    index: Index
    address: Address
    """Its malloc_state."""


class OtherAllocator(Record):
    """An allocator besides glibc's malloc."""

    name: str
    """Its name, or the file that exports a malloc of its own."""
    how: str
    """What it was recognised by."""
    replaces_malloc: Optional[bool]
    """Whether malloc leads to it; null: not known."""
    shadowed_by: Optional[str]
    """The file whose malloc is called in its stead, as the linker asks it first."""
    instead: str
    """What reports on its memory."""


def other_allocators(allocators: Sequence[Allocator]) -> list[OtherAllocator]:
    return [OtherAllocator.of(each) for each in allocators]


class GlibcShareRecord(Record):
    """How much resident memory is glibc's."""

    glibc_resident_bytes: Optional[Size]
    """Resident bytes of glibc's arenas and of blocks served by mmap."""
    rss_bytes: Optional[Size]
    """RSS of the process."""


def share_record(share: Optional[GlibcShare]) -> Optional[GlibcShareRecord]:
    return None if share is None else GlibcShareRecord(glibc_resident_bytes=share.glibc, rss_bytes=share.rss)


ALLOCATORS = "Other allocators, and runtimes with a heap of their own"
SHARE = "How much of what is in memory is glibc's; null where there is no other allocator"
OWNER_KINDS = (*ROOT_KINDS, "unreached")
STRENGTHS = ("definite", "possible")
WRITTEN = "The way to it as the program would write it, as in owner; null: its debug information tells none"
MAY_BE = (
    "Of blocks that are known by their size alone: the structs of the program, three at most, that this size and what "
    "is in the blocks allow, the likeliest first: a guess; empty: nothing can be said"
)


class OwnerRecord(Record):
    """An owner; nobody is one, too."""

    kind: Annotated[str, ("enum", OWNER_KINDS)]
    """What owns it; unreached: nothing."""
    name: Optional[str]
    """The variable, the runtime, vector registers, or what is mapped; of a stack the local variable with its function,
    as debug information tells; null: not known, and the rest of a stack."""
    tid: Optional[int]
    """The thread whose it is."""
    stale: Annotated[Optional[str], ("enum", STALE)]
    """It holds this by stale words only: why they are stale. null: by pointers."""


class RootRecord(OwnerRecord):
    """A root: a variable, a thread's stack, the heap of a runtime, a mapping."""

    kind: Annotated[str, ("enum", ROOT_KINDS)]
    """What it is."""


class Written(Record):
    """A file that was written."""

    file: str
    """Where."""
    bytes: Size
    """Its size."""


HOLDS_BACK = "What more would return to the system if all of them were freed; null: not known"
HELD_MOST = "Who holds most of them: as in owners; null without --owners, and where it is not known"


class BlocksOfType(Record):
    """All live blocks of a type."""

    type: str
    """Its name."""
    kind: Annotated[str, ("enum", tuple(KINDS))]
    """Of which sort."""
    module: Optional[str]
    """The file that it is of."""
    certain: bool
    """False for a guess, by what is in the blocks."""
    blocks: Size
    """How many."""
    bytes: Size
    """Their bytes, headers included."""


class HolderOfMost(OwnerRecord):
    """The owner that holds most of them."""

    blocks: Size
    """How many."""
    bytes: Size
    """Their bytes."""
