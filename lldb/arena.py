"""arenascope's LLDB entry point: `command script import` this file, then type `heap arenas`.

It finds the package next to this file (symlinks are followed), makes LLDB a Target and registers the commands.
Importing it again reloads everything, so that edited code takes effect.
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
    # import only from this installation: elsewhere on sys.path there may be another release, or another package of this
    # name
    sys.path.insert(0, package)
    try:
        from arenascope.commands.framework.debugger_doors import load_once
    finally:
        sys.path.remove(package)

    # load by path: if this file is a symlink, the folder that LLDB puts on sys.path is another one
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
    # LLDB looks up a command's class in this module
    classes = commands.make_classes(os.path.dirname(door))
    globals().update({kind.__name__: kind for kind in classes})
    commands.register(debugger, classes, __name__)
