"""arenascope's GDB door: `source` this file, then `heap arenas`.

Finds the package beside itself (through symlinks too), makes GDB a Target and registers the commands. Sourced again
it starts over, so that edited code is not stale.
"""

from __future__ import annotations

import os
import sys

import gdb

INSTALLED = "/arenascope/doors"


def _load() -> None:
    # __file__ is the other script's where a script runs `source`
    door = os.path.realpath(_load.__code__.co_filename)
    # in a checkout the package lies in common; an installed one has the doors inside
    around = os.path.dirname(os.path.dirname(door))
    package = os.path.dirname(os.path.dirname(around)) if around.endswith(INSTALLED) else os.path.join(around, "common")
    if not os.path.isdir(os.path.join(package, "arenascope")):
        gdb.write(f"arenascope: no package beside {door}: source it in its checkout, or a symlink to it\n", gdb.STDERR)
        return
    for name in [name for name in sys.modules if name.partition(".")[0] in ("arenascope", "arenascope_gdb")]:
        del sys.modules[name]
    # what lies beside this file: further on there may be one of another release, or somebody else's
    sys.path.insert(0, package)
    try:
        from arenascope.commands.framework.load_once import load_once
    finally:
        sys.path.remove(package)

    # by path: this folder must not be on sys.path, where it would be taken for GDB's own module
    folder = os.path.dirname(door)
    load_once("arenascope_gdb", os.path.join(folder, "heap_commands.py")).register(folder)


_load()
