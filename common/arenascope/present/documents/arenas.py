"""What arenas, heaps, bins, threads, params and mmapped say."""

from __future__ import annotations

from .arena_records import Arena, Arenas, ArenaThread, OtherAllocator
from .keys import (
    Schema,
    address,
    integer,
    keys_of,
    number,
    one_of,
    record,
    rows,
    size,
    statement,
    tally,
    text,
    truth,
)

ARENAS = keys_of(Arenas)
INDEX, THREAD = keys_of(Arena)["index"], keys_of(ArenaThread)
ARENA = integer("The arena's index", null=True)


def allocator_rows(**more: Schema) -> Schema:
    return rows(ARENAS["allocators"]["description"], record("One of them", **keys_of(OtherAllocator), **more))


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
        **THREAD,
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
    "arenas": ARENAS,
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
