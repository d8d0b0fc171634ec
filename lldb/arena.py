"""arenascope's LLDB door: `command script import` this file, then `heap arenas`.

Finds the package beside itself (through symlinks too), makes LLDB a Target and registers the commands. Imported again
it starts over, so that edited code is not stale.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

import lldb

INSTALLED = "/arenascope/doors"


def _load(door: str, package: str) -> ModuleType:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("arenascope", "arenascope_lldb")]:
        del sys.modules[name]
    # what lies beside this file: further on there may be one of another release, or somebody else's
    sys.path.insert(0, package)
    try:
        from arenascope.commands.framework.load_once import load_once
    finally:
        sys.path.remove(package)

    # by path: with a symlink, the folder that LLDB puts on sys.path is not this one
    return load_once("arenascope_lldb", os.path.join(os.path.dirname(door), "heap_commands.py"))


def __lldb_init_module(debugger: lldb.SBDebugger, internal_dict: dict[str, Any]) -> None:
    door = os.path.realpath(__file__)
    # in a checkout the package lies in common; an installed one has the doors inside
    around = os.path.dirname(os.path.dirname(door))
    package = os.path.dirname(os.path.dirname(around)) if around.endswith(INSTALLED) else os.path.join(around, "common")
    if not os.path.isdir(os.path.join(package, "arenascope")):
        print(f"arenascope: no package beside {door}: import it from its checkout, or through a symlink")
        return
    commands = _load(door, package)
    # LLDB looks for a command's class by this module's name
    classes = commands.make_classes(os.path.dirname(door))
    globals().update({kind.__name__: kind for kind in classes})
    commands.register(debugger, classes, __name__)
