"""The calls of a running process that give memory back, as the kernel got them: by strace."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

SECONDS = 30


class Strace:
    """`with Strace(pid, folder) as trace`: afterwards, what every thread called."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid = pid
        self.output = folder / "strace.txt"

    def __enter__(self) -> Strace:
        if not shutil.which("strace"):
            pytest.skip("strace is not installed")
        self._process = subprocess.Popen(
            [
                "strace",
                "-f",
                "-p",
                str(self.pid),
                "-e",
                "trace=madvise,brk,munmap,mmap,mremap",
                "-e",
                "signal=none",
                "-o",
                str(self.output),
            ],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        watchdog = threading.Timer(SECONDS, self._process.kill)
        watchdog.start()
        line = self._process.stderr.readline()
        watchdog.cancel()
        assert "attached" in line, f"strace said {line!r}"
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.send_signal(signal.SIGINT)  # detaches
        self._process.wait(SECONDS)
        self._process.stderr.close()
        self.calls = self.output.read_text().splitlines()

    @property
    def madvised(self) -> list[tuple[int, int]]:
        """Sorted (address, bytes) of each madvise(MADV_DONTNEED), whatever came of it."""
        # a call that strace saw between two of another thread is written in two lines
        found = self._find(r"madvise\((0x[0-9a-f]+), (\d+), MADV_DONTNEED(?:\)| <unfinished)")
        return sorted((int(address, 16), int(size)) for address, size in found)

    @property
    def refused(self) -> list[tuple[int, int]]:
        """Those of them that failed."""
        found = self._find(r"madvise\((0x[0-9a-f]+), (\d+), MADV_DONTNEED\) += -1")
        return sorted((int(address, 16), int(size)) for address, size in found)

    @property
    def breaks(self) -> list[int]:
        """Where brk() put the break, call by call."""
        return [int(result, 16) for result in self._find(r"brk(?:\(.*| resumed>)\) += (0x[0-9a-f]+)")]

    @property
    def unmapped(self) -> list[tuple[int, int]]:
        """(address, bytes) of each munmap, in order."""
        found = self._find(r"munmap\((0x[0-9a-f]+), (\d+)(?:\)| <unfinished)")
        return [(int(address, 16), int(size)) for address, size in found]

    @property
    def others(self) -> list[str]:
        """Calls that malloc_trim never makes."""
        return [line for line in self.calls if re.search(r"\b(munmap|mmap|mremap)\(", line)]

    def _find(self, pattern: str) -> list[Any]:
        return [found for line in self.calls for found in re.findall(pattern, line)]
