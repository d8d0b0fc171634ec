"""The list of commands that each door shows; the shell's is what the debuggers' are checked against."""

from __future__ import annotations

import subprocess
import sys

from looks import ROOT

COMMANDS = (
    "arenas",
    "heaps",
    "bins",
    "threads",
    "params",
    "mmapped",
    "mappings",
    "check",
    "trim",
    "chunks",
    "chunk",
    "pins",
    "types",
    "containers",
    "waste",
    "map",
    "refs",
    "owner",
    "leaks",
    "owners",
    "report",
    "save",
    "snapshot",
    "diff",
    "trend",
    "info",
    "stats",
    "version",
)
"""All that every door has, by hand: nothing here asks the doors."""


def shell_help() -> str:
    return subprocess.run(
        [sys.executable, str(ROOT / "bin" / "arenascope"), "--help"], check=True, text=True, capture_output=True
    ).stdout


def groups(overview: str, end: str) -> dict[str, list[str]]:
    """The lines of commands under each heading, which stand between the usage and what a door says for itself."""
    found: dict[str, list[str]] = {}
    for line in overview.partition(end)[0].splitlines()[2:]:
        if line.endswith(":") and not line.startswith(" "):
            lines = found.setdefault(line, [])
        elif line.startswith("   "):
            lines[-1] += f" {line.strip()}"
        elif line.startswith("  "):
            lines.append(line)
    return found
