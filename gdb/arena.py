"""arenascope's GDB entry point: `source` this file, then type `heap arenas`.

It finds the package next to this file (symlinks are followed), makes GDB a Target and registers the commands. Sourcing
it again reloads everything, so that edited code takes effect.
"""

from __future__ import annotations

import os
import sys

import gdb

INSTALLED = "/arenascope/doors"


def _load() -> None:
    # while a script runs `source`, __file__ is that of the script
    door = os.path.realpath(_load.__code__.co_filename)
    # in a checkout the package lies in common; an installed one has the doors inside
    around = os.path.dirname(os.path.dirname(door))
    package = os.path.dirname(os.path.dirname(around)) if around.endswith(INSTALLED) else os.path.join(around, "common")
    if not os.path.isdir(os.path.join(package, "arenascope")):
        gdb.write(f"arenascope: no package beside {door}: source it in its checkout, or a symlink to it\n", gdb.STDERR)
        return
    for name in [name for name in sys.modules if name.partition(".")[0] in ("arenascope", "arenascope_gdb")]:
        del sys.modules[name]
    # import only from this installation: elsewhere on sys.path there may be another release, or another package of this
    # name
    sys.path.insert(0, package)
    try:
        from arenascope.commands.framework.debugger_doors import load_once
    finally:
        sys.path.remove(package)

    # load by path: on sys.path, this folder would be imported in place of GDB's own module
    folder = os.path.dirname(door)
    load_once("arenascope_gdb", os.path.join(folder, "heap_commands.py")).register(folder)


_load()
