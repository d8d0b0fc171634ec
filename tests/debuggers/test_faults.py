"""A fault of arenascope's own, in a debugger: its error is one line that can be sent, and no traceback."""

from __future__ import annotations

import pytest
from doors import Core, Gdb
from lldb_door import LLDBS
from looks import one_line, opened
from subjects import Subject

pytestmark = pytest.mark.xdist_group("loading")
BREAK = {"python": "import arenascope.session\n"
                   "def broken(self): raise IndexError('seven')\n"
                   "arenascope.session.Session.located = property(broken)"}  # fmt: skip
"""As if somebody had made a mistake in the walkers."""


@pytest.mark.parametrize("door", [Gdb(), LLDBS[-1]], ids=lambda door: door.name)
def test_one_line(door, subject: Subject) -> None:
    image = Core(subject.gcore(), subject.program)
    _, *outcomes = opened(door).drive(door.look_at(image), [BREAK, {"do": "heap arenas"}, {"do": "heap bins --json"}])
    for outcome in outcomes:
        error = one_line(outcome)
        assert "this is a fault of arenascope's own: IndexError: seven" in error
        assert "broken" in error
        assert door.name.partition("-")[0] in error.lower()
