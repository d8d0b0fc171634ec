"""What chunks, chunk, pins, check and map say."""

from __future__ import annotations

from ...base.kinds import KINDS
from .arenas import ARENA, INDEX
from .holders import held_by
from .keys import (
    Schema,
    address,
    identity,
    integer,
    keys_of,
    one_of,
    optional,
    record,
    rows,
    size,
    statement,
    tally,
    text,
    truth,
    tuple_of,
)
from .owner_records import Owners
from .type_records import Typed, TypeRow, Types

WRITTEN = keys_of(Owners)["html"]
JUDGEMENT = statement("The verdict, apart from its words")
SUMMARY = record(
    "All that was swept, by state",
    used=tally("In the program's hands"),
    tcache=tally("In thread caches"),
    fast=tally("In fastbins"),
    free=tally("In bins"),
    top=tally("At arenas' ends"),
    bookkeeping_bytes=size("Headers of heaps and arenas, fenceposts"),
    foreign_bytes=size("Somebody else's, by sbrk"),
    damaged_bytes=size("What could not be read as chunks"),
    system_bytes=size("What these arenas took from the kernel"),
)
SIZES = rows(
    "A histogram",
    record(
        "Chunks of about one size",
        min_bytes=size("From this size on"),
        max_bytes=size("Up to this size"),
        used_chunks=size("In use; null: not asked for, or not known", null=True),
        used_bytes=size("Their bytes", null=True),
        free_chunks=size("Not in use", null=True),
        free_bytes=size("Their bytes", null=True),
    ),
)
STATES = ("used", "tcache", "fast", "free", "top")


def ranges(meaning: str) -> Schema:
    how = one_of("By which call", "munmap", "madvise", "brk")
    return optional(rows(meaning, tuple_of("A range", how, address("Its start"), integer("Its bytes"))))


LAYERS = {
    "used": "In use",
    "cached": "In a thread cache or fastbin",
    "free": "In bins",
    "top": "At an arena's end",
    "bookkeeping": "malloc's own",
    "foreign": "Somebody else's, by sbrk",
    "damaged": "What could not be read as chunks",
    "resident": "In memory",
    "releasable": "What malloc_trim(0) would give back",
    "releasable_resident": "What of that is in memory",
    "tops": "What only trim --tops gives back",
}
SPLITS = "Stretches in use that split free memory, and are smaller than what is free on their two sides"


def typed(**more: Schema) -> dict[str, Schema]:
    """What all live blocks of a type have, wherever there are rows of them."""
    return {**keys_of(Typed), **more}


HELD_MOST, HOLDS_BACK = (keys_of(TypeRow)[key] for key in ("held_by", "holds_back_bytes"))


def chunk(meaning: str) -> Schema:
    return record(
        meaning,
        True,
        address=address("Its header"),
        user_address=address("What malloc returned"),
        bytes=size("Its size"),
        state=one_of("What it is; null: not known", *STATES, "mmapped", None),
        arena=ARENA,
        heap=address("The heap that it lies in", null=True),
        bin=text("The list that it is in", null=True),
        tid=integer("The thread whose cache keeps it", null=True),
        previous=address("The previous chunk in memory", null=True),
        next=address("The next chunk in memory", null=True),
        type=text("What it is; null: not in use, malloc's own, or not known", null=True),
        kind=one_of("Of which sort", *KINDS, None),
        module=text("The file that it is of", null=True),
        certain=truth("False for a guess, by what it holds", null=True),
        how=text("By what it was known", null=True),
        words=rows(
            "Its first words",
            record(
                "A word",
                offset=integer("From the user address"),
                value=address("What it holds"),
                symbol=text("What that points to, by name", null=True),
            ),
        ),
    )


