"""heap trim --apply: does what was foretold, when nobody is inside malloc, and leaves process and GDB as they were."""

from __future__ import annotations

import platform
import re
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from applying import ANOTHER_WAY, APPLY, FREE, OWN_PAGES, applied, drive, lives_on, stop_at
from doors import Core, Gdb, GdbTerminal
from looks import one_line
from marks import in_full
from subjects import Subject


@pytest.mark.parametrize("symbols", [True, False], ids=["symbols", "stripped"])
def test_releases_what_was_foretold(gdb: Gdb, symbols: bool) -> None:
    with Subject("hoard", "4", "12") as subject:
        before = subject.rollup("Anonymous")
        foretold, doing, afterwards = drive(
            gdb, subject, "heap trim --json", APPLY, "heap trim --json", symbols=symbols
        )
        fall = before - subject.rollup("Anonymous")
        found = applied(doing)
        assert found["predicted_bytes"] == foretold.json()["totals"]["resident_bytes"] > 16 << 20
        assert found["predicted_bytes"] - OWN_PAGES <= fall <= found["predicted_bytes"]
        assert afterwards.json()["totals"]["resident_bytes"] == 0
        lives_on(subject)


def test_tops_of_thread_arenas(gdb: Gdb) -> None:
    with Subject("workers", "30", "4", "2") as subject:
        before = subject.rollup("Anonymous")
        foretold, plain, doing, afterwards = drive(
            gdb, subject, "heap trim --json", APPLY, "heap trim --apply --tops -y --json", "heap trim --json"
        )
        # malloc_trim alone never touches them
        assert applied(plain)["released_bytes"] <= OWN_PAGES
        found = applied(doing)
        assert found["predicted_bytes"] == foretold.json()["totals"]["tops_resident_bytes"] >= 4 * 29_900_000
        assert before - subject.rollup("Anonymous") >= found["predicted_bytes"] - OWN_PAGES
        assert afterwards.json()["totals"]["tops_resident_bytes"] == 0
        # calloc in these very tops must find zeros
        lives_on(subject)


def test_tops_of_one_arena_alone(gdb: Gdb) -> None:
    with Subject("workers", "30", "4", "2") as subject:
        before, doing, after = drive(
            gdb, subject, "heap heaps --json", "heap trim --apply --tops --arena 2 -y --json", "heap heaps --json"
        )
        assert applied(doing)["released_bytes"] >= 29_900_000
        pairs = list(zip(before.json()["heaps"], after.json()["heaps"]))
        assert {old["arena"] for old, new in pairs if old["resident_bytes"] - new["resident_bytes"] > OWN_PAGES} == {2}
        assert all(old["resident_bytes"] == new["resident_bytes"] for old, new in pairs if old["arena"] not in (0, 2))
        lives_on(subject)


def test_a_static_program(gdb: Gdb) -> None:
    """Where its threads wait, other functions than in libc.so lie in front of malloc's."""
    with Subject("bins.static-pie") as subject:
        foretold, doing = drive(gdb, subject, "heap trim --json", APPLY)
        found = applied(doing)
        assert found["predicted_bytes"] == foretold.json()["totals"]["resident_bytes"] > 1 << 20
        lives_on(subject)


def test_nothing_to_do(gdb: Gdb) -> None:
    with Subject("full_heap") as subject:
        drive(gdb, subject, APPLY)  # what a call itself touches for the first time
        doing, status = drive(gdb, subject, APPLY, "print $_exitcode")
        assert doing.json()["applied"]["released_bytes"] == 0
        assert status.text.split()[-1] == "1"
        lives_on(subject)


# refusals, each in one line


def test_a_core_cannot_be_trimmed(gdb: Gdb) -> None:
    with Subject("bins") as subject:
        (refused,) = gdb.run(Core(subject.gcore(), subject.program), ["trim --apply -y"])
    assert "--apply" in one_line(refused)


def test_nobody_to_ask_and_wrong_options(gdb: Gdb) -> None:
    with Subject("hoard", "2", "4") as subject:
        before = subject.rollup("Anonymous")
        asked, one_arena, none = drive(
            gdb,
            subject,
            "heap trim --apply",
            "heap trim --apply -y --arena 1",
            "heap trim --apply -y --tops --arena 99",
        )
        assert "-y" in one_line(asked)
        assert "malloc_trim" in one_line(one_arena)
        assert "arena 99" in one_line(none)
        assert subject.rollup("Anonymous") >= before
        lives_on(subject)


def test_a_lock_that_nobody_holds(gdb: Gdb) -> None:
    with Subject("hoard", "2", "4") as subject:
        outcomes = drive(gdb, subject, "set var main_arena.mutex = 1", APPLY, "set var main_arena.mutex = 0", APPLY)
        assert re.fullmatch(rf"heap trim: arena 0 .*\({ANOTHER_WAY}\)", outcomes[1].error)
        assert applied(outcomes[3])["released_bytes"] > 0
        lives_on(subject)


