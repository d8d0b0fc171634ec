"""Reads the memory limits of a process's control groups."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Iterator, NamedTuple, Optional, Sequence

MOUNTS, AVAILABLE = "/proc/self/mountinfo", "/proc/meminfo"
NONE = 1 << 60
"""cgroup v1 reports at least this if there is no limit."""
ENDS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
"""Files of limits where processes are killed, and of the usage that counts against them."""
SLOWS = (("memory.high", "memory.current"),)
"""Files of limits where allocations are slowed down."""


class MemoryLimit(NamedTuple):
    path: str
    """The file of the limit."""
    bytes: int
    used: Optional[int]
    """The usage that cannot be dropped: no pages of files. None: not known."""


def memory_limit(pid: int) -> Optional[MemoryLimit]:
    """Returns the limit that leaves the least, of its own group and those around it; None if there is none."""
    limits = (limit for folder in _folders(pid) for limit in _limits(folder, ENDS))
    return min(limits, key=lambda each: each.bytes - (each.used or 0), default=None)


def memory_left() -> int:
    """Returns how many bytes this process may take before anything is killed or slowed down for it.

    If the group's files are not mounted, as in a bare root, no limit can be read and the machine's memory counts.
    """
    limits = [limit for folder in _folders(os.getpid()) for limit in _limits(folder, (*ENDS, *SLOWS))]
    return max(0, min([_available(), *(each.bytes - (each.used or 0) for each in limits)]))


def _available() -> int:
    """Returns the machine's available memory."""
    with suppress(OSError, ValueError), open(AVAILABLE) as file:
        rows = dict(line.split()[:2] for line in file)
        return int(rows["MemAvailable:"]) * 1024
    return 0


def _folders(pid: int) -> Iterator[str]:
    """Yields the folders of its memory controller: its own group, then each around it."""
    with suppress(OSError):
        with open(f"/proc/{pid}/cgroup") as file:
            groups = [line.rstrip("\n").split(":", 2) for line in file]
        with open(MOUNTS) as file:
            mounts = [line.split() for line in file]
        for number, controllers, path in groups:
            if number != "0" and "memory" not in controllers.split(","):
                continue
            for fields in mounts:
                kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
                if kind == "cgroup2" if number == "0" else kind == "cgroup" and "memory" in options:
                    yield from _upwards(fields[4], fields[3], path)


def _upwards(mount: str, root: str, path: str) -> Iterator[str]:
    """Yields a path and its parents. In a container the mount's root is the group itself."""
    inner = os.path.relpath(path, root)
    while inner not in (".", "") and not inner.startswith(".."):
        yield os.path.join(mount, inner)
        inner = os.path.dirname(inner)
    yield mount


def _limits(folder: str, kinds: Sequence[tuple[str, str]]) -> Iterator[MemoryLimit]:
    for limit, usage in kinds:
        path = os.path.join(folder, limit)
        allowed = _number(path)
        if allowed is not None and allowed < NONE:
            used, files = _number(os.path.join(folder, usage)), _dropped(os.path.join(folder, "memory.stat"))
            yield MemoryLimit(path, allowed, None if used is None else max(0, used - files))


def _number(path: str) -> Optional[int]:
    with suppress(OSError, ValueError), open(path) as file:
        return int(file.read())
    return None


def _dropped(path: str) -> int:
    """Returns the pages of files, which the kernel drops before it kills."""
    with suppress(OSError, ValueError):
        with open(path) as file:
            rows = dict(line.split() for line in file)
        return int(rows.get("inactive_file", 0)) + int(rows.get("active_file", 0))
    return 0
