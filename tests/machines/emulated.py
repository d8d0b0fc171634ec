"""A fixture under QEMU: a subject like any other, that also tells which system calls its guest made."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

from looks import give_up
from machine_table import Machine, Scenario
from subjects import DUMP_SECONDS, Subject


class Emulated(Subject):
    """With `stub` the guest waits for a debugger at `socket`, and is ready only once that has let it go."""

    def __init__(self, machine: Machine, scenario: Scenario, stub: bool = True) -> None:
        if not shutil.which(machine.emulator):
            give_up(f"{machine.emulator} is not installed")
        # QEMU's own memory is of no interest
        super().__init__(
            scenario.fixture, *scenario.arguments, env=dict(scenario.env), coredump_filter=0, platform=machine.platform
        )
        self.machine = machine
        self.stub = stub

    def __enter__(self) -> Emulated:
        self._start(self._command(), "QEMU_")
        if not self.stub:
            with self._ended_if_it_fails():
                self.wait_until_ready()
        return self

    def _command(self) -> list[str]:
        command = [self.machine.emulator, "-L", str(self.machine.root), "-strace", "-D", str(self.folder / "calls")]
        if self.machine.page != 4096:
            command += ["-p", str(self.machine.page)]
        if self.stub:
            command += ["-g", self.socket]
        return [*command, str(self.program), str(self.folder / "truth"), *self.arguments]

    @property
    def socket(self) -> str:
        return str(self.folder / "stub")

    def guest_core(self) -> Path:
        """The core that QEMU writes of its guest, which is gone afterwards."""
        os.kill(self.pid, signal.SIGABRT)
        self.process.wait(DUMP_SECONDS)
        found = list(self.folder.glob("qemu_*.core"))
        assert len(found) == 1, f"QEMU wrote {len(found)} cores: {self._said()}"
        return found[0]

    def trim(self) -> Trimmed:
        """malloc_trim(0) in the guest."""
        log = self.folder / "calls"
        start = log.stat().st_size
        reply = self.send("trim")
        calls = log.read_text()
        return Trimmed(reply, calls[:start], calls[start:])


class Trimmed:
    """What malloc_trim said, and the system calls by which it gave memory back, by QEMU's -strace."""

    def __init__(self, reply: str, before: str, calls: str) -> None:
        self.reply = reply
        self.before = before
        self.calls = calls

    @property
    def madvised(self) -> list[tuple[int, int]]:
        found = re.findall(r"madvise\((0x[0-9a-f]+),(\d+),MADV_DONTNEED\) = 0", self.calls)
        return sorted((int(address, 16), int(size)) for address, size in found)

    @property
    def break_fell(self) -> int:
        """By how many bytes brk() moved the end of the heap back."""
        before, during = (re.findall(r"brk\(.*\) = (0x[0-9a-f]+)", text) for text in (self.before, self.calls))
        return int(before[-1], 16) - int(during[-1], 16) if during else 0

    @property
    def others(self) -> list[str]:
        """Calls that malloc_trim never makes."""
        return re.findall(r".*\b(?:munmap|mmap|mremap|mmap2)\(.*", self.calls)
