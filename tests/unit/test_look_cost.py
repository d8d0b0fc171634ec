"""The cost of naming types and owners is predicted before a look for them (for real: test_snapshot.py)."""

from __future__ import annotations

import pytest
from heapbuilder import HeapImage

from arenascope.commands.snapshot import EACH_BLOCK, START, LookCost, predict_cost
from arenascope.session.session import Session


def test_the_cost_of_a_look_is_foretold_by_the_number_of_blocks() -> None:
    image = HeapImage("2.36-64")
    for _ in range(12_000):
        image.main.used(0x80)
    cost = predict_cost(Session(image.target()))
    assert cost == pytest.approx(LookCost(START + 12_000 * EACH_BLOCK, 0), rel=0.05)
