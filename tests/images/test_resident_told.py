"""Where blocks were allocated and never written, headlines say how much of them is in memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from marks import in_full
from shell_door import arenascope
from subjects import Subject


def headline(command: str, pid: int) -> list[int]:
    """The figures of it."""
    done = arenascope(command, pid, "--bytes")
    said = re.search(r"([\d,]+)[^(]*\(\D*([\d,]+) of it resident\)", done.stdout.splitlines()[0])
    return [int(each.replace(",", "")) for each in said.groups()] if said else []


def anonymous_bytes(pid: int) -> int:
    """The kernel's sum: of /proc/PID/status it is an estimate."""
    found = re.search(r"^Anonymous:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def test_what_was_never_written() -> None:
    with Subject("mmapped") as subject:
        _, exact = headline("types", subject.pid)
        _, at_most = headline("owners", subject.pid)
        anonymous = anonymous_bytes(subject.pid)
    # beside the blocks anonymous memory has stacks, variables and what malloc keeps
    assert anonymous // 2 < exact <= anonymous
    # the arenas hold next to nothing: of their blocks owners counts all as resident, and none of malloc's own
    assert abs(at_most - exact) < 65536


@pytest.mark.parametrize("command", ["types", *in_full("owners")])
def test_nothing_is_said_where_all_is_in_memory(command: str) -> None:
    with Subject("sessions") as subject:
        assert not headline(command, subject.pid)