@pytest.mark.parametrize(
    "blocked",
    [
        pytest.param((), marks=pytest.mark.full, id=""),
        pytest.param((signal.SIGINT, signal.SIGTERM), id="interrupt-blocked"),
    ],
)
def test_a_thread_that_waits_in_malloc_for_ever(gdb: Gdb, blocked: tuple[signal.Signals, ...]) -> None:
    """A signal that the thread blocks cannot be what stops it, nor may one be left behind."""
    with ExitStack() as stack:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        try:
            subject = stack.enter_context(Subject("hoard", "2", "4"))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        assert status(subject)["SigBlk"] == sum(1 << (number - 1) for number in blocked)
        drive(gdb, subject, "set var main_arena.mutex = 2")
        with pytest.raises(TimeoutError):
            subject.send("tick", seconds=0.3)
        refused, _ = drive(gdb, subject, APPLY, "set var main_arena.mutex = 0")
        assert re.fullmatch(rf"heap trim: thread {subject.pid} \(hoard\) .*arena 0 .*\({ANOTHER_WAY}\)", refused.error)
        assert refused.seconds < 30
        assert status(subject)["SigPnd"] == status(subject)["ShdPnd"] == 0
        assert subject.hear() == "ticked"
        lives_on(subject)


def status(subject: Subject) -> dict[str, int]:
    """The signal sets of /proc/PID/status."""
    rows = dict(line.split(":\t") for line in Path(f"/proc/{subject.pid}/status").read_text().splitlines())
    return {name: int(text, 16) for name, text in rows.items() if name.startswith(("Sig", "Shd")) and "/" not in text}


# the user's own GDB

SETTINGS = {
    "scheduler-locking": "step",
    "language": "ada",
    "unwindonsignal": "on",
    "backtrace limit": "3",
    "pagination": "on",
    "follow-fork-mode": "child",
    "detach-on-fork": "off",
}


@pytest.mark.parametrize("chosen", [SETTINGS, *in_full({})], ids=["chosen", "default"])
def test_settings_thread_and_frame_stay(gdb: Gdb, chosen: dict[str, str]) -> None:
    look = [
        *(f"show {name}" for name in SETTINGS),
        "info breakpoints",
        "info signals SIGSTOP",
        "info display",
        "output $_thread",
    ]
    with Subject("churn", "4", env={"MALLOC_ARENA_MAX": "1"}) as subject:
        prepare = [
            stop_at(*FREE),
            "continue",
            "delete",
            "break systrim",
            "tbreak sysmalloc",
            "break madvise",
            "break malloc_trim",
            "disable 2",
            "thread 3",
            "frame 1",
            *(f"set {name} {value}" for name, value in chosen.items()),
        ]
        outcomes = drive(gdb, subject, *prepare, *look, APPLY, *look, "delete")[len(prepare) :]
        assert applied(outcomes[len(look)])
        assert [each.text for each in outcomes[len(look) + 1 : -1]] == [each.text for each in outcomes[: len(look)]]
        lives_on(subject)


def test_a_frame_outside_malloc_stays_selected(gdb: Gdb) -> None:
    frame = 'python print(gdb.execute("frame", to_string=True).split()[0], gdb.selected_frame().name())'
    look = ["output $_thread", frame]
    with Subject("hoard", "3", "4") as subject:
        outcomes = drive(gdb, subject, "thread 3", "up", "up", *look, APPLY, *look)
        assert applied(outcomes[5])
        assert [each.text for each in outcomes[3:5]] == [each.text for each in outcomes[6:]]
        assert outcomes[4].text.startswith("#2 ")
        lives_on(subject)


def test_a_catchpoint_does_not_cut_it_short(gdb: Gdb) -> None:
    with Subject("hoard", "2", "4") as subject:
        _, doing, after, _ = drive(gdb, subject, "catch syscall madvise", APPLY, "heap trim --json", "delete")
        assert applied(doing)
        assert after.json()["totals"]["resident_bytes"] == 0
        lives_on(subject)


def test_enter_does_not_repeat_it() -> None:
    with Subject("hoard", "2", "8") as subject:
        with GdbTerminal("-p", subject.pid) as terminal:
            assert "returned in" in terminal.ask("heap trim --apply -y")
            assert terminal.ask("").strip() == "(gdb)"
            # while a look repeats
            assert "malloc_trim(0)" in terminal.ask("heap trim")
        lives_on(subject)


@pytest.mark.parametrize(
    ("answer", "expected"), [("n", "trim: "), ("", "trim: "), pytest.param("y", " returned ", marks=pytest.mark.full)]
)
def test_a_trim_is_applied_only_after_a_yes(answer: str, expected: str) -> None:
    with Subject("hoard", "2", "8") as subject:
        with GdbTerminal("-p", subject.pid) as terminal:
            question = terminal.ask("heap trim --apply", until="(y or n) ")
            assert re.search(rf"malloc_trim\(0\) .*hoard \({subject.pid}\)\?.* [\d.]+ MiB", question)
            assert expected in terminal.ask(answer)
        lives_on(subject)


UNWRITABLE = """python
executed = gdb.execute
def execute(words, *more, **how):
    if words.startswith("set variable $xmm"):
        raise gdb.error("UNWRITTEN")
    return executed(words, *more, **how)
gdb.execute = execute
end"""


def test_registers_that_cannot_be_put_back(gdb: Gdb) -> None:
    """As GDB before 14 on a processor that has AMX: it would find that out after the call."""
    if platform.machine() != "x86_64":
        pytest.skip("the registers are x86's")
    with Subject("hoard", "4", "12") as subject:
        before = subject.rollup("Anonymous")
        _, refused = drive(gdb, subject, UNWRITABLE, APPLY)
        assert refused.error is not None
        assert "UNWRITTEN" in refused.error
        assert before - subject.rollup("Anonymous") <= OWN_PAGES
        lives_on(subject)
