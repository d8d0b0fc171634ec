"""Pointers as `refs`, `owner` and `chunk` show them: who has one, and what it leads to."""

from __future__ import annotations

from typing import Annotated, Iterator, Mapping, Optional, Sequence

from ...base.class_names import is_pointed_to, type_words
from ...base.heap_model import ROOT_KINDS, STALE, Statement
from ...blocks.graph.asked_address import Goal
from ...blocks.graph.holders import INNER, Paths
from ...blocks.graph.pointer_facts import RefDetails, member_of
from ...blocks.graph.pointers_to import Names
from ...blocks.graph.roots import BLOCK, Ref
from ...engine import ENCODINGS
from ...sources.target import Span
from ..json_documents.record import Address, Record, Size
from ..json_documents.shared_records import STRENGTHS, WRITTEN, ArenaOrNone
from ..shared_text.lines_and_tables import Style
from ..shared_text.problem_sentences import sentence

STATE_WORDS = {
    "used": "in use",
    "tcache": "free, kept in a thread's cache",
    "fast": "free, in a fastbin",
    "free": "free",
    "top": "the top of its arena, which new blocks are cut from",
    "mmapped": "in use, served by mmap",
}
NOTHING = "nothing points to it"

STALE_WORDS: Mapping[str, str] = {
    "stdio-buffer": "no pointer: contents of a stdio buffer",
    "text": "no pointer: contents of a string",
    "beyond-end": "no pointer: past the last element",
    "loader-table": "no pointer: beside ld.so's entries",
    "popped-stack": "perhaps old: below the stack pointer",
    "vector-register": "perhaps old: a vector register",
    "family-link": "a link to a parent or sibling",
    "not-a-pointer": "no pointer by its declared type",
    "low-number": "perhaps a number: its heap lies below 4 GiB",
    "free-slot": "in an empty place of a hash table",
    "destroyed": "in an object that is destroyed",
}
"""Words for each kind of stale word: see STALE in base/heap_model.py."""


STATES = ("used", "mmapped", "tcache", "fast", "free", "mapping")


class GoalRecord(Record):
    """The block or mapping at the address; null: nothing is mapped there."""

    address: Address
    """Its header, or the start of the mapping."""
    user_address: Address
    """What malloc returned, or the start of the mapping."""
    bytes: Size
    """Its size."""
    state: Annotated[str, ("enum", STATES)]
    """What it is."""
    arena: ArenaOrNone
    type: Optional[str]
    """What the block is; null: not known."""


class PointerRecord(Record):
    """A pointer."""

    kind: Annotated[str, ("enum", (*ROOT_KINDS, "block"))]
    """Who has it: a root of this kind, or a block."""
    address: Optional[Address]
    """Where it lies; null: in a register, or in the kernel."""
    name: Optional[str]
    """The variable, the function, the register, or what is mapped; null: not known."""
    tid: Optional[int]
    """The thread whose stack, register or variable it is."""
    block: Optional[Address]
    """The block that it lies in, by what malloc returned."""
    type: Optional[str]
    """What that block is; null: not known."""
    offset: Optional[Size]
    """From that block's start."""
    field: Optional[str]
    """The member that it is; null: not known."""
    strength: Annotated[str, ("enum", STRENGTHS)]
    """Whether it is certain to be meant."""
    into: int
    """How far past the start it leads."""
    encoding: Annotated[Optional[str], ("enum", ENCODINGS)]
    """How it is written, where it is no plain pointer."""
    stale: Annotated[Optional[str], ("enum", STALE)]
    """Why the word is stale; null: it is not."""
    expression: Annotated[Optional[str], WRITTEN]


