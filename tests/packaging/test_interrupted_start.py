"""Ctrl-C while the program is still being loaded: it ends as at any other moment, however it was started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from marks import in_full

ROOT = Path(__file__).resolve().parents[2]

STARTS = {
    "-m": "runpy.run_module('arenascope', run_name='__main__', alter_sys=True)",
    "launcher": f"runpy.run_path({str(ROOT / 'bin' / 'arenascope')!r}, run_name='__main__')",
    "zipapp": "runpy.run_path(sys.argv.pop(), run_name='__main__')",
    "console script": "from arenascope.__main__ import run; sys.exit(run())",
}
INTERRUPTED = """
import os, runpy, signal, sys
class Finder:
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder)
{start}
"""


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("module", ["cli", *in_full("argparse", "commands.version")])
def test_ctrl_c_at_the_start_is_one_line_and_status_130(tmp_path: Path, start: str, module: str) -> None:
    """As the first module of ours is loaded, one of Python's, and at last the command's own."""
    words = ["version"]
    if start == "zipapp":
        app = tmp_path / "arenascope.pyz"
        subprocess.run([sys.executable, ROOT / "scripts" / "pack.py", app], check=True, capture_output=True)
        words.append(str(app))
    program = INTERRUPTED.format(module=module if module == "argparse" else f"arenascope.{module}", start=STARTS[start])
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, "PYTHONPATH": "" if start == "zipapp" else str(ROOT / "common")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "arenascope: stopped\n")
