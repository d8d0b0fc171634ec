"""Processes by their name, as /proc shows them at one moment."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Iterator, Optional

from ...base.records import NamedTuple
from ..elf.kernel_records import undeleted
from .procfiles import name_of, read_bytes, status_row


class NamedProcess(NamedTuple):
    pid: int
    resident: int
    """In bytes, as status has it: near enough to tell processes apart."""
    command: str
    """As it was started: its words, with a blank between them."""


def processes_called(name: str) -> list[NamedProcess]:
    """Those of which /proc/PID/comm or the executable's base name is `name`, the largest first; never this one."""
    found = [_running(pid) for pid in other_pids() if name in names_of(pid)]
    return sorted((each for each in found if each is not None), key=lambda each: (-each.resident, each.pid))


def other_pids() -> Iterator[int]:
    return (int(each) for each in os.listdir("/proc") if each.isdecimal() and int(each) != os.getpid())


def names_of(pid: int) -> set[str]:
    """The kernel cuts the first after 15 bytes, and shows the second only to who may trace the process."""
    found = {name_of(pid)}
    with suppress(OSError):
        found.add(os.path.basename(undeleted(os.readlink(f"/proc/{pid}/exe"))))
    return found - {""}


def _running(pid: int) -> Optional[NamedProcess]:
    """None where it has no memory: a kernel thread, a zombie, or one that has ended."""
    try:
        resident = status_row(pid, "VmRSS")
        words = os.fsdecode(read_bytes(f"/proc/{pid}/cmdline")).rstrip("\0").split("\0")
    except OSError:
        return None
    return NamedProcess(pid, int(resident.split()[0]) * 1024, " ".join(words)) if resident else None
