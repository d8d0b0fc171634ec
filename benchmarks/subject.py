"""What the benchmarks measure: a fixture with its heap, parked; mostly `big`, with a core of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ContextManager, Iterator, Mapping, NamedTuple, Sequence

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "fixtures" / "build"
PROGRAM = PROGRAMS / "big"
ARENASCOPE = (sys.executable, str(ROOT / "bin" / "arenascope"))
WITH_US = {**os.environ, "PYTHONPATH": str(ROOT / "common"), "PYTHONDONTWRITEBYTECODE": ""}
"""Compiled once, as an installed package is."""
QUIET: Mapping[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Big(NamedTuple):
    pid: int
    core: Path
    notes: Mapping[str, Any]
    """What the fixture reports about itself: blocks_made, blocks_freed."""


def running(fixture: str, folder: Path, *arguments: str) -> ContextManager[subprocess.Popen[str]]:
    """That fixture with its heap, parked; it lives until the end of this."""
    return parked([str(PROGRAMS / fixture), str(folder), *arguments])


@contextmanager
def parked(words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if not process.stdout.readline().startswith("ready"):
            raise SystemExit("the fixture did not get ready")
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def big(folder: Path, megabytes: int) -> Iterator[Big]:
    """The process lives until the end of this."""
    with running("big", folder, str(megabytes)) as process:
        subprocess.run(["gcore", "-o", str(folder / "core"), str(process.pid)], check=True, **QUIET)
        yield Big(process.pid, folder / f"core.{process.pid}", json.loads((folder / "truth.json").read_text())["notes"])
