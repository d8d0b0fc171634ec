"""`heap waste`: the programs themselves count what they waste (services with and without a fault: tests/faults)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator, NamedTuple, Sequence

import pytest
from fault_services import Service
from looks import ROOT, give_up
from marks import full_after
from shell_door import ask, look
from subjects import Started

pytestmark = pytest.mark.xdist_group("waste")
Row = dict[str, Any]
PROGRAMS = ROOT / "fixtures" / "build" / "waste"
NAMES = sorted(each.stem for each in (ROOT / "fixtures" / "waste").iterdir() if each.suffix in (".c", ".cc", ".rs"))
CLOSE = 0.05
"""By so much what is found may differ from what the program counts; of so much of its memory it may not be accused."""


class Fault(NamedTuple):
    """What a program says that it wastes."""

    reason: str
    number: int
    unused: int
    path: str
    """The end of it: which variable of main a path begins with depends on the compiler."""


@contextmanager
def waiting(name: str) -> Iterator[tuple[int, list[Fault]]]:
    """A program that waits, by its pid, and its faults."""
    program = PROGRAMS / name
    if not program.exists():
        give_up(f"{program.relative_to(ROOT)} is not built: make fixtures")
    with Started(program) as process:
        faults, line = [], process.said
        while line != "ready":
            reason, number, unused, path = line.split(" ", 3)
            faults.append(Fault(reason, int(number), int(unused), path))
            line = process.hear()
        yield process.pid, faults


def asked(pid: int, words: str = "") -> dict[str, Any]:
    return ask(pid, f"waste {words} --limit 0 --declared")


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


@pytest.mark.parametrize("level", full_after(1, ("O1", "O2")))
@pytest.mark.parametrize("name", NAMES)
def test_what_is_wasted_is_what_the_program_counts(name: str, level: str) -> None:
    with waiting(f"{name}.{level}") as (pid, faults):
        agrees(asked(pid), faults)


def test_it_says_so_where_most_is_free_between_blocks() -> None:
    """Nothing of the live blocks is wasted: what they keep from going back is free."""
    with Service("ingest") as service:
        answer = asked(service.pid)
    agrees(answer, ())
    (note,) = answer["notes"]
    assert note["id"] == "mostly-free"
    assert note["figures"]["free_bytes"] == pytest.approx(service.truth.bytes, rel=CLOSE)
    assert note["figures"]["live_bytes"] == answer["live_bytes"]


def test_equal_texts_are_shown_on_the_users_own_screen_alone() -> None:
    with Service("catalog") as service:
        screen, plain = (look(service.pid, f"waste --declared{more}").out for more in ("", " --json"))
        with_values = ask(service.pid, "waste --declared --with-values")
    assert "Supplier " in screen
    assert "Supplier " not in plain
    texts = [each["value"] for each in with_values["waste"][0]["frequent"]]
    assert len(texts) == 3
    assert all(each.startswith('"Supplier ') for each in texts)


def test_rows_are_chosen_by_size_and_pattern() -> None:
    with waiting("telemetry.O1") as (pid, _):
        every = asked(pid)["waste"]
        largest = max(row["unused_bytes"] for row in every)
        assert [row["unused_bytes"] for row in every] == sorted((row["unused_bytes"] for row in every), reverse=True)
        assert asked(pid, f"--min {largest}")["waste"] == [every[0]]
        matching = asked(pid, "--match *scratch")["waste"]
        assert [row["path"] for row in matching] == ["store->sessions[]->scratch"]
