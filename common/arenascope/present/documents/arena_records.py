"""What arenas says."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from .record import Address, Chunks, Document, Record, Size


class ArenaThread(Record):
    """A thread."""

    tid: Annotated[int, "The thread's id in its process"]
    name: Annotated[Optional[str], "The thread's name"]


class ArenaIndex(Record):
    """Which arena it is."""

    index: Annotated[int, "The arena's place in the ring from main_arena, which is 0; malloc_info's <heap nr>"]
    address: Annotated[Address, "Its malloc_state"]


class ArenaPlace(ArenaIndex):
    """Where an arena is, and whose."""

    main: Annotated[bool, "Whether it is main_arena"]
    heaps: Annotated[Optional[Size], "How many heaps it has"]
    attached_threads: Annotated[Optional[int], "How many threads it counts"]
    threads: Annotated[Sequence[ArenaThread], "Those that use it"]


class ArenaFigures(Record):
    """The same of one arena and of all."""

    system_bytes: Annotated[Optional[Size], "What it took from the kernel (system_mem)"]
    max_system_bytes: Annotated[Optional[Size], "Its maximum so far"]
    used_bytes: Annotated[Optional[int], "Blocks in the program's hands, with malloc's bookkeeping"]
    tcache: Annotated[Chunks, "Chunks that thread caches keep of it"]
    fast: Annotated[Chunks, "Chunks in fastbins"]
    bins: Annotated[Chunks, "Chunks in unsorted, small and large bins"]
    top_bytes: Annotated[Optional[Size], "The chunk at its end, which new blocks are cut from"]
    resident_bytes: Annotated[Optional[Size], "What of it is in memory"]
    trim_bytes: Annotated[Optional[Size], "What malloc_trim(0) would give back, of address space"]
    trim_resident_bytes: Annotated[Optional[Size], "How much RSS would fall"]


class Arena(ArenaPlace, ArenaFigures):
    """An arena."""


class OtherAllocator(Record):
    """One of them."""

    name: Annotated[str, "Its name, or the file that exports a malloc of its own"]
    how: Annotated[str, "What it was recognised by"]
    replaces_malloc: Annotated[Optional[bool], "Whether malloc leads to it; null: not known"]
    shadowed_by: Annotated[Optional[str], "The file whose malloc is called in its stead, as the linker asks it first"]
    instead: Annotated[str, "What reports on its memory"]


class Share(Record):
    """How much of what is in memory is glibc's."""

    glibc_resident_bytes: Annotated[Optional[Size], "Resident bytes of glibc's arenas and of blocks served by mmap"]
    rss_bytes: Annotated[Optional[Size], "RSS of the process"]


class Arenas(Document):
    """What arenas found."""

    arenas: Annotated[Sequence[Arena], "In the ring's order"]
    mmapped: Annotated[Chunks, "Blocks served by mmap, by mp_"]
    totals: Annotated[ArenaFigures, "The same of all arenas; null where one is not known"]
    allocators: Annotated[Sequence[OtherAllocator], "Other allocators, and runtimes with a heap of their own"]
    share: Annotated[
        Optional[Share],
        "How much of what is in memory is glibc's; null where there is no other allocator",
    ]
