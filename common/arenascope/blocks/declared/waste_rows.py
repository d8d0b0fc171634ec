"""What of the live blocks a program does not use, as the engine finds it: by the way to it."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

from ...base.heap_model import WASTE_REASONS
from ...engine import TracedBlocks
from ...session.session import Session
from ...sources.target import Span, joined


class EqualBlocks(NamedTuple):
    """Contents that several blocks have."""

    start: int
    """Where they are in one of them."""
    bytes: int
    number: int
    """How many blocks have them."""


class ListedElsewhere(NamedTuple):
    """What keeps objects apart that one list has alone."""

    path: str
    """The list that does not have them."""
    member: str
    listed: int
    """The member's value in what both lists have."""
    unlisted: int
    """Its value in what one has alone."""


class TakesMost(NamedTuple):
    """The type whose objects take most, with what they keep apart."""

    type: str
    bytes: int


class WasteRow(NamedTuple):
    """What is reached in one way, and not needed for one reason."""

    reason: str
    """One of WASTE_REASONS."""
    path: str
    type: str
    certain: bool
    total: int
    """So many containers or blocks there are on that path; what follows is of those that waste."""
    number: int
    elements: int
    used: int
    """In bytes, as all below."""
    room: int
    resident: Optional[int]
    """What of the unused part is in memory; None: not known."""
    sample: int
    """A block of the largest one."""
    is_text: bool = False
    """Of duplicates: they are characters."""
    frequent: Sequence[EqualBlocks] = ()
    """Of duplicates: the most frequent contents first."""
    elsewhere: Optional[ListedElsewhere] = None
    """Of what is unlisted, but for texts that their table alone has."""

    hits: Optional[int] = None
    """Of a cache of results: how often one was found."""
    mostly: Optional[TakesMost] = None
    """Of Python's objects."""

    @property
    def unused(self) -> int:
        return self.room - self.used


def traced_waste(session: Session, traced: TracedBlocks) -> Iterator[WasteRow]:
    """What wastes most first. KeyboardInterrupt."""
    answer = traced.waste(in_memory(session))
    for _ in range(answer.number()):
        reason, path, type = WASTE_REASONS[answer.number()], answer.string(), answer.string()
        certain = bool(answer.number())
        total, number, elements, used, room = (answer.size() for _ in range(5))
        resident, sample = answer.option(), answer.size()
        is_text = bool(answer.number())
        frequent = [EqualBlocks(answer.size(), answer.size(), answer.size()) for _ in range(answer.number())]
        elsewhere = None
        for _ in range(answer.number()):
            elsewhere = ListedElsewhere(answer.string(), answer.string(), answer.number(), answer.number())
        row = WasteRow(reason, path, type, certain, total, number, elements, used, room, resident, sample)
        yield row._replace(is_text=is_text, frequent=frequent, elsewhere=elsewhere)


def in_memory(session: Session) -> Optional[Sequence[Span]]:
    """What of malloc's memory is resident, in order; None where that is not known."""
    residency = session.residency
    if residency is None:
        return None
    mapped = (Span(block.base, block.base + block.bytes) for block in session.mmapped)
    found: list[Span] = []
    for part in sorted([*session.heap_ranges, *mapped]):
        present = residency.resident_ranges(*part)
        if present is None:
            return None
        found += present
    return joined(found)
