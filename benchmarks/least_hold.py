"""The least that any tool could do: read_places.c at the places of free chunks that we read, copy_pages.c for what we
copy."""

from __future__ import annotations

import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any, NamedTuple

from subject import ROOT

sys.path.append(str(ROOT / "common"))
from arenascope.cli import several_subjects
from arenascope.commands.all_commands import find_command
from arenascope.sources.live import save_process, short_hold
from arenascope.sources.live.process import ProcessImage

MOST = 1 << 40


class Least(NamedTuple):
    """Seconds, on all processors."""

    before: float
    """To meet the places in the order in which lists lead to them; to make room for a copy."""
    held: float


class LeastHold:
    """Of a process that stands still by itself."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._pid, self._folder = str(pid), folder
        for name in ("read_places", "copy_pages"):
            source = str(ROOT / "benchmarks" / f"{name}.c")
            subprocess.run(["cc", "-O2", "-pthread", "-o", str(folder / name), source], check=True)
        # whoever starts programs has to be small: at first each counts as as large
        words = [sys.executable, __file__, self._pid, str(folder)]
        subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
        self.chunks = (folder / "places").stat().st_size // 8

    def seconds(self) -> float:
        """For lists, while it is held."""
        return self._run("read_places", "places")[0]

    def lists(self) -> Least:
        return Least(self._run("read_places", "met", "as-they-are")[0], self.seconds())

    def copy(self) -> Least:
        # at first a virtual machine may have to get its memory from the host, which takes ten times as long
        self._run("copy_pages", "spans")
        return Least(*self._run("copy_pages", "spans"))

    def _run(self, program: str, file: str, *more: str) -> list[float]:
        words = [str(self._folder / program), self._pid, str(self._folder / file), *more]
        return [float(word) for word in subprocess.check_output(words).split()]


class _Read(NamedTuple):
    """What a look at lists reads."""

    met: array[int]
    """While the process runs on, in this order."""
    again: array[int]


def _places(pid: int) -> _Read:
    found = _Read(array("Q"), array("Q"))
    reader, read = short_hold.ManyReader, short_hold.NodeReader.read

    def kept(its_pid: int, slow: Any, places: array[int], *rest: Any, **more: Any) -> Any:
        found.again.extend(places)
        return reader(its_pid, slow, places, *rest, **more)

    def met(self: Any, places: array[int]) -> Any:
        found.met.extend(places)
        return read(self, places)

    options = find_command("bins").parser("arenascope").parse_args(["--json"])
    options.hold_at_most = 120.0
    setattr(short_hold, "ManyReader", kept)  # noqa: B010
    setattr(short_hold.NodeReader, "read", met)  # noqa: B010
    try:
        several_subjects._look(several_subjects.SubjectRequest(str(pid), "bins", options), True)
    finally:
        setattr(short_hold, "ManyReader", reader)  # noqa: B010
        setattr(short_hold.NodeReader, "read", read)  # noqa: B010
    return found


def _spans(pid: int) -> array[int]:
    """What is copied: addresses and bytes in turns."""
    copied = [span for piece in save_process._look(ProcessImage(pid), MOST).pieces for span in piece.copied]
    return array("Q", [word for span in copied for word in (span.start, span.bytes)])


if __name__ == "__main__":
    pid, folder = int(sys.argv[1]), Path(sys.argv[2])
    found = _places(pid)
    for name, words in (("met", found.met), ("places", found.again), ("spans", _spans(pid))):
        (folder / name).write_bytes(words.tobytes())
