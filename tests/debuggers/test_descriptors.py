"""A day with a debugger asks for hundreds of looks: none may leave a file open, in the debugger's own process."""

from __future__ import annotations

from typing import Any, Union

import pytest
from doors import GDB, Core, Gdb, Image, Live
from lldb_door import NEWEST_LLDB, Lldb
from looks import opened
from marks import in_full
from subjects import Subject

pytestmark = pytest.mark.xdist_group("descriptors")

LOOKS = ["arenas", "threads", "chunks --summary", "mmapped", "trim", "pins", "chunk 0x1000", "map", "report"]
OPEN = "sorted(os.path.realpath('/proc/self/fd/' + number) for number in os.listdir('/proc/self/fd'))"


@pytest.fixture(params=[GDB, *in_full(NEWEST_LLDB)], ids=lambda door: door.name)
def door(request: pytest.FixtureRequest) -> Union[Gdb, Lldb]:
    return opened(request.param)


def open_files(door: Union[Gdb, Lldb]) -> dict[str, Any]:
    """The step that tells which files are open, and collects no garbage before."""
    statements = f"import os; value = len({OPEN})"
    return {"do": f"python {statements}; print(value)"} if door is GDB else {"python": statements}


@pytest.mark.parametrize("kind", ["live", "core"])
def test_no_look_leaves_a_file_open(door: Union[Gdb, Lldb], subject: Subject, kind: str) -> None:
    image: Image = Live(subject.pid, subject.program) if kind == "live" else Core(subject.gcore(), subject.program)
    once = [{"do": f"heap {look}"} for look in LOOKS]
    # the first round may load what stays
    steps = [*once, open_files(door), *once, *once, *once, open_files(door)]
    outcomes = door.drive(door.look_at(image), steps)
    before, after = (outcomes[at].value if door is not GDB else int(outcomes[at].text) for at in (len(LOOKS), -1))
    assert after == before