GAIN = {
    "releases_bytes": size("What would go back"),
    "resident_bytes": integer("What of that is in memory", null=True),
}
DOCUMENTS = {
    "chunks": {
        "summary": SUMMARY,
        "sizes": SIZES,
        "chunks": rows(
            "Arena by arena in address order, or as --sort has them; --limit at most",
            record(
                "A chunk",
                address=address("Its header"),
                bytes=size("Its size"),
                state=one_of("What it is; null: not known", *STATES, None),
                arena=INDEX,
                type=optional(text("With --type: its type")),
            ),
        ),
        "left_out": size("How many more there are; null where it was stopped", null=True),
        "exact_sizes": rows(
            "What holds most first, --limit at most",
            record(
                "Chunks of one size",
                bytes=size("The size"),
                used_chunks=size("In use; null: not asked for, or not known", null=True),
                free_chunks=size("Not in use", null=True),
            ),
        ),
        "exact_sizes_left_out": size("How many more sizes there are"),
    },
    "chunk": {
        "chunk": chunk("The chunk that holds the (first) address; null: none does, and a problem says what is there"),
        "answers": optional(
            rows(
                "Of several addresses: one for each, in their order",
                record(
                    "An address",
                    asked=address("As it was asked for"),
                    chunk=chunk("The chunk that holds it; null: none does"),
                    problem=statement("Where it lies then", True),
                ),
            )
        ),
    },
    "pins": {
        "groups": rows(
            "Types of which all blocks together keep more than they are, what keeps most besides first; none where a "
            "single block does; null: not looked at, as the heaps are large and --types was not given",
            record("All blocks of a type", **typed(**GAIN, held_by=HELD_MOST)),
            null=True,
        ),
        "pins": rows(
            "Those that hold back the most first",
            record(
                "A block in use",
                address=address("Its header"),
                bytes=size("Its size"),
                arena=INDEX,
                reason=one_of("Whether it ends where a top begins, or lies between free pieces", "top", "between"),
                releases_bytes=GAIN["releases_bytes"],
                symbol=text("What its first word points to", null=True),
                type=text("The class whose table of virtual functions that is; null: it is none", null=True),
                held_by=held_by("Who holds it"),
                by=one_of("What would give it back", "free", "trim"),
                user_address=address("What malloc returned"),
                resident_bytes=GAIN["resident_bytes"],
                note=text("What comes before", null=True),
                note_records=rows("The same, apart from its words", statement("What comes first")),
                ranges=ranges("With --ranges: what goes back"),
                already=ranges("With --ranges: what of that goes back without it"),
            ),
        ),
        "left_out": size("How many more there are"),
        "own_left_out": size("How many would mainly give back their own pages"),
        "one_per_arena": record(
            "The best of each arena, freed", blocks=size("How many"), bytes=size("Their bytes"), **GAIN
        ),
        "together": rows(
            "The last blocks of an arena, all freed",
            record(
                "An arena's",
                arena=INDEX,
                blocks=size("How many"),
                bytes=size("Their bytes"),
                lowest=address("The lowest"),
                **GAIN,
                ranges=ranges("With --ranges: what goes back"),
                already=ranges("With --ranges: what of that goes back without them"),
            ),
        ),
        "pending": rows(
            "What goes back anyway at the next free() of 64 KiB",
            record("Of an arena", arena=INDEX, bytes=integer("So much")),
        ),
    },
    "types": keys_of(Types),
    "check": {
        "breaches": rows(
            "Damage first",
            statement(
                "An invariant that memory does not keep",
                False,
                address=address("Where"),
                arena=ARENA,
                rule=identity("Which; of several things that break it the id says which"),
                expected=text("What should be there"),
                found=text("What is"),
                culprit=address("The block in front, which may have been written beyond its end", null=True),
                transient=truth("Whether a call in progress explains it"),
            ),
        ),
        "busy": rows(
            "Malloc at work",
            record(
                "An arena or a thread",
                arena=ARENA,
                tid=integer("The thread inside", null=True),
                locked=truth("Whether the arena is locked"),
            ),
        ),
        "checked": record(
            "How much was checked",
            arenas=size("Arenas"),
            heaps=size("Heaps"),
            chunks=size("Chunks"),
            bin_entries=size("Chunks in bins"),
            tcache_entries=size("Chunks in thread caches"),
        ),
        "verdict": text("Sound, busy or damaged, in words"),
        "judgement": JUDGEMENT,
    },
    "map": {
        "heaps": rows(
            "A strip of cells for each",
            record(
                "A heap",
                arena=INDEX,
                address=address("Where it starts"),
                end=address("Where it ends"),
                cell_bytes=size("What a cell stands for"),
                **{
                    name: rows(f"{meaning}: bytes in each cell; null: not known", size("Bytes"), null=True)
                    for name, meaning in LAYERS.items()
                },
                splits=rows(f"{SPLITS}: those that begin in each cell", size("How many")),
                types=optional(
                    rows("With --types: for each type its bytes in each cell", rows("A type's", size("Bytes")))
                ),
            ),
        ),
        "totals": record(
            "Over all heaps",
            **{f"{name}_bytes": size(meaning, null=True) for name, meaning in LAYERS.items()},
            splits=size(SPLITS),
        ),
        "types": optional(
            rows(
                "With --types: those that hold back the most, 8 at most",
                record("All live blocks of a type, mmapped ones included", **typed()),
            )
        ),
        "html": WRITTEN,
    },
}
