"""What heap pins shows of blocks in the way (their figures: test_pins_rules.py, and debuggers/test_pins.py)."""

from __future__ import annotations

import re

from fake_door import run_json, run_text
from heapbuilder import HeapImage

from arenascope.present.shared_text.lines_and_tables import NO_HEAP


def between(count: int) -> HeapImage:
    """Small blocks, each between two free chunks that come to a page only together."""
    image = HeapImage("2.36-64")
    for _ in range(count):
        image.main.free(0xC00)
        image.main.used(0x50)
    image.main.free(0xC00)
    image.main.used(0x50)
    return image


def test_a_list_that_is_cut_says_so() -> None:
    whole = run_json(between(12).target(), "pins", "--limit", "0")
    some = run_json(between(12).target(), "pins", "--limit", "3")
    assert len(whole["pins"]) > 4
    assert some["pins"] == whole["pins"][:3]
    assert some["left_out"] == len(whole["pins"]) - 3
    assert some["one_per_arena"] == whole["one_per_arena"]
    sizes = [pin["releases_bytes"] for pin in whole["pins"]]
    assert sizes == sorted(sizes, reverse=True)
    text = run_text(between(12).target(), "pins", "--limit", "3")
    assert "more blocks; --limit 0 shows all" in text
    assert re.search(rf"\b{len(whole['pins']):,} blocks .*\b3 ", text, re.DOTALL)
    assert "--limit" not in run_text(between(12).target(), "pins", "--limit", "0")


def test_blocks_alike_are_one_row() -> None:
    """With how many they are, and from what size to what size."""
    image = HeapImage("2.36-64")
    for size in (0x50, 0x60, 0x70, 0x50, 0x50, 0x50, 0x50, 0x50):
        image.main.free(0xC00)
        image.main.used(size)
    pins = run_json(image.target(), "pins")["pins"]
    text = run_text(image.target(), "pins")
    rows = re.findall(r"^(0x\w+) +(\d+)  ", text, re.MULTILINE)
    assert len(rows) < len(pins)
    assert rows[0][0] == pins[0]["user_address"]
    assert sum(int(blocks) for _, blocks in rows) == len(pins)
    alike = {pin["bytes"] for pin in pins if pin["releases_bytes"] == pins[0]["releases_bytes"]}
    assert len(alike) > 1
    assert f"  {min(alike)} B to {max(alike)} B  " in text
    # one alone needs no count
    assert "blocks" not in next(
        line for line in run_text(between(2).target(), "pins", "--limit", "1").splitlines() if line.startswith("block ")
    )


def test_blocks_that_keep_their_own_pages_are_left_out() -> None:
    image = between(4)
    image.main.used(0x50)
    image.main.free(0x400)
    big = image.main.used(0x8000)
    image.main.used(0x50)
    target = image.target()
    usual, own = run_json(target, "pins"), run_json(target, "pins", "--own")
    assert f"{big.address:#x}" not in [pin["address"] for pin in usual["pins"]]
    assert f"{big.address:#x}" in [pin["address"] for pin in own["pins"]]
    assert usual["own_left_out"] == len(own["pins"]) - len(usual["pins"])
    assert "--own shows them" in run_text(target, "pins")


def test_what_keeps_it_first_is_said() -> None:
    pins = run_json(between(4).target(), "pins")["pins"]
    for pin in pins:
        assert [(each["id"], each["figures"]) for each in pin["note_records"]] == [
            ("cached-first", {"slots": 7}),
            ("in-fastbin-first", {}),
        ]
        assert pin["note"] == ", then ".join(each["text"] for each in pin["note_records"])


def test_a_cache_that_is_full_takes_no_more() -> None:
    """What free() does first is told of the caches as they are."""
    for full, kind in ((0, "cached-first"), (1, "cached-unless-full"), (2, "caches-full")):
        image = between(4)
        threads = image.thread(0, image.main), image.thread(1, image.main)
        for thread in threads:
            thread.cached(0x50)
        for thread in threads[:full]:
            while thread.accepts(0x50):
                thread.cached(0x50)
        figures = {"slots": 7, "full": full, "threads": 2} if full else {"slots": 7}
        for pin in run_json(image.target(), "pins")["pins"]:
            assert [(each["id"], each["figures"]) for each in pin["note_records"]] == [
                (kind, figures),
                ("in-fastbin-first", {}),
            ]


def test_nothing_is_in_the_way() -> None:
    image = HeapImage("2.36-64")
    image.main.used(0x100)
    assert run_text(image.target(), "pins").count("\n") == 1
    assert run_json(image.target(), "pins")["pins"] == []
    empty = HeapImage("2.36-64", heap=False)
    assert NO_HEAP in run_text(empty.target(), "pins")
    assert run_json(empty.target(), "pins")["one_per_arena"]["releases_bytes"] == 0
