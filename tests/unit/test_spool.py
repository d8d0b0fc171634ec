"""Rows that are too many to keep in memory, in order and without loss."""

from __future__ import annotations

import pytest

from arenascope.present.json_documents import record
from arenascope.present.json_documents.record import Spool


@pytest.mark.parametrize("number", [0, 1, 3, 4, 1000])
def test_what_was_added_comes_back(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "IN_MEMORY", 30)
    kept = Spool()
    lines = [f"row {n} █" for n in range(number)]
    for line in lines:
        kept.add(line)
    assert kept.count == number
    assert list(kept) == lines
    # a second reading, and what came in between
    kept.add("another")
    assert list(kept) == [*lines, "another"]
