"""arenascope's LLDB door: `command script import` this file, then `heap arenas`.

Finds the package beside itself (through symlinks too), makes LLDB a Target and registers the commands. Imported again
it starts over, so that edited code is not stale.
"""

import importlib.util
import os
import sys


def _package_folder(door):
    """The folder that holds the package: <root>/common in a checkout, site-packages in an installed wheel."""
    folder = os.path.dirname(door)
    for candidate in (os.path.join(os.path.dirname(folder), "common"), os.path.join(folder, "..", "..", "..")):
        candidate = os.path.realpath(candidate)
        if os.path.isfile(os.path.join(candidate, "arenascope", "errors.py")):
            return candidate
    return None


def _load(door):
    for name in [name for name in sys.modules if name.partition(".")[0] in ("arenascope", "arenascope_lldb")]:
        del sys.modules[name]
    # by path: with a symlink, the folder that LLDB puts on sys.path is not this one
    path = os.path.join(os.path.dirname(door), "heap_commands.py")
    spec = importlib.util.spec_from_file_location("arenascope_lldb", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["arenascope_lldb"] = module
    spec.loader.exec_module(module)
    return module


def __lldb_init_module(debugger, internal_dict):
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
