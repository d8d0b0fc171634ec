"""Other extensions of GDB that have a `heap`: real ones where they are to be had, and what stands in for them.

`make setup-all` gets the GEF that pip has. Others: ARENASCOPE_GEF names a gef.py, ARENASCOPE_PWNDBG a gdbinit.py (its
virtual environment by PWNDBG_VENV_PATH).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from doors import ROOT, Gdb
from looks import give_up

FETCHED = ROOT / "build" / "extensions"
# Before they register anything, both look for a heap in `help all`, and end GDB as pwndbg does. "by-word" reads the
# first word of a line, as pwndbg; "by-name" reads aliases, too, as a fork of GEF. The heap of the one is a command,
# that of the other a prefix.
LOOKS_FIRST = """
import gdb, os
listed = gdb.execute("help all", to_string=True).splitlines()
if {refuses}:
    os._exit(1)
class Heap(gdb.Command):
    "Theirs."
    def __init__(self): super().__init__("heap", gdb.COMMAND_USER, gdb.COMPLETE_NONE, {prefix})
    def invoke(self, line, from_tty): print("their heap")
Heap()
"""
STAND_INS = {
    "by-word": LOOKS_FIRST.format(
        refuses='"heap" in {line.split()[0] for line in listed if line.strip()}', prefix=False
    ),
    "by-name": LOOKS_FIRST.format(
        refuses='any("heap" in line.split(" -- ")[0].split(", ") for line in listed)', prefix=True
    ),
}


@dataclass(frozen=True)
class Extension:
    name: str
    file: Path
    """What is sourced."""
    variables: dict[str, str] = field(default_factory=dict)


def stand_in(name: str, folder: Path) -> Extension:
    file = folder / "theirs.py"
    file.write_text(STAND_INS[name])
    return Extension(name, file)


def real(name: str, folder: Path, gdb: Gdb) -> Extension:
    """`folder`: for what it writes."""
    usual = {"gef": FETCHED / "gef.py", "pwndbg": FETCHED / "pwndbg" / "gdbinit.py"}[name]
    file = Path(os.environ.get(f"ARENASCOPE_{name.upper()}") or usual)
    if not file.exists():
        give_up(f"{name} is not here: {file}")
    extension = Extension(
        name, file, {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
    )
    alone = gdb.start(["-ex", f"source {file}", "-ex", "echo loaded\\n"], extension.variables)
    if "loaded" not in alone.stdout:
        give_up(f"{name} does not load in this GDB: {alone.stderr.strip()[-200:]}")
    return extension
