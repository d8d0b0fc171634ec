"""GDB/MI: what an editor gets from -heap-report and its like, checked against the command that people type."""

from __future__ import annotations

import re
import subprocess
from typing import Sequence

import pytest
from doors import ARENA_PY, Gdb, Live
from looks import plain_environment
from subjects import Subject

pytestmark = pytest.mark.xdist_group("mi")


@pytest.fixture(autouse=True)
def has_commands_of_its_own(gdb: Gdb) -> None:
    if gdb.start(["-ex", "python print(hasattr(gdb, 'MICommand'))"]).stdout.strip() != "True":
        pytest.skip("this GDB lets nobody add an MI command")


def talk(subject: Subject, *requests: str) -> list[str]:
    """The result records of these MI commands, in their order."""
    command = [
        "gdb",
        "-nx",
        "-q",
        "--interpreter=mi3",
        "-p",
        str(subject.pid),
        "-ex",
        f"source {ARENA_PY}",
    ]
    typed = "".join(f"{number}{request}\n" for number, request in enumerate(requests, 1)) + "-gdb-exit\n"
    done = subprocess.run(command, input=typed, env=plain_environment(), capture_output=True, text=True, timeout=60)
    return [
        next(line for line in done.stdout.splitlines() if re.match(rf"{number}\^", line))
        for number in range(1, len(requests) + 1)
    ]


def fields(record: str, *names: str) -> Sequence[str]:
    """The first value of each of these in a record."""
    return [re.search(rf'{name}="((?:[^"\\]|\\.)*)"', record).group(1) for name in names]


def test_report_as_data(gdb: Gdb) -> None:
    with Subject("hoard", "2", "12") as subject:
        typed = gdb.run(Live(subject.pid, subject.program), ["report --json"])[0].json()
        report, arenas = talk(subject, "-heap-report", "-heap-arenas")
    assert report.startswith("1^done,")
    assert arenas.startswith("2^done,")
    rss, verdict = fields(report, "rss_bytes", "verdict")
    # a debugger's own reading brings pages of files in
    assert abs(int(rss) - typed["rss_bytes"]) <= 1 << 20
    assert verdict.startswith("RSS ")
    assert 'parts=[{part="live",bytes="' in report
    assert arenas.count("attached_threads=") == 3
    assert 'main="true"' in arenas
    assert not re.search("None|null", report + arenas)


def test_errors_are_mi_errors(gdb: Gdb) -> None:
    with Subject("bins") as subject:
        wrong, bad = talk(subject, "-heap-bins --arena 77", "-heap-trim --apply -y --nonsense")
    assert wrong.startswith("1^error,msg=")
    assert "arena 77" in wrong
    assert bad.startswith("2^error,msg=")
