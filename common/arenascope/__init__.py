"""arenascope: what glibc malloc holds, whose it is, and what would give it back."""

__version__ = "0.1.0"
