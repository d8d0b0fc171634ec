"""What arenas, heaps, bins, threads, params and mmapped say."""

from __future__ import annotations

from .keys import Schema, address, integer, number, one_of, record, rows, size, statement, tally, text, truth

INDEX = integer("The arena's place in the ring from main_arena, which is 0; malloc_info's <heap nr>")
ARENA = integer("The arena's index", null=True)
TID = integer("The thread's id in its process")
THREAD_NAME = text("The thread's name", null=True)


def allocator_rows(**more: Schema) -> Schema:
    return rows(
        "Other allocators, and runtimes with a heap of their own",
        record(
            "One of them",
            name=text("Its name, or the file that exports a malloc of its own"),
            how=text("What it was recognised by"),
            replaces_malloc=truth("Whether malloc leads to it; null: not known", null=True),
            shadowed_by=text("The file whose malloc is called in its stead, as the linker asks it first", null=True),
            instead=text("What reports on its memory"),
            **more,
        ),
    )


ALLOCATORS = allocator_rows()
SHARE = record(
    "How much of what is in memory is glibc's; null where there is no other allocator",
    True,
    glibc_resident_bytes=size("Resident bytes of glibc's arenas and of blocks served by mmap", null=True),
    rss_bytes=size("RSS of the process", null=True),
)
MMAPPED = tally("Blocks served by mmap, by mp_")


def figures() -> dict[str, Schema]:
    """The same of one arena and of all."""
    return {
        "system_bytes": size("What it took from the kernel (system_mem)", null=True),
        "max_system_bytes": size("Its maximum so far", null=True),
        "used_bytes": integer("Blocks in the program's hands, with malloc's bookkeeping", null=True),
        "tcache": tally("Chunks that thread caches keep of it"),
        "fast": tally("Chunks in fastbins"),
        "bins": tally("Chunks in unsorted, small and large bins"),
        "top_bytes": size("The chunk at its end, which new blocks are cut from", null=True),
        "resident_bytes": size("What of it is in memory", null=True),
        "trim_bytes": size("What malloc_trim(0) would give back, of address space", null=True),
        "trim_resident_bytes": size("How much RSS would fall", null=True),
    }


ARENA_ROWS = rows(
    "In the ring's order",
    record(
        "An arena",
        index=INDEX,
        address=address("Its malloc_state"),
        main=truth("Whether it is main_arena"),
        heaps=size("How many heaps it has", null=True),
        attached_threads=integer("How many threads it counts", null=True),
        threads=rows("Those that use it", record("A thread", tid=TID, name=THREAD_NAME)),
        **figures(),
    ),
)
TOTALS = record("The same of all arenas; null where one is not known", **figures())
BIN_ROWS = rows(
    "Bins that are not empty",
    record(
        "A list of free chunks",
        arena=integer("Its owner; null: a thread's cache", null=True),
        tid=integer("Whose cache it is; null: an arena's", null=True),
        kind=one_of("Which kind", "tcache", "fast", "unsorted", "small", "large"),
        index=integer("Its index among those of its kind"),
        min_bytes=size("The smallest chunk that belongs there"),
        max_bytes=size("The largest; null: any", null=True),
        chunks=size("How many; null where it could not be read to its end", null=True),
        bytes=size("Their bytes", null=True),
    ),
)
THREAD_ROWS = rows(
    "By tid",
    record(
        "A thread",
        tid=TID,
        name=THREAD_NAME,
        arena=ARENA,
        tcache=record(
            "Its cache",
            address=address("Where it is; null: none, or not found", null=True),
            chunks=size("What it keeps; null: not known", null=True),
            bytes=size("Their bytes", null=True),
        ),
    ),
)
PARAM_ROWS = rows(
    "In mp_'s own order, then what lies beside it",
    record(
        "A parameter",
        name=text("mp_'s field, or global_max_fast (M_MXFAST), perturb_byte (M_PERTURB)"),
        value=integer("As it stands; null: nothing tells, or this glibc has none", null=True),
        default=integer("In this glibc", null=True),
        requested=text("What the environment asked for", null=True),
        note=text("Whether it took effect, or how it changed", null=True),
        note_record=statement("The note, apart from its words", True),
    ),
)
LIMITS = record(
    "How many arenas there are and may be",
    count=size("How many there are", null=True),
    limit=number("The maximum that this glibc makes", null=True),
)

DOCUMENTS = {
    "arenas": {"arenas": ARENA_ROWS, "mmapped": MMAPPED, "totals": TOTALS, "allocators": ALLOCATORS, "share": SHARE},
    "heaps": {
        "heaps": rows(
            "Arena by arena, in address order",
            record(
                "A heap, or a region that the main arena grew into",
                arena=INDEX,
                address=address("Where it starts"),
                end=address("Where it ends"),
                bytes=size("Its size"),
                mprotect_bytes=size("What mprotect opened; null: the main arena's", null=True),
                resident_bytes=size("What of it is in memory", null=True),
                last=truth("Whether top lies in it"),
            ),
        ),
    },
    "bins": {"bins": BIN_ROWS},
    "threads": {
        "threads": THREAD_ROWS,
        "unattached_arenas": rows("Arenas that no thread uses; null: not known", integer("An index"), null=True),
    },
    "params": {
        "params": PARAM_ROWS,
        "arenas": LIMITS,
        "note": text("Whether any of them was changed", null=True),
        "note_record": statement(
            "The same, apart from its words: how many have a default, how many are not at it, how many the "
            "environment asked for; the arenas' limit, where it follows from the number of processors, with that",
            True,
        ),
    },
    "mmapped": {
        "blocks": rows(
            "In address order",
            record(
                "A block with a mapping of its own",
                address=address("Its chunk"),
                bytes=size("Its mapping"),
                resident_bytes=size("What of it is in memory", null=True),
                type=text("What it is; null: known by its size alone", null=True),
                certain=truth("False for a guess, by what it holds", null=True),
            ),
        ),
        "expected": tally("What mp_ counts"),
        "match": truth("Whether the two agree"),
    },
}
