"""The program's name, release, and what it says where it is stopped. The first module to be loaded imports nothing."""

__version__ = "1.0.0"
PROGRAM = "arenascope"

INTERRUPTED, STOPPED = 130, "arenascope: stopped\n"
"""The exit status that the shell gives a command stopped by SIGINT, and the line that goes with it."""
