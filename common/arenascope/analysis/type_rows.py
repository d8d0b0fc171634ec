"""Live blocks by what they are, added up."""

from __future__ import annotations

from typing import Callable, Iterable, NamedTuple, Optional, Sequence

from ..base.block_kinds import Kind

SAMPLES = 3


class TypeRow(NamedTuple):
    """All blocks of a kind."""

    kind: Kind
    index: int  # type: ignore[assignment]  # tuple.index is of no use here
    blocks: int
    bytes: int
    resident: Optional[int]
    """None where that cannot be known."""
    holds_back: Optional[int]
    """What more would go back to the system if all of them were freed; None where that is not known."""
    samples: Sequence[int]
    """What malloc returned for the first of them."""
    may_be: Sequence[str] = ()
    """A guess, where nothing is known but their size: structs, the likeliest first."""


class Totals(NamedTuple):
    """The rows' blocks and bytes with what is no block's: bytes + bookkeeping + foreign + damaged = used + mmapped."""

    blocks: int
    bytes: int
    used: int
    """What the arenas took from the kernel and have in no list of free chunks, nor in their tops."""
    mmapped: int
    bookkeeping: int
    foreign: int
    damaged: int
    caches: int = 0
    """How many of the blocks are glibc's thread caches, which owners and leaks leave out."""


PYMALLOC = 512
"""SMALL_REQUEST_THRESHOLD: what is larger CPython asks malloc for."""


def has_arenas_of_its_own(rows: Iterable[TypeRow]) -> bool:
    """Whether small objects of CPython are missing: PYTHONMALLOC=malloc has them among the others."""
    averages = [row.bytes // row.blocks for row in rows if row.kind.kind == "python"]
    return bool(averages) and min(averages) > PYMALLOC


ORDERS: dict[str, Callable[[TypeRow], int]] = {
    "bytes": lambda row: row.bytes,
    "blocks": lambda row: row.blocks,
    "holds-back": lambda row: row.holds_back or 0,
}


def in_order(rows: Iterable[TypeRow], by: str) -> list[TypeRow]:
    """What there is most of first."""
    return sorted(rows, key=lambda row: (-ORDERS[by](row), -row.bytes, row.kind.name))
