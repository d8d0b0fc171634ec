"""Makes our own child processes end with their parent."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Callable, Optional

if TYPE_CHECKING:
    import ctypes

PR_SET_PDEATHSIG = 1


def end_with_parent(has_ended: Callable[[], bool]) -> None:
    """Makes the kernel kill this process once the thread that started it ends. `has_ended` is asked afterwards: the
    parent may have ended before the call."""
    libc = _libc()
    if libc is not None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if has_ended():
        os._exit(0)


def _libc() -> Optional[ctypes.CDLL]:
    """Loads libc; None if this Python has no ctypes."""
    with suppress(ImportError, OSError):
        import ctypes  # a Python may lack it

        return ctypes.CDLL(None)
    return None
