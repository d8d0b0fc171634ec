"""What types and owners take, told before a look for them, and left out where that is too long (for real:
test_snapshot.py)."""

from __future__ import annotations

import pytest
from heapbuilder import HeapImage

from arenascope.commands.steps import look_cost
from arenascope.commands.steps.look_cost import EACH_BLOCK, LONG, START, LookCost, LookLimit, predict_cost
from arenascope.session.session import Session


@pytest.mark.parametrize(
    ("takes", "allowed", "is_left_out", "told"),
    [
        (LONG / 2, LONG, False, 0),
        (LONG * 2, LONG * 3, False, 1),
        (LONG * 2, LONG, True, 0),
        # 0: as long as it takes
        (LONG * 200, 0, False, 1),
    ],
)
def test_what_takes_long_is_told_or_left_out(
    takes: float, allowed: float, is_left_out: bool, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Session] = []
    said: list[str] = []

    def foretold(session: Session) -> LookCost:
        asked.append(session)
        return LookCost(takes, 0)

    monkeypatch.setattr(look_cost, "predict_cost", foretold)
    limit = LookLimit(allowed, said.append)
    assert limit.problems == []
    session = Session(HeapImage("2.36-64").target())
    assert [limit.is_exceeded(session) for _ in range(2)] == [is_left_out] * 2
    assert (len(asked), len(said)) == (1, told)
    assert [each.id for each in limit.problems] == ["types-take-too-long"] * is_left_out
    for each in limit.problems:
        assert each.figures["enough"] > takes


def test_the_cost_of_a_look_is_foretold_by_the_number_of_blocks() -> None:
    image = HeapImage("2.36-64")
    for _ in range(12_000):
        image.main.used(0x80)
    cost = predict_cost(Session(image.target()))
    assert cost == pytest.approx(LookCost(START + 12_000 * EACH_BLOCK, 0), rel=0.05)


def test_a_fault_in_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(session: Session, most: int) -> int:
        raise TypeError("wrong")

    monkeypatch.setattr(look_cost, "likely_chunks", wrong)
    with pytest.raises(TypeError):
        predict_cost(Session(HeapImage("2.36-64").target()))
