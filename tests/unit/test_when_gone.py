"""What is done once an object is gone is done at the end of the program, too, which destroys none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import arenascope
from arenascope.base.when_gone import before_exit, when_gone

COMMON = str(Path(arenascope.__file__).parents[1])
PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop())
from arenascope import __main__
from arenascope.base.when_gone import when_gone

class Owner: ...

owner = Owner()
owner.itself = owner
when_gone(owner, lambda: sys.stderr.write("done"))
sys.argv = ["arenascope", *sys.argv[1:]]
__main__.run()
"""


class Owner: ...


@pytest.mark.parametrize("word", ["version", "no-such-command"])
def test_the_program_ends(word: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, word, COMMON], capture_output=True, text=True)
    assert done.stderr.endswith("done")


def test_once() -> None:
    done: list[str] = []
    owner, other = Owner(), Owner()
    when_gone(owner, lambda: done.append("owner"))
    when_gone(other, lambda: done.append("other"))
    del owner
    assert done == ["owner"]
    before_exit()
    assert done == ["owner", "other"]
    del other
    before_exit()
    assert len(done) == 2
