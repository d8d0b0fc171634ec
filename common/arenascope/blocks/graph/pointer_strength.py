"""How sure it is that a word is a pointer to a block: its start is what malloc gave, its inside may be chance or old.

The engine tells (pointer_strength.rs), by what the block itself holds.
"""

from __future__ import annotations

from array import array
from itertools import chain

from ...engine import StrengthGround
from ..name_all_blocks import catalogue_of
from .asked_address import Goal
from .pointers_to import ImageSearch
from .roots import Ref

CODE, ABSENT = 1, 2


def strength_of(search: ImageSearch) -> StrengthGround:
    """What the engine has to know of an image to judge pointers, found once."""
    if search.strength is None:
        session, starts = search.session, search.blocks.starts
        constant = [each for each in session.regions if each.is_file and each.readable and not each.shared]
        rows = ((each.start, each.end, CODE * each.executable + ABSENT * (not each.present)) for each in constant)
        catalogue = catalogue_of(session)
        fronts = map(catalogue.in_front, starts) if catalogue.has_fronts else ()
        search.strength = StrengthGround(array("Q", chain.from_iterable(rows)), array("I", chain.from_iterable(fronts)))
    return search.strength


def is_sure(search: ImageSearch, ref: Ref, goal: Goal) -> bool:
    """Of what is known to lead there."""
    if ref.encoding is not None:
        return False
    if ref.value == goal.span.start or goal.number is None:
        return ref.value == goal.span.start
    return search.engine.is_definite(strength_of(search), goal.number, ref.value, ref.address or 0)
