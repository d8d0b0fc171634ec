"""`heap waste`: the programs themselves count what they waste, and those without a fault waste next to nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Sequence

import pytest
from doors import DOORS, GDB, NEWEST, Core, Door, Image
from faulty import LEVELS, Fault, names, serving, waiting
from looks import opened
from marks import full_after
from schemas import valid
from shell_door import SHELL

pytestmark = pytest.mark.xdist_group("waste")
Row = dict[str, Any]
CLOSE = 0.05
"""By so much what is found may differ from what the program counts; of so much of its memory it may not be accused."""


def asked(door: Door, image: Image, words: str = "") -> dict[str, Any]:
    options = "--declared" if door is SHELL else ""
    (found,) = opened(door).run(image, [f"waste {words} --limit 0 --json {options}"])
    return dict(valid(json.loads(found.text)))


def row_of(rows: Sequence[Row], fault: Fault) -> Row:
    (row,) = [each for each in rows if each["reason"] == fault.reason and each["path"].endswith(fault.path)]
    return row


def agrees(answer: dict[str, Any], faults: Sequence[Fault]) -> None:
    """Each fault has a row, and what has none is not worth a word."""
    rows = answer["waste"]
    told = [row_of(rows, fault) for fault in faults]
    for fault, row in zip(faults, told):
        assert row["certain"]
        assert row["containers"] == fault.number
        assert row["unused_bytes"] == pytest.approx(fault.unused, rel=CLOSE)
        assert row["unused_bytes"] == row["room_bytes"] - row["used_bytes"]
        assert 0 <= row["unused_resident_bytes"] <= row["unused_bytes"]
    for row in (each for each in rows if each not in told):
        assert row["unused_bytes"] < CLOSE * answer["live_bytes"], row


@pytest.mark.parametrize("level", full_after(1, LEVELS))
@pytest.mark.parametrize("name", names())
def test_what_is_wasted_is_what_the_program_counts(name: str, level: str) -> None:
    with waiting(f"{name}.{level}") as program:
        agrees(asked(SHELL, program.image), program.faults)


FAULTY = {
    "telemetry": "unused-room",
    "broker": "unused-room",
    "peers": "unused-room",
    "gateway": "emptied",
    "uploads": "emptied",
    "documents": "destroyed-kept",
    "presence": "destroyed-kept",
    "bus": "duplicates",
    "catalog": "duplicates",
    "scheduler": "captured",
    "inventory": "tiny-containers",
    "mailbox": "tiny-containers",
    "prefs": "tiny-containers",
    "samples": "node-overhead",
    "routes": "rounding",
    "chat": "unlisted",
    "timers": "unlisted",
    "invoices": "unlisted",
    "resolver": "unlisted",
    "symbols": "unlisted",
}
"""Services whose fault waste finds."""
SOUND = ("dnscache", "logstore", "metrics", "orderbook", "searcher", "streams", "world")


@pytest.mark.parametrize("level", full_after(1, LEVELS[::-1]))
@pytest.mark.parametrize("name", FAULTY)
def test_the_fault_of_a_service_is_its_first_row(name: str, level: str) -> None:
    with serving(f"{name}.{level}") as service:
        row = asked(SHELL, service.image)["waste"][0]
    assert row["reason"] == service.reason == FAULTY[name]
    assert row["certain"]
    assert row["unused_bytes"] == pytest.approx(service.bytes, rel=CLOSE)
    assert 0 <= row["unused_resident_bytes"] <= row["unused_bytes"]
    assert row["advice"]["id"]


@pytest.mark.parametrize("level", full_after(1, LEVELS[::-1]))
@pytest.mark.parametrize("name", SOUND)
def test_a_service_without_a_fault_is_accused_of_nothing(name: str, level: str) -> None:
    with serving(f"{name}.{level}") as service:
        assert service.reason is None
        agrees(asked(SHELL, service.image), ())


# its buffers are as large as one request needs, and empty between two
@pytest.mark.parametrize("name", full_after(3, sorted(FAULTY.keys() - {"uploads"})))
def test_a_service_without_its_fault_is_accused_of_nothing(name: str) -> None:
    with serving(f"{name}.O2", "mended") as service:
        agrees(asked(SHELL, service.image), ())


def test_it_says_so_where_most_is_free_between_blocks() -> None:
    """Nothing of the live blocks is wasted: what they keep from going back is free."""
    with serving("ingest.O2") as service:
        answer = asked(SHELL, service.image)
    agrees(answer, ())
    (note,) = answer["notes"]
    assert note["id"] == "mostly-free"
    assert note["figures"]["free_bytes"] == pytest.approx(service.bytes, rel=CLOSE)
    assert note["figures"]["live_bytes"] == answer["live_bytes"]


def test_equal_texts_are_shown_on_the_users_own_screen_alone() -> None:
    with serving("catalog.O2") as service:
        commands = ["waste", "waste --json", "waste --json --with-values"]
        screen, plain, with_values = opened(SHELL).run(service.image, [f"{each} --declared" for each in commands])
    assert "Supplier " in screen.text
    assert "Supplier " not in plain.text
    texts = [each["value"] for each in valid(json.loads(with_values.text))["waste"][0]["frequent"]]
    assert len(texts) == 3
    assert all(each.startswith('"Supplier ') for each in texts)


@pytest.mark.needs_gdb
@pytest.mark.parametrize("name", full_after(1, ["telemetry.O2", "rooms.O2", "arrays.O2"]))
def test_every_door_says_the_same_of_a_process_and_its_core(name: str, tmp_path: Path) -> None:
    doors = [DOORS[each] for each in NEWEST]
    with waiting(name) as program:
        found = [asked(door, program.image)["waste"] for door in doors]
        opened(GDB).do(program.image, [f"generate-core-file {tmp_path / 'core'}"])
        core = Core(tmp_path / "core", program.image.program)
        of_core = [asked(door, core)["waste"] for door in doors]
    for rows in (*found, *of_core):
        assert [[*map(sound, rows)]] == [[*map(sound, found[0])]]


def sound(row: Row) -> Row:
    """Without what a core may not know: what was in memory."""
    return {key: value for key, value in row.items() if key not in ("unused_resident_bytes", "advice")}


def test_rows_are_chosen_by_size_and_pattern() -> None:
    with waiting("telemetry.O1") as program:
        every = asked(SHELL, program.image)["waste"]
        largest = max(row["unused_bytes"] for row in every)
        assert [row["unused_bytes"] for row in every] == sorted((row["unused_bytes"] for row in every), reverse=True)
        assert asked(SHELL, program.image, f"--min {largest}")["waste"] == [every[0]]
        matching = asked(SHELL, program.image, "--match *scratch")["waste"]
        assert [row["path"] for row in matching] == ["store->sessions[]->scratch"]
