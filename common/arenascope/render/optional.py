"""Libraries that make output nicer where they are installed: the debugger's Python, or the checkout's .venv."""

from __future__ import annotations

import glob
import importlib
import os
import sys
from types import ModuleType
from typing import Optional

NAMES = ("tabulate", "pygments", "tqdm", "numpy")
in_a_hurry = False
"""Set by the shell, where each look is a new program: loading tabulate would take longer than printing every table."""


def load(name: str) -> Optional[ModuleType]:
    """The module, or None where it is nowhere."""
    if name in sys.modules:
        return sys.modules[name]
    before = sys.path[:]
    # LLDB has "." among them: whatever lies in the folder it was started in
    safe = [place for place in before if os.path.isabs(place)]
    for folders in ([], *([folder] for folder in _environments())):
        sys.path[:] = [*safe, *folders]
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
        finally:
            sys.path[:] = before
    return None


def load_soon(name: str) -> Optional[ModuleType]:
    """The same for a library whose stand-in prints the same: not loaded where that would only cost time."""
    return sys.modules.get(name) if in_a_hurry else load(name)


def where(name: str) -> str:
    """ "tabulate 0.9.0 (/usr/lib/python3/dist-packages)" or "tabulate: not found"."""
    module = load(name)
    if module is None:
        return f"{name}: not found"
    folder = os.path.dirname(os.path.dirname(getattr(module, "__file__", None) or ""))
    return f"{name} {getattr(module, '__version__', '?')} ({folder})"


def _environments() -> list[str]:
    """site-packages of the checkout that this package lies in: <root>/common/arenascope/render/ -> <root>/.venv."""
    root = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
    return sorted(glob.glob(os.path.join(root, ".venv", "lib", "python3*", "site-packages")))
