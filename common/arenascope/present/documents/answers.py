"""What trim, report, snapshot, diff, info, stats and version say."""

from __future__ import annotations

from ...analysis.diff import FIGURES
from ...analysis.mappings import PARTS as MAPPED
from ...analysis.report import PARTS as OF_RSS
from ...analysis.trend import COURSES
from .arenas import ARENAS, INDEX, allocator_rows
from .chunks import HOLDS_BACK, JUDGEMENT, WRITTEN, typed
from .holders import one_owner
from .keys import (
    address,
    integer,
    keys_of,
    named,
    number,
    one_of,
    optional,
    record,
    rows,
    size,
    statement,
    text,
    truth,
    tuple_of,
)
from .owner_records import OWNER_KINDS
from .trim_records import Trim

PARTS = rows(
    "They sum to rss_bytes",
    record(
        "A part of resident memory",
        part=one_of("Which", *OF_RSS),
        bytes=integer("So much"),
        label=text("What it is, in words"),
    ),
)
RSS = {
    "rss_bytes": size(
        "Resident memory, with anonymous pages of hugetlbfs, which the kernel counts apart; null: the image does not "
        "tell (a core, of the pages of files)",
        null=True,
    ),
    "swap_bytes": size("What else of it is in swap", null=True),
    "parts": PARTS,
    "measure": one_of("What the parts measure; null: there are none", "resident", "anonymous", "address-space", None),
}
CHANGE = record(
    "A figure before and after",
    name=text("Whose"),
    before=integer("Before; null: not known", null=True),
    after=integer("After", null=True),
    change=integer("By how much it changed", null=True),
    per_hour=integer("The same per hour; null where the time is not known", null=True),
)
OWNED = record(
    "What an owner holds, before and after",
    name=text("The owner; of threads' stacks, registers and variables all threads' together"),
    kind=one_of("What it is", *OWNER_KINDS),
    type=text("The type that changed most of what it holds; null: not known", null=True),
    before=integer("Before"),
    after=integer("After"),
    change=integer("By how much it changed"),
    per_hour=integer("The same per hour; null where the time is not known", null=True),
)
LIFE = record(
    "A process from its first snapshot to its last",
    pid=integer("Its number", null=True),
    name=text("As the kernel has it", null=True),
    snapshots=size("How many there are"),
    first=number("When the first was taken, in seconds since 1970"),
    last=number("When the last was taken"),
)
CANDIDATES = rows(
    "Empty where nothing did",
    record(
        "A candidate",
        name=text("An address, a release, a distance from the thread pointer; once in its list"),
        taken=truth("Whether it is the one that was taken"),
        **{
            "for": rows("What spoke for it", text("In words")),
            "against": rows("What spoke against it", text("In words")),
            "for_records": rows("The same, with ids", statement("A reason to take it")),
            "against_records": rows("The same, with ids", statement("A reason not to take it")),
        },
    ),
)

