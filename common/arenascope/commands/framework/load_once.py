"""Loads files of a debugger's door as modules: their folder is no package and must not be on sys.path."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType


def load_once(name: str, path: str) -> ModuleType:
    """Loads a file as the module of this name, completely or not at all. After Ctrl-C in the middle, later commands
    must not find half a module."""
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
