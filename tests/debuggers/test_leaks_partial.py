"""heap leaks in cores that lack something: nothing is called lost that a whole core would not call so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional

import pytest
from schemas import valid
from shell_door import ask, look
from subjects import Subject

WHOLE = (0x33, 0x7F)
PARTLY = (0x31, 0x11, 0x3, 0x1)
"""Without shared memory; without the first pages of files, which say what they are."""
EMPTY = (0x10, 0x2, 0x0)
STEPS = 40


class Sums(NamedTuple):
    blocks: int
    bytes: int
    heads: int


NOTHING = Sums(0, 0, 0)
OF_KERNEL = Sums(2, 160, 2)
"""What epoll and a timer have."""


def definite(core: Path) -> Optional[Sums]:
    """What is called lost; None where the core is no heap to it, which is one line."""
    status, said, complained = look(core, "leaks", "--json")
    if status == 2:
        assert len(complained.splitlines()) <= 2, complained
        return None
    assert said, (status, complained)
    document: dict[str, Any] = valid(json.loads(said))
    rows = [each for each in document["leaks"] if each["strength"] == "definite"]
    assert status == bool(rows), complained
    assert not (rows and document["unknown"]["blocks"]), document
    assert document["complete"] or document["problems"]
    return Sums(
        sum(each["blocks"] + each["indirect_blocks"] for each in rows),
        sum(each["bytes"] + each["indirect_bytes"] for each in rows),
        sum(each["blocks"] for each in rows),
    )


def truth(subject: Subject) -> Sums:
    """What was dropped; of owners nothing."""
    if subject.program.name == "owners":
        return NOTHING
    return Sums(*map(int, (subject.folder / "truth" / "leaky.txt").read_text().split()))


@pytest.mark.full
def test_what_epoll_may_keep() -> None:
    """No core of the kernel's or GDB's has that: what nothing else leads to is perhaps lost, and no more."""
    with Subject("owners", coredump_filter=0x33) as subject:
        for core in (subject.gcore(), subject.kernel_core()):
            document = ask(core, "leaks")
            assert "epoll-unknown" in {each["id"] for each in document["problem_records"]}
            rows = [each for each in document["leaks"] if (each["blocks"], each["bytes"]) == OF_KERNEL[:2]]
            assert rows
            assert {each["strength"] for each in document["leaks"]} == {"possible"}
            text = look(core, "leaks")[1]
            assert "epoll" in text
            assert "possibly lost: " in text
            assert " --possible" in text
            assert " --possible" not in look(core, "leaks", "--possible")[1]


def quick(fixture: str, bits: int) -> bool:
    return (fixture, bits) in (("owners", 0x1), ("leaky", 0x33))


@pytest.mark.parametrize(
    ("fixture", "bits"),
    [
        pytest.param(fixture, bits, id=f"{fixture}-{bits:#x}", marks=() if quick(fixture, bits) else pytest.mark.full)
        for fixture in ("leaky", "owners")
        for bits in (*WHOLE, *PARTLY, *EMPTY)
    ],
)
def test_what_a_filter_left_out(fixture: str, bits: int) -> None:
    with Subject(fixture, coredump_filter=bits) as subject:
        found, dropped = definite(subject.kernel_core()), truth(subject)
    if bits in WHOLE:
        assert found == dropped
    else:
        # which stacks are those of ended threads the first pages of libc tell
        assert found is None or all(some <= most for some, most in zip(found, dropped))


def cuts(core: Path, steps: int) -> Iterator[Path]:
    """The core, shorter and shorter."""
    size = core.stat().st_size
    os.truncate(core, size - 1)
    yield core
    for step in range(steps - 1, 0, -1):
        os.truncate(core, size * step // steps)
        yield core


@pytest.mark.parametrize(
    ("fixture", "steps"),
    [("leaky", 4), *(pytest.param(each, STEPS, marks=pytest.mark.full) for each in ("leaky", "owners"))],
)
def test_a_cut_core_calls_nothing_lost(fixture: str, steps: int) -> None:
    """What it lacks may have had the pointers."""
    with Subject(fixture) as subject:
        found = [definite(core) for core in cuts(subject.kernel_core(), steps)]
    assert len(found) == steps
    assert set(found) <= {NOTHING, None}, found
    # so little is missing at first that all the rest is told
    assert found[0] == NOTHING
