"""Libraries where they are installed: in the folders of the Python that runs, or in the checkout's .venv.

Code that another user may have put somewhere is never run: see `_own_folders`, `checkout` and `_is_believed`.
"""

from __future__ import annotations

import glob
import importlib
import os
import stat
import sys
from _thread import allocate_lock
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Iterator, Optional

from .programs import way

NAMES = ("tabulate", "pygments", "tqdm", "numpy", "prometheus_client")
PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


_LOADING = allocate_lock()
"""Threads ask for one at the same time: what another one has only begun to load is of no use, and the path is one."""


def load(name: str) -> Optional[ModuleType]:
    """The module, or None where it is nowhere."""
    with _LOADING:
        return sys.modules.get(name) or _found(name)


def _found(name: str) -> Optional[ModuleType]:
    before = sys.path[:]
    own = _own_folders()
    for folders in _searched(name):
        sys.path[:] = [*own, *folders]
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
        finally:
            sys.path[:] = before
    return None


def where(name: str) -> str:
    """ "tabulate 0.9.0 (/usr/lib/python3/dist-packages)" or "tabulate: not found".

    By what was unpacked there, as far as that tells: to load numpy takes longer than to answer.
    """
    if name not in sys.modules:
        for folder in (folder for folders in (_own_folders(), *_searched(name)) for folder in folders):
            if os.path.isfile(os.path.join(folder, name, "__init__.py")) and _made_for_us(folder):
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


def _searched(name: str) -> Iterator[list[str]]:
    """What is searched for it after the folders of the Python that runs, one after the other; first nothing more."""
    yield []
    root = checkout()
    if root is not None:
        for folder in sorted(glob.glob(os.path.join(glob.escape(root), ".venv", "lib", "python3*", "site-packages"))):
            found = PathFinder.find_spec(name, [folder])
            if found is not None and found.origin is not None and _is_believed(found.origin, root):
                yield [folder]


def _own_folders() -> list[str]:
    """Of the Python that runs: not PYTHONPATH's, nor what depends on where it was started (LLDB has "." among them)."""
    given = os.environ.get("PYTHONPATH")
    others = {os.path.abspath(each) for each in given.split(os.pathsep)} if given else set()
    return [folder for folder in sys.path if os.path.isabs(folder) and folder not in others]


def checkout() -> Optional[str]:
    """What this package lies in, as <root>/common/arenascope. A wheel and a zipapp have none, and may lie in a folder
    where anybody can put a .venv, as /tmp."""
    common = os.path.dirname(PACKAGE)
    if os.path.basename(common) != "common" or not os.path.isdir(PACKAGE):
        return None
    root = os.path.dirname(common)
    return root if os.path.isfile(os.path.join(root, "gdb", "arena.py")) else None


def _is_believed(path: str, root: str) -> bool:
    """Whether all on the way there from the checkout is root's, the user's, or whose the package is, and nobody may
    write to it who may not write to the package: nobody else put it there, or anything beside it that it imports."""
    ours = os.stat(PACKAGE)
    owners = {0, os.geteuid(), ours.st_uid}
    # of a library, and of one that is a file
    site = os.stat(os.path.join(path.rpartition("/site-packages/")[0], "site-packages"))
    return not _is_others(site, ours) and all(
        each.st_uid in owners and not (_is_others(each, ours) and not _is_kept_apart(each)) for each in way(path, root)
    )


def _is_others(status: os.stat_result, ours: os.stat_result) -> bool:
    """Whether somebody may write to it who could not as well write to the package."""
    added = status.st_mode & ~(ours.st_mode if status.st_gid == ours.st_gid else ours.st_mode & ~stat.S_IWGRP)
    by_group = added & stat.S_IWGRP and status.st_gid != 0
    return not stat.S_ISLNK(status.st_mode) and bool(by_group or added & stat.S_IWOTH)


def _is_kept_apart(status: os.stat_result) -> bool:
    """A folder as /tmp: others may put something there, and take nothing away."""
    return stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX)
