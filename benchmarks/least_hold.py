"""The least that any tool could hold a process for its free chunks: read_places.c, at the places that we read."""

from __future__ import annotations

import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

from subject import ROOT

sys.path.append(str(ROOT / "common"))
from arenascope.cli import several_subjects
from arenascope.commands.all_commands import find_command
from arenascope.sources.live import short_hold


class LeastHold:
    """Of a process that stands still by itself."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._words = [str(folder / "read_places"), str(pid), str(folder / "places")]
        source = str(ROOT / "benchmarks" / "read_places.c")
        subprocess.run(["cc", "-O2", "-pthread", "-o", self._words[0], source], check=True)
        # whoever starts programs has to be small: at first each counts as as large
        subprocess.run([sys.executable, __file__, *self._words[1:]], check=True, stderr=subprocess.DEVNULL)
        self.chunks = Path(self._words[2]).stat().st_size // 8

    def seconds(self) -> float:
        return float(subprocess.check_output(self._words))


def _places(pid: int) -> array[int]:
    """What a look reads while it holds the process."""
    read: list[array[int]] = []
    reader = short_hold.ManyReader

    def kept(its_pid: int, slow: Any, places: array[int], *rest: Any, **more: Any) -> Any:
        read.append(array("Q", places))
        return reader(its_pid, slow, places, *rest, **more)

    options = find_command("bins").parser("arenascope").parse_args(["--json"])
    options.hold_at_most = 120_000
    setattr(short_hold, "ManyReader", kept)  # noqa: B010
    try:
        several_subjects._look(several_subjects.Look(str(pid), "bins", options), True)
    finally:
        setattr(short_hold, "ManyReader", reader)  # noqa: B010
    return read[0]


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(_places(int(sys.argv[1])).tobytes())
