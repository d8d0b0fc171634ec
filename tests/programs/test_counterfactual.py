"""What is advised to real programs that stand still, against the same programs with the advice followed."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Optional

import pytest
from doors import DOORS, GDB, Live, give_up
from running import Running

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
SLACK = 4 * MIB
"""What differs from run to run, in node above all."""
PIN = {"MALLOC_TRIM_THRESHOLD_": "131072"}
Start = Callable[[Path, Optional[dict[str, str]]], Running]
SMALL = """
import time
blocks = [b"x" * (2000 + number % 7) for number in range(30000)]
kept = blocks[::10]
del blocks
"""
"""Blocks of 2 KB, of which one in ten is kept: all that is free lies between these."""
LARGE = """
import time
blocks, kept = [], []
raises = b"y" * 4000000
del raises
for number in range(200):
    blocks.append(b"x" * (300000 + number % 7))
    kept.append(b"x" * (2000 + number % 7))
del blocks
"""
"""Blocks of 300 KB, which the default threshold would have kept out of the arenas."""
WAITS = "print('ready', flush=True)\ntime.sleep(1000)\n"


def python(text: str) -> Start:
    return lambda folder, env: Running(folder, ["/usr/bin/python3", "-c", text + WAITS], env)


def node(folder: Path, env: Optional[dict[str, str]]) -> Running:
    return Running(folder, ["node", "--expose-gc", HERE / "freed.js"], env)


def sqlite(folder: Path, env: Optional[dict[str, str]]) -> Running:
    (folder / "load.sql").write_text((HERE / "load.sql").read_text())
    return Running(folder, ["sqlite3", "-batch", ":memory:", ".read load.sql"], env)


PROGRAMS = (
    pytest.param(python(SMALL), id="python-small"),
    pytest.param(python(LARGE), id="python-large"),
    pytest.param(node, id="node", marks=pytest.mark.full),
    pytest.param(sqlite, id="sqlite", marks=pytest.mark.full),
)


class Looked(NamedTuple):
    report: Mapping[str, Any]
    own: int
    """Its memory without pages of files, by the kernel."""

    @property
    def effects(self) -> dict[str, int]:
        return {each["id"]: each["effect_bytes"] for each in self.report["advice"]}

    @property
    def causes(self) -> list[str]:
        return [each["id"] for each in self.report["causes"]]


def anonymous(rollup: Path) -> int:
    return int(re.search(r"^Anonymous: +(\d+) kB", rollup.read_text(), re.MULTILINE).group(1)) * 1024


def image_of(running: Running) -> Live:
    return Live(running.pid, Path(f"/proc/{running.pid}/exe").resolve())


def look(start: Start, env: Optional[dict[str, str]] = None) -> Looked:
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        running = start(Path(folder), env)
        try:
            running.await_line()
            report = DOORS["shell"].run(image_of(running), ["report --json"])[0].json()
            return Looked(report, anonymous(Path(f"/proc/{running.pid}/smaps_rollup")))
        finally:
            running.end()


@pytest.mark.parametrize("start", PROGRAMS)
def test_thresholds_are_blamed_where_pinning_them_helps(start: Start) -> None:
    """And nowhere else: pieces of many MiB that small blocks left behind are no sign of large ones."""
    seen = look(start)
    gained = seen.own - look(start, PIN).own
    promised = seen.effects.get("pin-thresholds", 0)
    assert gained <= promised + SLACK
    assert gained >= 0.9 * promised - SLACK
    assert ("thresholds-grew" in seen.causes) == (gained > SLACK)
    assert (seen.report["judgement"]["id"] == "freed-thresholds-grew") <= (gained > SLACK)


@pytest.mark.parametrize("start", PROGRAMS)
def test_malloc_trim_returns_what_was_promised(start: Start) -> None:
    if GDB.available():
        give_up(GDB.available() or "")
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        running = start(Path(folder), None)
        try:
            running.await_line()
            image = image_of(running)
            report = DOORS["shell"].run(image, ["report --json"])[0].json()
            save = f"shell cat /proc/{running.pid}/smaps_rollup > {folder}"
            steps = [f"{save}/before", "print ((int (*)(unsigned long)) malloc_trim)(0)", f"{save}/after"]
            GDB.drive(GDB.look_at(image), [{"do": step} for step in steps])
            returned = anonymous(Path(folder) / "before") - anonymous(Path(folder) / "after")
        finally:
            running.end()
    known = sum(each["bytes"] for each in report["parts"])
    promised = {each["id"]: each["effect_bytes"] for each in report["advice"]}.get("trim-once", 0)
    assert abs(returned - promised) <= max(MIB, known // 50)
    # a tenth of all and more is not "little to give back"
    assert (report["judgement"]["id"] == "live-data") <= (10 * returned < known)
