"""JSON records of containers."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from ...base.model import CONTAINER_FORMS
from .record import Address, Document, Record, Size, StatementRecord


class ContainerRecord(Record):
    """All containers with the same path."""

    path: Annotated[str, "The way to them, as the program would write it; [] stands for any element"]
    type: Annotated[str, "As it is declared; of lists and trees that of their elements"]
    form: Annotated[str, ("enum", CONTAINER_FORMS), "What it is"]
    links: Annotated[Sequence[str], "By which its elements lead to each other, where the program links them"]
    certain: Annotated[bool, "False: something on the way is a guess"]
    containers: Annotated[Size, "How many of them have blocks"]
    elements: Annotated[Size, "How many elements they have together"]
    largest_elements: Annotated[Size, "How many the largest of them has"]
    held_bytes: Annotated[Size, "What lies below them: their blocks, and all to which these lead"]
    held_blocks: Annotated[Size, "The same in blocks"]
    buckets: Annotated[Optional[Size], "Of hash tables: how many chains there is room for"]
    longest_chain: Annotated[Optional[Size], "Of hash tables: the most elements in one bucket; null: not known"]
    sample: Annotated[Address, "A block of the largest one: what malloc returned"]


class ContainersDocument(Document, command="containers"):
    """The answer of containers."""

    containers: Annotated[Sequence[ContainerRecord], "What holds most first; --limit at most"]
    left_out: Annotated[Size, "How many more rows there are"]
    notes: Annotated[Sequence[StatementRecord], "What is not among them, and why"]
