"""Which variant a Rust enum has: where that is certain, by the number that tells it; else nobody says."""

from __future__ import annotations

from typing import Optional, Sequence

import pytest
from declared_types import WORD, DeclaredTypes

from arenascope.blocks.declared.containers.rust import Variants, enum
from arenascope.blocks.declared.layouts import TypeTable
from arenascope.sources.debug_info_types import StructField, TypeFacts

HALF = 1 << 63
ADDRESS = 4096


class Word:
    """Memory that is one number."""

    word_size = WORD

    def __init__(self, value: int) -> None:
        self.value = value

    def number(self, address: int, size: int) -> Optional[int]:
        return self.value & (1 << 8 * size) - 1 if address >= ADDRESS else None


def made(variants: Sequence[str]) -> Optional[Variants]:
    """Of variants that each have at the tag's place: a pointer, a capacity, a number, or nothing."""
    types = DeclaredTypes()
    usize = types.add(TypeFacts("usize", "integer", WORD))
    inner = {
        "pointer": types.to(types.char),
        "number": usize,
        "capacity": types.struct("alloc::raw_vec::Cap", WORD, ("__0", 0, usize)),
    }
    fields = []
    for number, each in enumerate(variants):
        members = [("__0", 0, inner[each])] if each in inner else [("__0", WORD, usize)] if each == "behind" else []
        fields.append(StructField(each, 0, types.struct(f"Made::{each}{number}", 2 * WORD, *members)))
    whole = types.add(
        TypeFacts("Made", "union", 2 * WORD, fields=fields, language="rust", tag=StructField("", 0, usize))
    )
    container = enum(TypeTable(types, WORD), whole, types.facts(whole))  # type: ignore[arg-type]
    assert container is None or isinstance(container, Variants)
    return container


@pytest.mark.parametrize(
    ("variants", "told"),
    [
        (["", "pointer"], {0: 0, 1: 1, ADDRESS: 1, HALF: 1}),
        (["pointer", "behind"], {0: 1, ADDRESS: 0}),
        (["behind", "", "behind"], {0: 0, 1: 1, 2: 2, 3: None, HALF: None}),
        (["", "capacity"], {0: 1, HALF - 1: 1, HALF: 0, HALF + 1: None}),
        # one in the middle has a number that is never used
        (["", "behind", "capacity", ""], {5: 2, HALF: 0, HALF + 1: 1, HALF + 2: None, HALF + 3: 3, HALF + 4: None}),
    ],
)
def test_variants(variants: Sequence[str], told: dict[int, Optional[int]]) -> None:
    container = made(variants)
    assert container is not None
    assert {value: container.which(Word(value), ADDRESS) for value in told} == told  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "variants", [["", "number"], ["pointer", "pointer"], ["", "", "pointer"], ["capacity", "number"], ["pointer"], []]
)
def test_what_nobody_can_tell(variants: Sequence[str]) -> None:
    assert made(variants) is None
