"""A fault of arenascope's own, in a debugger: its error is one line that can be sent, and no traceback."""

from __future__ import annotations

import pytest
from doors import Core, Gdb
from lldb_door import LLDBS
from looks import one_line, opened
from subjects import Subject

pytestmark = pytest.mark.xdist_group("loading")
BREAK = "import arenascope.session.session as it; it.Session.located = property(lambda self: (0,)[7])"
"""As if somebody had made a mistake in the walkers."""
WORDS = {"gdb": "python", "lldb": "script"}


@pytest.mark.parametrize("door", [Gdb(), LLDBS[-1]], ids=lambda door: door.name)
def test_one_line(door, subject: Subject) -> None:
    image = Core(subject.gcore(), subject.program)
    _, *outcomes = opened(door).drive(
        door.look_at(image),
        [{"do": f"{WORDS[door.name.partition('-')[0]]} {BREAK}"}, {"do": "heap arenas"}, {"do": "heap bins --json"}],
    )
    for outcome in outcomes:
        error = one_line(outcome)
        assert "IndexError: " in error
        assert "<lambda>" in error
        assert door.name.partition("-")[0] in error.lower()
