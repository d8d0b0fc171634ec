"""The program's name, its release, and its message when it is stopped. The first module to be loaded: it imports
nothing."""

__version__ = "1.0.0"
PROGRAM = "arenascope"

INTERRUPTED, STOPPED = 130, "arenascope: stopped\n"
"""The exit status of a command stopped by SIGINT, as shells have it, and its message."""
