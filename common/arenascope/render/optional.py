"""Libraries that make output nicer where they are installed: the debugger's Python, or the checkout's .venv."""

from __future__ import annotations

import glob
import importlib
import os
import sys
from types import ModuleType
from typing import Iterator, Optional

NAMES = ("tabulate", "pygments", "tqdm", "numpy")


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


def loaded(name: str) -> Optional[ModuleType]:
    """The same for a library whose stand-in prints the same: a process is held while it is loaded, or the look is a new
    program, and loading tabulate takes longer than printing every table."""
    return sys.modules.get(name)


def where(name: str) -> str:
    """ "tabulate 0.9.0 (/usr/lib/python3/dist-packages)" or "tabulate: not found".

    By what was unpacked there, as far as that tells: to load numpy takes longer than to answer.
    """
    if name not in sys.modules:
        for folder in (*sys.path, *_environments()):
            if (
                os.path.isabs(folder)
                and os.path.isfile(os.path.join(folder, name, "__init__.py"))
                and _made_for_us(folder)
            ):
                for release in _releases(folder, name):
                    return f"{name} {release} ({folder})"
                break
    module = load(name)
    if module is None:
        return f"{name}: not found"
    folder = os.path.dirname(os.path.dirname(getattr(module, "__file__", None) or ""))
    return f"{name} {getattr(module, '__version__', '?')} ({folder})"


def _made_for_us(folder: str) -> bool:
    """Whether what was installed there can be loaded: a .venv may be of another Python than the debugger's."""
    return folder in sys.path or os.path.basename(os.path.dirname(folder)) == "python{}.{}".format(
        *sys.version_info[:2]
    )


def _releases(folder: str, name: str) -> Iterator[str]:
    """Debian's names are written as the project's own: Pygments-2.14.0.egg-info."""
    for each in (name, name.capitalize()):
        for path in glob.glob(os.path.join(glob.escape(folder), f"{each}-*.*-info")):
            yield os.path.basename(path)[len(name) + 1 :].rpartition(".")[0]


def _environments() -> list[str]:
    """site-packages of the checkout that this package lies in: <root>/common/arenascope/render/ -> <root>/.venv."""
    root = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
    return sorted(glob.glob(os.path.join(root, ".venv", "lib", "python3*", "site-packages")))
