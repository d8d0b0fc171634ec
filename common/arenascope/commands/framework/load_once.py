"""Files beside a debugger's door as modules: such a folder is no package and must not be on sys.path."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType


def load_once(name: str, path: str) -> ModuleType:
    """The file as the module of this name: whole, or not at all. Ctrl-C in the middle must not leave half of one, which
    every later command would take for the whole."""
    module = sys.modules.get(name)
    if module is not None:
        return module
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    try:
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except BaseException:  # KeyboardInterrupt is no Exception
        sys.modules.pop(name, None)
        raise
    return module
