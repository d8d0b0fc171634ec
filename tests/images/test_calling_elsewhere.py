"""trim --apply in the shell: on other releases, and where it must not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from platforms import ELSEWHERE, HOST, Platform
from subjects import Subject, fixture_program

from arenascope.cli import several_subjects
from arenascope.commands.framework.find_command import find_command
from arenascope.glibc.find.inside_malloc import LOAD_SYMBOLS
from arenascope.sources.live import proc_tables

pytestmark = pytest.mark.skipif(
    HOST.machine not in ("x86_64", "aarch64"), reason="the shell calls into x86-64 and aarch64 processes alone"
)

SLACK = 128 << 10
"""What a call itself touches, of stack and data, and what a thread had in hand."""
WITHOUT_LOCK = ("2.31",)
"""Releases whose libc does not export __lll_lock_wait_private, by which a top's lock is taken."""
RELEASES = [
    pytest.param(each, id=each.id, marks=pytest.mark.full)
    for each in (HOST, *ELSEWHERE)
    if each == HOST or each.machine == HOST.machine
]


def apply(subject, *words):
    options = find_command("trim").parser("arenascope").parse_args(["--apply", "-y", "--json", *words])
    return several_subjects.look(several_subjects.SubjectRequest(str(subject.pid), "trim", options))


def is_refused(subject, id):
    """And has lost nothing, and goes on."""
    before = subject.rollup("Anonymous")
    for words in ((), ("--tops",)):
        seen = apply(subject, *words)
        assert seen.error_id == id, seen
    assert subject.rollup("Anonymous") >= before
    assert subject.send("check") == "intact"
    assert subject.quit() == 0


def advised(subject):
    """What of trim and of report's advice is typed to apply it, in print and in report's JSON."""
    said = {}
    for command, word in (("trim", "--ranges"), ("report", "--full"), ("report", "--json")):
        options = find_command(command).parser("arenascope").parse_args([word])
        seen = several_subjects.look(several_subjects.SubjectRequest(str(subject.pid), command, options))
        assert seen.error is None, seen.error
        lines = seen.text.splitlines()
        said[word] = [line for line in lines if "--apply" in line]
    how = [way for each in json.loads(seen.text)["advice"] for way in each["how"] if "--apply" in way]
    return [*said["--ranges"], *said["--full"], *how]


def is_done_by_a_debugger(subject):
    """And never advised to be done in the shell, which refuses it."""
    said = advised(subject)
    assert len(said) >= 3
    assert all(f"gdb -p {subject.pid} " in each for each in said), said


@pytest.mark.parametrize("platform", RELEASES)
def test_another_release(platform: Platform) -> None:
    """As much leaves memory as was foretold, by the kernel's own count; blocks, threads and signals stay."""
    with Subject("hoard", "3", "12", platform=platform) as subject:
        for words in ((), ("--tops",)):
            before = subject.rollup("Anonymous")
            seen = apply(subject, *words)
            if words and platform.release in WITHOUT_LOCK:
                assert seen.error_id == "lock-not-found"
                assert subject.rollup("Anonymous") >= before
                continue
            assert seen.error is None
            predicted = json.loads(seen.text)["applied"]["predicted_bytes"]
            assert predicted > 8 << 20
            assert before - subject.rollup("Anonymous") == pytest.approx(predicted, abs=SLACK)
            assert subject.send("check") == "intact"
        assert subject.quit() == 0


@pytest.mark.parametrize("fixture", ["bins.static", "bins.static-pie"])
def test_a_static_program_is_refused(fixture: str) -> None:
    """Nothing tells where its malloc begins and ends, so that any thread could be inside."""
    with Subject(fixture) as subject:
        is_done_by_a_debugger(subject)
        is_refused(subject, "malloc-code-unknown")


@pytest.mark.full
def test_a_static_program_without_symbols_is_told_what_is_missing(tmp_path: Path) -> None:
    """No door can do it, and none is named."""
    program = tmp_path / "bins"
    subprocess.run(["strip", "-o", program, fixture_program("bins.static")], check=True)
    with Subject(str(program)) as subject:
        said = advised(subject)
        assert len(said) >= 3
        assert not [each for each in said if "gdb" in each or str(subject.pid) in each]
        assert LOAD_SYMBOLS in apply(subject).error
        is_refused(subject, "malloc-code-unknown")


def test_what_the_shell_can_do_is_advised_there() -> None:
    with Subject("bins") as subject:
        said = advised(subject)
        assert len(said) >= 3
        assert all(f"trim {subject.pid} --apply" in each for each in said), said


@pytest.mark.full
def test_another_machine_is_refused() -> None:
    platform = next(each for each in ELSEWHERE if each.machine == "i386")
    with Subject("hoard", "2", "8", platform=platform) as subject:
        is_done_by_a_debugger(subject)
        is_refused(subject, "other-processor")


def test_a_shadow_stack_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the row that Linux 6.6 and later have; few processors make one, so that the row alone is written here."""
    row = proc_tables.status_row
    told = {"x86_Thread_features": "shstk wrss"}
    monkeypatch.setattr(proc_tables, "status_row", lambda pid, name: told.get(name) or row(pid, name))
    with Subject("bins") as subject:
        is_refused(subject, "calls-forbidden")
