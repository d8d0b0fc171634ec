"""heap trim --apply, where the process stands inside malloc: it is brought out, and lives on."""

from __future__ import annotations

from typing import Mapping, Optional

import pytest
from applying import APPLY, CONSOLIDATE, FREE, applied, drive, lives_on, stands_at, stop_at, tell
from doors import Gdb
from marks import in_full
from subjects import Subject

MIDDLES = (
    (("_int_malloc",), "tiny_top", "tick"),
    (FREE, "tiny_top", "tick"),
    (("unlink_chunk",), "tiny_top", "tick"),
    (CONSOLIDATE, "tiny_top", "trim"),
    pytest.param(("sysmalloc",), "tiny_top", "tick", marks=pytest.mark.full),
    pytest.param(("__brk",), "tiny_top", "tick", marks=pytest.mark.full),
    pytest.param(("munmap_chunk",), "mmapped", "free lazy_64m", marks=pytest.mark.full),
    pytest.param(("systrim",), "tiny_top", "trim", marks=pytest.mark.full),
)


def first(value: object) -> Optional[str]:
    """What a place is called in a test's name."""
    return value[0] if isinstance(value, tuple) else None


@pytest.mark.parametrize(("places", "fixture", "command"), MIDDLES, ids=first)
def test_the_only_thread_stands_inside_malloc(gdb: Gdb, places: tuple[str, ...], fixture: str, command: str) -> None:
    """A program with one thread takes no lock, so that its frames alone tell."""
    with Subject(fixture) as subject:
        outcomes = drive(
            gdb,
            subject,
            stop_at(*places),
            tell(subject, command),
            "continue",
            "backtrace",
            APPLY,
            "info breakpoints",
            "backtrace 1",
            "delete",
        )
        stack, doing, breakpoints, where = outcomes[3:7]
        assert stands_at(places, stack.text)
        assert applied(doing)
        assert "malloc.c" not in where.text
        assert " y " in breakpoints.text
        assert subject.hear() in ("ticked", "freed lazy_64m", "trimmed 1")
        lives_on(subject)


@pytest.mark.parametrize(
    "places",
    [
        ("_int_malloc",),
        pytest.param(FREE, marks=pytest.mark.full),
        pytest.param(("sysmalloc",), marks=pytest.mark.full),
        *in_full(("systrim",)),
    ],
    ids=first,
)
def test_one_holds_the_lock_that_others_wait_for(gdb: Gdb, places: tuple[str, ...]) -> None:
    with Subject("churn", "6", env={"MALLOC_ARENA_MAX": "1"}) as subject:
        outcomes = drive(gdb, subject, stop_at(*places), "continue", "backtrace 1", APPLY, "delete")
        assert stands_at(places, outcomes[2].text)
        assert applied(outcomes[3])["released_bytes"] > 0
        lives_on(subject)


CHURNS: dict[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "own-arenas": (("4",), {}),
    "one-arena": (("4",), {"MALLOC_ARENA_MAX": "1"}),
    "crowd": (("12",), {"MALLOC_ARENA_MAX": "2"}),
}


def rounds(gdb: Gdb, number: int, kind: str, symbols: bool) -> None:
    """Attach, apply, detach, again and again, while threads do nothing but malloc and free."""
    arguments, env = CHURNS[kind]
    with Subject("churn", *arguments, env=env) as subject:
        for turn in range(number):
            tops = " --tops" if turn % 2 else ""
            (outcome,) = drive(gdb, subject, f"heap trim --apply -y --json{tops}", symbols=symbols)
            assert applied(outcome)["seconds"] < 10
            assert subject.send("tick") == "ticked"
            assert subject.send("check") == "intact"
        assert subject.quit() == 0


@pytest.mark.full
@pytest.mark.parametrize("symbols", [True, False], ids=["symbols", "stripped"])
@pytest.mark.parametrize("kind", ["own-arenas", "one-arena", "crowd"])
def test_a_process_that_never_stands_still(gdb: Gdb, kind: str, symbols: bool) -> None:
    rounds(gdb, 3, kind, symbols)


@pytest.mark.soak
@pytest.mark.parametrize("symbols", [True, False], ids=["symbols", "stripped"])
@pytest.mark.parametrize("kind", CHURNS)
def test_a_hundred_rounds(gdb: Gdb, kind: str, symbols: bool) -> None:
    rounds(gdb, 100, kind, symbols)


def test_interrupted_system_calls_go_on(gdb: Gdb) -> None:
    """The call is made in each of the waiting threads in turn."""
    with Subject("waiting", "4") as subject:
        turns = [command for number in range(1, 10) for command in (f"thread {number}", APPLY)]
        outcomes = drive(gdb, subject, *turns)
        for outcome in outcomes[1::2]:
            applied(outcome)
        assert subject.send("tick") == "ticked"  # once the last of them is back
        assert subject.quit() == 0
