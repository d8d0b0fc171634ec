"""A process that is stopped anywhere, in the middle of malloc too: what a call in progress leaves is no damage."""

from __future__ import annotations

import pytest
from doors import DOORS, Live
from lldb_door import NEWEST_LLDB
from looks import opened
from subjects import Subject

LOOKS = {"shell": 3, "gdb": 2, NEWEST_LLDB.name: 1}


@pytest.mark.parametrize("door", ["shell", "gdb", pytest.param(NEWEST_LLDB.name, marks=pytest.mark.full)])
def test_a_process_that_never_stands_still(door: str) -> None:
    looking = opened(DOORS[door])
    with Subject("churn", "4") as subject:
        for _ in range(LOOKS[door]):
            document = looking.run(Live(subject.pid, subject.program), ["check --json"])[0].json()
            assert [each for each in document["breaches"] if not each["transient"]] == []
            locked = {each["arena"] for each in document["busy"] if each["locked"]}
            # mp_'s count and a thread cache's are changed without a lock
            assert {each["arena"] for each in document["breaches"]} <= {*locked, None}
        # what was looked at goes on living
        assert subject.send("check") == "intact"


def test_a_single_thread_in_a_system_call_of_mallocs() -> None:
    """It takes no lock: only where it stands tells that top is not yet what it will be."""
    shell = DOORS["shell"]
    with Subject("trimmer") as subject:
        subject.process.stdin.write(b"tick\n")
        for _ in range(10):
            document = shell.run(Live(subject.pid, subject.program), ["check --json"])[0].json()
            assert [each for each in document["breaches"] if not each["transient"]] == [], document["busy"]
        subject.process.kill()
