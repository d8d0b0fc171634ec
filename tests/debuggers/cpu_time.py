"""Runs a command and says on standard error's last line how much of the processor it took, with all that it started.

What outlives the command is waited for here (PR_SET_CHILD_SUBREAPER), or its time would be nobody's.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys

PR_SET_CHILD_SUBREAPER = 36
MOST_SECONDS = 30
"""For each process."""


def main() -> int:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    status = subprocess.call(sys.argv[1:])
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"\n{status} {used.ru_utime + used.ru_stime:.1f}", file=sys.stderr)
    return 0


sys.exit(main())
