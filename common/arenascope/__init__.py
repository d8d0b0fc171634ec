"""arenascope: what glibc malloc holds, whose it is, and what would give it back."""

__version__ = "0.1.0"
PROGRAM = "arenascope"

INTERRUPTED, STOPPED = 130, "arenascope: stopped\n"
"""The exit status that the shell gives a command stopped by SIGINT, and the line that goes with it."""
