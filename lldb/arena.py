"""arenascope's LLDB door: `command script import` this file, then `heap arenas`.

Finds the package beside itself (through symlinks too), makes LLDB a Target and registers the commands. Imported again
it starts over, so that edited code is not stale.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any, Optional

import lldb


def _package_folder(door: str) -> Optional[str]:
    """The folder that holds the package: <root>/common in a checkout, site-packages in an installed wheel."""
    folder = os.path.dirname(door)
    for candidate in (os.path.join(os.path.dirname(folder), "common"), os.path.join(folder, "..", "..", "..")):
        candidate = os.path.realpath(candidate)
        if os.path.isfile(os.path.join(candidate, "arenascope", "errors.py")):
            return candidate
    return None


def _load(door: str) -> ModuleType:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("arenascope", "arenascope_lldb")]:
        del sys.modules[name]
    from arenascope.load_once import load_once

    # by path: with a symlink, the folder that LLDB puts on sys.path is not this one
    return load_once("arenascope_lldb", os.path.join(os.path.dirname(door), "heap_commands.py"))


def __lldb_init_module(debugger: lldb.SBDebugger, internal_dict: dict[str, Any]) -> None:
    door = os.path.realpath(__file__)
    package = _package_folder(door)
    if package is None:
        print(f"arenascope: no package beside {door}: import it from its checkout, or through a symlink")
        return
    if package not in sys.path:
        # ahead of ".", which LLDB has at the end: an `arenascope` in the working directory is somebody else's
        sys.path.insert(sys.path.index(".") if "." in sys.path else len(sys.path), package)
    commands = _load(door)
    # LLDB looks for a command's class by this module's name
    classes = commands.make_classes(os.path.dirname(door))
    globals().update({kind.__name__: kind for kind in classes})
    commands.register(debugger, classes, __name__)
