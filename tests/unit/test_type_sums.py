"""heap types on built heaps: every live block is in one row, whatever the word size and the order of bytes."""

from __future__ import annotations

import pytest
from fake_door import run_json
from heap_mixtures import everything
from heap_pictures import used_bytes


@pytest.mark.parametrize("row", ["2.27-64", "2.36-64", "2.43-64", "2.35-i386", "2.36-aarch64", "2.36-s390x"])
def test_rows_are_all_that_is_in_use(row: str) -> None:
    image = everything(row)
    document = run_json(image.target(), "types", "--limit", "0")
    totals = document["totals"]
    assert document["problems"] == []
    for key in ("blocks", "bytes"):
        assert sum(each[key] for each in document["types"]) == totals[key]
    told = totals["bytes"] + totals["bookkeeping_bytes"] + totals["foreign_bytes"] + totals["damaged_bytes"]
    assert told == totals["used_bytes"] + totals["mmapped_bytes"]
    in_arenas = sum(used_bytes(arena) for arena in image.truth.arenas)
    assert totals["used_bytes"] == in_arenas
    assert totals["mmapped_bytes"] == sum(block.total for block in image.truth.mmapped)


def test_what_is_shown_is_chosen() -> None:
    target = everything("2.36-64").target()
    rows = run_json(target, "types", "--limit", "0")["types"]
    assert run_json(target, "types", "--limit", "2")["types"] == rows[:2]
    assert run_json(target, "types", "--limit", "2")["left_out"] == len(rows) - 2
    by_blocks = run_json(target, "types", "--by", "blocks")["types"]
    assert [each["blocks"] for each in by_blocks] == sorted((each["blocks"] for each in rows), reverse=True)
    largest = run_json(target, "types", "--min", "64K")["types"]
    assert largest == [each for each in rows if each["bytes"] >= 65536]
    (zeros,) = run_json(target, "types", "--match", "first?bytes*")["types"]
    assert zeros in rows
    assert sum(each["bytes"] for each in run_json(target, "types", "--arena", "0")["types"]) < sum(
        each["bytes"] for each in rows
    )
