"""A task that has another's thread pointer, or the kernel's own: there is one cache, whoever is seen to lead to it."""

from __future__ import annotations

from typing import Iterator, Sequence

import pytest
from doors import DOORS, NEWEST, Core, Live
from looks import Outcome, opened
from marks import full_after, in_full
from schemas import problem_ids
from subjects import Subject

HOW = ("clone", "ring")
COMMANDS = tuple(f"{each} --json" for each in ("arenas", "bins", "threads", "check", "leaks"))


@pytest.fixture(params=full_after(1, HOW))
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    with Subject("lone", request.param, guard_regions=False) as held:
        if not held.truth["notes"]["task"]:
            pytest.skip("this kernel gives no io_uring here")
        yield held


def check(outcomes: Sequence[Outcome], subject: Subject) -> None:
    arenas, bins, threads, check, leaks = (each.json() for each in outcomes)
    for each in (arenas, bins, threads, leaks):
        assert (each["complete"], problem_ids(each)) == (True, [])
    notes, counted = subject.truth["notes"], subject.truth["mallinfo"]
    rows = {each["tid"]: each for each in threads["threads"]}
    task, worker = rows.pop(notes["task"]), next(each for each in rows.values() if each["arena"] == 1)
    assert (task["arena"], task["tcache"]["chunks"]) == (None, 0)
    cached = [each for each in bins["bins"] if (each["kind"], each["min_bytes"]) == ("tcache", notes["chunk"])]
    assert [(each["tid"], each["chunks"]) for each in cached] == [(worker["tid"], notes["cached"])]
    # to malloc what a cache holds is in use
    taken = sum(each["used_bytes"] + each["tcache"]["bytes"] for each in arenas["arenas"])
    assert taken == counted["uordblks"]
    assert check["breaches"] == []


@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
@pytest.mark.parametrize("symbols", [True, *in_full(False)], ids=["symbols", "stripped"])
def test_there_is_one_cache(subject: Subject, door: str, symbols: bool) -> None:
    check(opened(DOORS[door]).run(Live(subject.pid, subject.program), COMMANDS, symbols), subject)
    for core in (subject.gcore, subject.kernel_core):
        check(opened(DOORS[door]).run(Core(core(), subject.program), COMMANDS, symbols), subject)
