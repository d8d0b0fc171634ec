"""The engine sweeps the heaps of real programs as Python does."""

from __future__ import annotations

import pytest
from marks import in_full
from subjects import Subject
from swept_heaps import seen

from arenascope.cli.shell import How, ShellDoor
from arenascope.session.session import Session


@pytest.mark.parametrize("program", ["bins", "foreign_sbrk", "kinds.32", *in_full("many_heaps", "random", "full_heap")])
def test_a_process_and_its_core(program: str) -> None:
    with Subject(program) as subject:
        check_image(str(subject.pid))
        check_image(str(subject.kernel_core()))


def check_image(image: str) -> None:
    with ShellDoor(image, How("none")) as door:
        plain, engine = Session(door.target()), Session(door.target())
        vars(plain)["engine"] = None
        assert engine.engine is not None
        found = seen(plain)
        assert seen(engine) == found
        assert len(found) > 100
