"""Ctrl-C ends the program: it is not lost where an object is destroyed, nor does it end one look of many alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from subjects import Subject

import arenascope
from arenascope.base.about import INTERRUPTED, STOPPED

COMMON = str(Path(arenascope.__file__).parents[1])
START = f"""
import os, signal, sys, time
sys.path.insert(0, {COMMON!r})
from arenascope import __main__
"""
DESTROYED = """
from arenascope.cli import main

class Destroyed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(9):
            pass

def asks_for_it(**_):
    Destroyed()
    time.sleep(600)

main.main = asks_for_it
__main__.run()
"""
ONE_LOOK = """
from arenascope.engine import EngineTypes

def pressed(self, kind, *about, ask=EngineTypes.ask):
    if kind == "variables":
        os.write(2, b"pressed\\n")
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    return ask(self, kind, *about)

EngineTypes.ask = pressed
# one look after the other
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
__main__.run()
"""


def ran(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", START + program, *words], capture_output=True, text=True, timeout=300)


def test_while_an_object_is_destroyed() -> None:
    done = ran(DESTROYED)
    assert (done.returncode, done.stderr) == (INTERRUPTED, STOPPED)


@pytest.mark.parametrize("words", ["watch --types --interval 1", "watch --types --interval 1 --save", "types"])
def test_in_one_look_of_many(words: str, tmp_path: Path) -> None:
    """It ends the search for types, of which the look then says that it is incomplete."""
    command, *options = words.split()
    with Subject("declared/pool.O0", "10") as one, Subject("declared/pool.O0", "10") as two:
        if "--save" in options:
            options.append(str(tmp_path / "moments"))
        done = ran(ONE_LOOK, command, str(one.pid), str(two.pid), *options)
    assert done.returncode == INTERRUPTED
    assert done.stderr.count("pressed") == 1
    assert f"== {two.pid}" not in done.stdout
