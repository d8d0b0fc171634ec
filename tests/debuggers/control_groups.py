"""Control groups of ours for memory, of the older kind or of the newer one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Iterator

import pytest
from waiting import await_that

LEAVES_IN = 20.0
"""Seconds in which the kernel takes whoever has ended out of a group."""


def memory_group(name: str) -> Iterator[Path]:
    """For a fixture: its folder, which is removed afterwards."""
    for root in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")):
        folder = root / f"arenascope-{name}-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        if (folder / "memory.limit_in_bytes").exists() or (folder / "memory.max").exists():
            yield folder
            with suppress(AssertionError):
                await_that(lambda folder=folder: not (folder / "cgroup.procs").read_text(), LEAVES_IN)
            folder.rmdir()
            return
        folder.rmdir()
    pytest.skip("no control group for memory can be made here")
