"""Segments of one of V8's zones are told by one walk over all of them, however many there are."""

from __future__ import annotations

from typing import Optional

import pytest

from arenascope.blocks.recognise.v8 import V8, Zone

ZONE, NAME, FIRST, STEP, MANY = 0x10000, 0x20000, 0x100000, 0x2010, 500
USABLE = STEP - 8


class Ground:
    """A zone with many segments, as V8 lays them out."""

    pages = frozenset({NAME >> 12})

    def __init__(self) -> None:
        self.reads = 0
        self.memory = {ZONE + 8 * 5: FIRST, ZONE + 8 * 6: NAME}
        for number in range(MANY):
            at = FIRST + number * STEP
            self.memory.update({at: ZONE, at + 8: at + STEP if number < MANY - 1 else 0, at + 16: USABLE})

    def has(self, *_: str) -> bool:
        return True

    def words(self, address: int, count: int) -> tuple[int, ...]:
        self.reads += 1
        return tuple(self.memory.get(address + 8 * place, 0) for place in range(count))

    def string(self, address: int, _: int) -> Optional[bytes]:
        return b"parser-zone" if address == NAME else None


def test_each_is_read_once() -> None:
    ground = Ground()
    found = V8(ground).zone(ZONE)  # type: ignore[arg-type]
    assert found == Zone("parser-zone", set(range(FIRST, FIRST + MANY * STEP, STEP)))
    assert ground.reads <= MANY + 2


@pytest.mark.parametrize("leads_to", [FIRST, FIRST + STEP, ZONE, 1])
def test_a_damaged_list_ends_and_names_none(leads_to: int) -> None:
    ground = Ground()
    ground.memory[FIRST + (MANY - 1) * STEP + 8] = leads_to
    assert V8(ground).zone(ZONE) is None  # type: ignore[arg-type]