class RefsScreen:
    """Pointers to one goal, as JSON and as text."""

    def __init__(self, told: RefDetails, paths: Paths) -> None:
        self.told, self.paths = told, paths

    def goal(self, goal: Goal) -> GoalRecord:
        return GoalRecord.of(
            goal,
            address=self.told.begin_of(goal),
            user_address=goal.span.start,
            type=self.told.type_of(goal.number),
        )

    def pointer(self, ref: Ref, goal: Goal) -> PointerRecord:
        block = self.told.blocks.starts[ref.block] if ref.block is not None else None
        path = self.paths.pointer(ref)
        return PointerRecord.of(
            ref,
            block=block,
            type=self.told.type_of(ref.block),
            field=self.told.field(ref),
            stale=self.told.stale(ref),
            strength="definite" if self.told.is_sure(ref, goal) else "possible",
            into=ref.value - goal.span.start,
            expression=path and path.in_documents,
        )

    def steps(self, path: Sequence[Ref], goal: Goal) -> Iterator[tuple[Ref, Goal]]:
        """Each pointer of a way, with what it leads to."""
        blocks = self.told.blocks
        for ref, after in zip(path, [*path[1:], None]):
            at = after.block if after is not None else None
            to = goal if at is None else Goal(Span(blocks.starts[at], blocks.ends[at]), blocks.sizes[at], "used", at)
            yield ref, to

    def goal_line(self, style: Style, goal: Goal, place: int) -> str:
        what = "mapping" if goal.state == "mapping" else "block"
        said = f"{what} {goal.span.start:#x}, {style.size(goal.bytes)}"
        if goal.state == "mapping":
            return said + (f" of {goal.path}" if goal.path else ", not malloc's")
        if goal.number is not None and not self.told.is_size(goal.number):
            said += f" ({type_words(self.told.type_of(goal.number) or '')})"
        inside = f"; {place:#x} is {place - goal.span.start:+,} in it" if place != goal.span.start else ""
        return f"{said} {STATE_WORDS[goal.state]}{inside}"

    def cells(self, ref: Ref, goal: Goal) -> list[str]:
        past = ref.value - goal.span.start
        where = f"{ref.address:#x}" if ref.address is not None else ""
        path = self.paths.pointer(ref)
        who = path.on_screen if path is not None else self.who(ref)
        return [who, where, f"+{past:,}" if past else "its start", self.sure(ref, goal)]

    def sure(self, ref: Ref, goal: Goal) -> str:
        """Doubts about the pointer; "" if it is certainly one."""
        stale = self.told.stale(ref)
        if stale is not None:
            return STALE_WORDS[stale]
        return ref.encoding or ("" if self.told.is_sure(ref, goal) else "perhaps")

    def likeness(self, ref: Ref) -> str:
        """A key that is the same for pointers at one offset in blocks of one type."""
        return f"{self.told.type_of(ref.block)} {ref.offset}"

    def who(self, ref: Ref) -> str:
        if ref.kind == BLOCK and ref.block is not None:
            place = f"{self.told.blocks.starts[ref.block]:#x}"
            if ref.offset is not None:  # None: through a third object, as in PostgreSQL's contexts
                place += f" +{ref.offset}"
            name = self.told.type_of(ref.block) or ""
            type = type_words(name)
            field = self.told.field(ref)
            if field is not None and INNER.match(field) is None:
                return f"{member_of(type, field)} {self.told.blocks.starts[ref.block]:#x} +{ref.offset}"
            return (
                f"block {place} ({type})" if self.told.is_size(ref.block) or is_pointed_to(name) else f"{type} {place}"
            )
        thread = of_thread(self.told.names, ref.tid)
        if ref.kind == "global":
            return f"{ref.name or 'a variable'}"
        if ref.kind == "stack":
            return f"stack{thread}{f': {ref.name}' if ref.name else ''}"
        if ref.kind == "tls":
            return f"{ref.name or 'a thread-local variable'}{thread}"
        if ref.kind == "runtime":
            return f"{ref.address:#x} in the heap of {ref.name}"
        if ref.kind == "mapping":
            return f"{ref.address:#x} in memory that is not malloc's{f': {ref.name}' if ref.name else ''}"
        return f"{ref.name}{thread}"


def of_thread(names: Names, tid: Optional[int]) -> str:
    """ " of thread 12 worker"; "" if the pointer is in no thread."""
    if tid is None:
        return ""
    name = names.thread(tid)
    return f" of thread {tid}{f' {name}' if name else ''}"


def nowhere(place: int) -> tuple[Statement, str]:
    """The problem of an unmapped address, and its words."""
    said = Statement("not-mapped", names={"address": f"{place:#x}"})
    return said, sentence(said)


def if_lost(style: Style, goal: Goal) -> list[str]:
    return [f"{style.typed('leaks')} (whether it is lost, with what)"] if goal.number is not None else []
