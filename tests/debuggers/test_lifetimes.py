"""What tests start and make is gone with them, however they end."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
from lifetimes import dies_with_us
from looks import ROOT
from subjects import START_SECONDS, fixture_program

TESTS = ROOT / "tests"
STARTS = """
import sys
sys.path[:0] = sys.argv[1:3]
from subjects import Subject
with Subject(sys.argv[3]) as subject:
    print(subject.pid, flush=True)
    sys.stdin.read()
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def has_ended(pidfd: int) -> bool:
    """pidfd_open(2), which no later process of that number can deceive."""
    return bool(select.select([pidfd], [], [], START_SECONDS)[0])


@pytest.mark.parametrize("fixture", ["signals", "spinning", "kinds"])
def test_a_subject_ends_with_who_started_it(fixture: str) -> None:
    """Killed as a test run is, from outside; somebody else still holds the other end of its standard input."""
    words = [sys.executable, "-c", STARTS, str(TESTS / "debuggers"), str(TESTS / "unit"), fixture]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT, preexec_fn=dies_with_us()
    ) as tests:
        assert tests.stdout is not None
        pid = int(tests.stdout.readline())
        subject = os.pidfd_open(pid)
        kept = os.open(f"/proc/{pid}/fd/0", os.O_WRONLY)
        try:
            tests.kill()
            assert has_ended(subject)
        finally:
            for each in (subject, kept):
                os.close(each)


@pytest.mark.parametrize("fixture", ["signals", "spinning", "kinds", "sessions", "quotes", "ten_classes", "headless"])
def test_a_fixture_ends_when_its_standard_input_closes(fixture: str, tmp_path: Path) -> None:
    words = [fixture_program(fixture), tmp_path]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=dies_with_us()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready %d\n" % process.pid
        process.stdin.close()
        try:
            assert process.wait(START_SECONDS) == 0
        finally:
            process.kill()


def test_a_fixture_without_a_pipe_stays_for_a_debugger(tmp_path: Path) -> None:
    words = [fixture_program("signals"), tmp_path]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=dies_with_us()
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready %d\n" % process.pid
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.kill()


@pytest.mark.full
def test_a_finished_run_leaves_nothing_behind(tmp_path: Path) -> None:
    """Of tests that keep debuggers' indexes, strip a program and hide symbols, in processes of their own."""
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    tests = ["tests/debuggers/test_how_found.py::test_what_was_taken_is_what_gdb_says"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "1", "-m", "not full", *tests],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    # pytest's own folder is empty
    assert [path for path in tmp_path.rglob("*") if not path.name.startswith("pytest-of-")] == []
