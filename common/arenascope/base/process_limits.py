"""Restricts our own child processes: they end with their parent, and open only the files named."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Callable, Iterable, Optional

if TYPE_CHECKING:
    import ctypes

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
# the same numbers on all machines but Alpha
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_ONLY, PATH_BENEATH = 1, 1
READ_FILE, EVERYTHING = 1 << 2, (1 << 13) - 1
"""Rights in the first version of Landlock (Linux 5.13)."""


def end_with_parent(has_ended: Callable[[], bool]) -> None:
    """Makes the kernel kill this process once the thread that started it ends. `has_ended` is asked afterwards: the
    parent may have ended before the call."""
    libc = _libc()
    if libc is not None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if has_ended():
        os._exit(0)


def can_confine() -> bool:
    """Tells whether this kernel has Landlock."""
    libc = _libc()
    return libc is not None and libc.syscall(CREATE_RULESET, None, 0, VERSION_ONLY) > 0


def confine(files: Iterable[str]) -> None:
    """Restricts this process, of one thread, to opening these files for reading; OSError if the kernel cannot enforce
    it."""
    libc = _libc()
    if libc is None:
        raise OSError("no Landlock")
    import ctypes  # a Python may lack it

    handled = ctypes.c_uint64(EVERYTHING)
    rules = libc.syscall(CREATE_RULESET, ctypes.byref(handled), 8, 0)
    if rules < 0:
        raise OSError(ctypes.get_errno(), "no Landlock")
    try:
        for each in files:
            with suppress(OSError):
                file = os.open(each, os.O_PATH | os.O_CLOEXEC)
                try:
                    # struct landlock_path_beneath_attr is packed
                    rule = READ_FILE.to_bytes(8, sys.byteorder) + file.to_bytes(4, sys.byteorder)
                    libc.syscall(ADD_RULE, rules, PATH_BENEATH, rule, 0)
                finally:
                    os.close(file)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if libc.syscall(RESTRICT_SELF, rules, 0):
            raise OSError(ctypes.get_errno(), "no Landlock")
    finally:
        os.close(rules)


def _libc() -> Optional[ctypes.CDLL]:
    """Loads libc; None if this Python has no ctypes."""
    with suppress(ImportError, OSError):
        import ctypes  # a Python may lack it

        return ctypes.CDLL(None, use_errno=True)
    return None
