"""What refs, owner, leaks and owners say."""

from __future__ import annotations

from .arenas import ARENA
from .keys import Schema, address, integer, keys_of, one_of, record, rows, size, text
from .owner_records import ROOT_KINDS, Owner, Owners

STRENGTHS = ("definite", "possible")
ENCODINGS = ("tagged", "shifted", "unaligned", "relative", None)
STATES = ("used", "mmapped", "tcache", "fast", "free", "mapping")
BLOCK = record(
    "What the address stands for; null: nothing is mapped there",
    True,
    address=address("Its header, or the start of the mapping"),
    user_address=address("What malloc returned, or the start of the mapping"),
    bytes=size("Its size"),
    state=one_of("What it is", *STATES),
    arena=ARENA,
    type=text("What the block is; null: not known", null=True),
)


def pointer(meaning: str) -> Schema:
    return record(
        meaning,
        kind=one_of("Who has it: a root of this kind, or a block", *ROOT_KINDS, "block"),
        address=address("Where it lies; null: in a register, or in the kernel", null=True),
        name=text("The variable, the function, the register, or what is mapped; null: not known", null=True),
        tid=integer("The thread whose stack, register or variable it is", null=True),
        block=address("The block that it lies in, by what malloc returned", null=True),
        type=text("What that block is; null: not known", null=True),
        offset=size("From that block's start", null=True),
        field=text("The member that it is; null: not known", null=True),
        strength=one_of("Whether it is certain to be meant", *STRENGTHS),
        into=integer("How far past the start it leads"),
        encoding=one_of("How it is written, where it is no plain pointer", *ENCODINGS),
    )


def counted(meaning: str) -> Schema:
    return record(meaning, blocks=size("How many"), bytes=size("Their bytes"))


DOCUMENTS: dict[str, dict[str, Schema]] = {
    "refs": {"block": BLOCK, "refs": rows("Every pointer to it: those of roots first", pointer("A pointer"))},
    "leaks": {
        "leaks": rows(
            "What is lost, by what it is",
            record(
                "All of one type",
                type=text("What they are"),
                blocks=size("How many nothing leads to; a cycle counts as one"),
                bytes=size("Their bytes"),
                indirect_blocks=size("How many hang on these"),
                indirect_bytes=size("Their bytes"),
                strength=one_of(
                    "possible: only pointers to insides lead there, or epoll, which this image lacks", *STRENGTHS
                ),
                samples=rows("What malloc returned for some of them", address("A block")),
            ),
        ),
        "reached": counted("What roots lead to"),
        "unknown": counted("What nothing leads to in an image that lacks some of what might"),
        "saved": rows(
            "What only pointers lead to that are written otherwise, or to insides; part of what is reached",
            record(
                "By one encoding",
                encoding=one_of("How; inside: at one offset in all blocks of a size", *ENCODINGS[:-1], "inside"),
                blocks=size("How many"),
                bytes=size("Their bytes"),
            ),
        ),
    },
    "owners": keys_of(Owners),
    "owner": {
        "block": BLOCK,
        "held_by": record(
            "Of a live block its main holder: as in owners; null: it is none, or that is not known",
            True,
            **keys_of(Owner),
        ),
        "path": rows(
            "The way to it, the root's pointer first; null: nothing leads there",
            pointer("A pointer, to the block of the next row or to what was asked for"),
            null=True,
        ),
    },
}
