"""What is held and what is lost, summed up for the report."""

from __future__ import annotations

from typing import Callable, Iterable, Optional

from ..analysis.held import FIRST, HeldSums, Keeper
from .components import Lump
from .edges import build
from .leaks import Leaks, doubts, find_leaks
from .owners import SHARED, UNREACHED, Owner, find_owners
from .reach import POSSIBLE, UNMARKED, Reach, marked
from .refs import Search

QUICK = 16 << 20
"""So many bytes are looked through a second time unasked without numpy: about a second."""


def summed(search: Search, lost: int, words: Callable[[Owner], str], asked: bool) -> HeldSums:
    """`lost`: bytes of a process that could not be copied; `words` names an owner. Unless it was `asked` for, what
    nothing plain leads to is looked for again only where that is little work."""
    blocks = search.blocks
    marks = Reach(search, build(search)).marks
    unreached, inside = marked(marks, UNMARKED), marked(marks, POSSIBLE)
    leaks: Optional[Leaks] = None
    if unreached and (asked or search.numpy is not None or search.bytes <= QUICK):
        leaks = find_leaks(search, lost)
        unreached, inside = _blocks(leaks.definite), _blocks(leaks.possible)
    nowhere, possible = blocks.bytes_of(unreached), blocks.bytes_of(inside)
    doubted = bool(leaks.doubts if leaks is not None else doubts(search.session, search.roots, blocks, lost))
    known = leaks is not None and not doubted
    named = [each for each in find_owners(search).holdings if each.owner.kind not in (SHARED, UNREACHED)]
    return HeldSums(
        live=blocks.bytes,
        reached=blocks.bytes - nowhere - possible,
        possible=possible,
        lost=nowhere if known else 0,
        unknown=0 if known else nowhere,
        lost_blocks=len(unreached) if known else 0,
        doubted=doubted,
        keepers=[Keeper(*each.owner, each.bytes, words(each.owner)) for each in named[:FIRST]],
    )


def _blocks(lumps: Iterable[Lump]) -> list[int]:
    return [block for each in lumps for block in (each.head, *each.others)]
