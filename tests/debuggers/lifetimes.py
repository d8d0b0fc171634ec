"""How long what tests start and make lasts: programs as long as pytest, which may be killed; folders for a run."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Callable

PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl
_folders: list[Path] = []


def dies_with_us() -> Callable[[], None]:
    """A preexec_fn, with which the kernel kills the program when the thread that started it ends: tests start subjects
    in their main thread. It does not kill one that changed its user; fixtures end with their standard input, too."""
    parent = os.getpid()

    def ask() -> None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # it ended before

    return ask


def lasting_folder(prefix: str) -> Path:
    """For the rest of the run: pytest-xdist's workers do without what atexit would do."""
    _folders.append(Path(tempfile.mkdtemp(prefix=prefix)))
    return _folders[-1]


def remove_folders() -> None:
    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)