DOCUMENTS = {
    "trim": keys_of(Trim),
    "report": {
        **RSS,
        "verdict": text("The answer"),
        "causes": rows(
            "Why it stays",
            statement("A cause", cause=text("What"), evidence=text("The figures that show it, in words")),
        ),
        "advice": rows(
            "What to do, the most helpful first; then what would not help",
            statement(
                "An advice",
                action=text("What"),
                effect_bytes=size("What it would have changed here; null: not known", null=True),
                bound=truth("Whether that is an upper bound"),
                evidence=text("The figures that speak for it, in words"),
                how=rows("How it is done, the usual way first", text("A way")),
                cost=text("What it costs", null=True),
                not_when=text("When not to", null=True),
            ),
        ),
        "other_mappings": rows(
            "The largest that are not this malloc's",
            record(
                "A mapping",
                address=address("Where; in one that malloc's blocks or .bss lie in as well, the largest other part"),
                bytes=size("Resident, and not malloc's"),
                name=text("Its path"),
                allocator=text("Whose it is known to be", null=True),
            ),
        ),
        "allocators": allocator_rows(
            resident_bytes=size("What its mappings have in memory; null: its mappings are not known", null=True),
            at_most_bytes=size("An upper bound of that; null: not known", null=True),
        ),
        "types": rows(
            "What the live blocks are, what there is most of first, 20 at most; null: not looked at",
            record(
                "All blocks of a type",
                **typed(resident_bytes=size("In memory", null=True), holds_back_bytes=HOLDS_BACK),
            ),
            null=True,
        ),
        "held": record(
            "Whether the blocks in use are held, and by whom; null without --owners or --html. What is reached, "
            "possible, lost and unknown sum to live_bytes",
            True,
            live_bytes=size("All live blocks"),
            reached_bytes=size("What variables, threads, other mappings or the kernel lead to"),
            possible_bytes=size("What only pointers to insides lead to"),
            lost_bytes=size("What nothing leads to"),
            lost_blocks=size("How many blocks that are"),
            unknown_bytes=size("What nothing leads to in an image that lacks some of what might"),
            owners=rows(
                "The three that hold most, as in owners",
                one_owner(
                    "A main holder",
                    held_bytes=size("What it is the main holder of"),
                    retained_bytes=size("What of that it alone leads to"),
                ),
            ),
            jointly=rows(
                "Those that together lead to most, which is among what they hold: each of them leads there, and "
                "nobody else does",
                record(
                    "Some owners",
                    owners=rows("Who they are", one_owner("One of them")),
                    retained_bytes=size("What they lead to"),
                ),
            ),
            in_turn=rows(
                "All of these, freed one after the other, whoever brings most first, then what nobody holds; empty: "
                "that is not known",
                record(
                    "Whoever is freed next",
                    owners=rows("Who they are; none: nobody", one_owner("One of them")),
                    retained_bytes=size("What they lead to"),
                    alone_bytes=size("What leaves memory if only that is freed, and malloc_trim(0) called"),
                    returns_bytes=size("What does in all, with those before: pages that they share among it"),
                    holds_up_bytes=size("What stays if all the others are freed, and only that is not"),
                ),
            ),
        ),
        "judgement": JUDGEMENT,
        "growth": statement("With --since or --again: what grew, by two moments", True),
        "html": WRITTEN,
    },
    "mappings": {
        "mappings": rows(
            "In address order; null: what is mapped is not known",
            record(
                "A mapping",
                address=address("Where it starts"),
                end=address("Where it ends"),
                bytes=size("Its size"),
                resident_bytes=size("What of it is in memory; null: not known", null=True),
                swap_bytes=size("What of it is in swap", null=True),
                access=text("As in /proc/PID/maps: r, w, x, and p for private or s for shared"),
                part=one_of("Whose it is; what lies beside malloc's own in one of malloc's is other", *MAPPED),
                malloc_bytes=size("What of it is in memory and malloc's", null=True),
                arenas=rows("The arenas that have a heap in it, or that it is reserved for", INDEX),
                mmapped_blocks=size("Blocks with a mapping of their own that begin in it"),
                reserve=truth("Address space after a heap, for it to grow into"),
                tid=integer("The thread whose stack it holds", null=True),
                name=text("The file, the kernel's name for it, or whose zeroed variables it holds", null=True),
            ),
            null=True,
        ),
        "totals": record(
            "Over all of them",
            True,
            mappings=size("How many"),
            bytes=size("Address space"),
            resident_bytes=size("In memory; null: not known of each", null=True),
            parts=rows(
                "They sum to resident_bytes; malloc's is the sum of the parts of report that are malloc's, the others "
                "are report's",
                record("A part", part=one_of("Which", *MAPPED), bytes=integer("In memory", null=True)),
            ),
        ),
    },
    "snapshot": {"file": text("Where it was written"), "bytes": size("The file's size")},
    "save": {
        "file": text("Where it was written"),
        "bytes_written": size("What the file takes on the disk"),
        "resident_bytes": size("Memory in it"),
        "redacted": truth("Whether it has malloc's own words alone"),
    },
    "diff": {
        "seconds": number("Between the two; null: not known", null=True),
        "rss_bytes": CHANGE,
        "parts": rows("Parts of resident memory", CHANGE),
        "arenas": rows("Arenas, by what they took", CHANGE),
        "used": rows("Arenas, by what the program holds", CHANGE),
        "bins": rows("Lists of free chunks", CHANGE),
        "sizes": rows("Sizes of blocks in use, where both have them", CHANGE),
        "types": rows("Types of blocks in use, where both have them", CHANGE),
        "owners": rows(
            "What grew and stays first, then what threads are working on, then what shrank; null: not known of both",
            OWNED,
            null=True,
        ),
        "verdict": text("What changed, in words"),
        "judgement": JUDGEMENT,
    },
    "trend": {
        "folder": text("Where the snapshots are"),
        "process": LIFE,
        "earlier": rows("The same program before it was started again, the first one first", LIFE),
        "others": rows("Other processes whose snapshots lie there", LIFE),
        "series": rows(
            "Every figure over time, the largest growth first",
            record(
                "A figure",
                by=one_of("What kind it is", *FIGURES),
                name=text("Whose: the part, the arena's address, the list, the size, the type or the owner"),
                before=integer("At first"),
                after=integer("At last"),
                change=integer("By how much it changed"),
                how=one_of("How it changed", *COURSES),
                since=number("When that began, in seconds since 1970; null: it held still", null=True),
                until=number("When it was over; null: it goes on, or held still", null=True),
                per_hour=integer("The median rate in that time; null: there is none", null=True),
                per_hour_slow=integer("The rate that a fifth of all pairs of moments stay below", null=True),
                per_hour_fast=integer("The rate that a fifth of them exceed", null=True),
                moments=rows("All of it", tuple_of("A moment", number("When"), integer("How many bytes"))),
            ),
        ),
        "limit": record(
            "What it may grow to; null: nothing is known to limit it",
            True,
            bytes=size("So much"),
            used=size("What counts against it; null: not known, then RSS alone does", null=True),
            path=text("The control group's file; null: it was asked for", null=True),
        ),
        "reaches": record(
            "When it gets there, if it goes on so; null: it does not grow, or not surely",
            True,
            limit=size("The limit"),
            room=size("What is left"),
            soonest=number("In so many seconds from the last moment, by the fast rate"),
            likely=number("By the median rate"),
            latest=number("By the slow rate"),
        ),
        "verdict": text("What grew, in words"),
        "judgement": JUDGEMENT,
    },
    "info": {"xml": text("malloc_info's; null where not all of it can be read", null=True)},
    "stats": {"text": text("malloc_stats'; null where not all of it can be read", null=True)},
    "version": {
        "arenascope": text("Its version"),
        "debugger": text("The debugger, or that there is none", null=True),
        "python": text("Its version"),
        "libraries": named("Optional libraries, and where they are", text("Which and where")),
        "layout": text("What is known of glibc's structures; null: no glibc", null=True),
        "checks": record(
            "What the layout was checked against",
            held=size("How many hold"),
            tried=size("How many there are"),
            list=rows(
                "Each",
                statement(
                    "A check; holds_in tells in how many of the arenas it holds",
                    False,
                    check=text("What it checks, and in how many arenas it does not hold"),
                    held=truth("Whether it holds"),
                ),
            ),
        ),
        "libcs": rows(
            "Every glibc in the process",
            record(
                "One",
                libc=integer("Its number, for --libc"),
                path=text("Its file", null=True),
                version=text("Its release", null=True),
                main_arena=address("Its main_arena"),
                used=truth("Whether its malloc was called"),
                chosen=truth("Whether it is the one that was examined"),
            ),
        ),
        "allocators": ARENAS["allocators"],
        "share": ARENAS["share"],
        "candidates": optional(
            record(
                "With --full: the candidates, the one that was taken first",
                main_arena=CANDIDATES,
                mp_=CANDIDATES,
                layout=CANDIDATES,
                thread_arena=CANDIDATES,
                thread_caches=CANDIDATES,
            )
        ),
    },
}
