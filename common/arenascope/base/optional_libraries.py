"""Finds optional libraries: in the folders of the running Python, or in the checkout's .venv.

Code that another user may have put there is never run: see `_own_folders`, `checkout` and `is_believed`.
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

MAX_LINKS = 40
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def find_program(name: str) -> Optional[str]:
    """Returns the first in PATH that is root's or the user's, in folders that nobody else can write to."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, name)
        # skip "" and "." in PATH, the current folder
        if os.path.isabs(folder) and os.access(path, os.X_OK) and os.path.isfile(path) and is_ours(path):
            return path
    return None


def is_ours(path: str) -> bool:
    """Tells whether all folders on its path belong to root or the user, and nobody else may write to them."""
    owners = {0, os.geteuid()}
    try:
        found = (os.lstat(os.sep), *way(os.path.abspath(path)))
        return all(each.st_uid in owners and not _others_write(each) for each in found)
    except OSError:
        return False


def _others_write(status: os.stat_result) -> bool:
    """Tells whether others can write; root's group does not count."""
    writes = status.st_mode & (stat.S_IWOTH if status.st_gid == 0 else OTHERS_WRITE)
    return bool(writes) and not stat.S_ISLNK(status.st_mode) and not _is_kept_apart(status)


def way(path: str, root: str = "", links: int = MAX_LINKS) -> Iterator[os.stat_result]:
    """Yields the file and each folder and link on its path, up to `root` (excluded), or to the top if a link leads
    elsewhere."""
    if not links:
        raise OSError(f"too many links lead to {path}")
    while path not in (root, os.path.dirname(path)):
        status = os.lstat(path)
        yield status
        if stat.S_ISLNK(status.st_mode):
            # ".." after a link is kept: it may be another folder's parent
            yield from way(os.path.join(os.path.dirname(path), os.readlink(path)), root, links - 1)
        path = os.path.dirname(path)


NAMES = ("tabulate", "pygments", "tqdm", "prometheus_client")
PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


_LOADING = allocate_lock()
"""Serialises loading: a module that another thread has only begun to load is of no use, and sys.path is shared."""


def load(name: str) -> Optional[ModuleType]:
    """Returns the module, or None if it is not found."""
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
    """Describes a library: "tabulate 0.9.0 (/usr/lib/python3/dist-packages)" or "tabulate: not found".

    It reads the package's metadata: loading a library may take longer than the answer.
    """
    python = "python{}.{}".format(*sys.version_info[:2])
    if name not in sys.modules:
        for folder in (folder for folders in (_own_folders(), *_searched(name)) for folder in folders):
            # a .venv may be of another Python than the debugger's
            ours = folder in sys.path or os.path.basename(os.path.dirname(folder)) == python
            if ours and os.path.isfile(os.path.join(folder, name, "__init__.py")):
                for release in _releases(folder, name):
                    return f"{name} {release} ({folder})"
                break
    module = load(name)
    if module is None:
        return f"{name}: not found"
    folder = os.path.dirname(os.path.dirname(getattr(module, "__file__", None) or ""))
    return f"{name} {getattr(module, '__version__', '?')} ({folder})"


def _releases(folder: str, name: str) -> Iterator[str]:
    """Returns releases by name. Debian keeps the project's own spelling: Pygments-2.14.0.egg-info."""
    for each in (name, name.capitalize()):
        for path in glob.glob(os.path.join(glob.escape(folder), f"{each}-*.*-info")):
            yield os.path.basename(path)[len(name) + 1 :].rpartition(".")[0]


def _searched(name: str) -> Iterator[list[str]]:
    """Yields the folders to search in addition to the running Python's; first none."""
    yield []
    root = checkout()
    if root is not None:
        for folder in sorted(glob.glob(os.path.join(glob.escape(root), ".venv", "lib", "python3*", "site-packages"))):
            found = PathFinder.find_spec(name, [folder])
            if found is not None and found.origin is not None and is_believed(found.origin, root, folder):
                yield [folder]


def _own_folders() -> list[str]:
    """Returns the running Python's folders, without those of PYTHONPATH or relative ones (LLDB has "." among them)."""
    given = os.environ.get("PYTHONPATH")
    others = {os.path.abspath(each) for each in given.split(os.pathsep)} if given else set()
    return [folder for folder in sys.path if os.path.isabs(folder) and folder not in others]


def checkout() -> Optional[str]:
    """Returns the checkout of this package, which lies there as <root>/common/arenascope. A wheel or a zipapp has none,
    and may lie in a folder where anybody can put a .venv, such as /tmp."""
    common = os.path.dirname(PACKAGE)
    if os.path.basename(common) != "common" or not os.path.isdir(PACKAGE):
        return None
    root = os.path.dirname(common)
    return root if os.path.isfile(os.path.join(root, "gdb", "arena.py")) else None


def is_believed(path: str, root: str, folder: str) -> bool:
    """Tells whether every folder from the checkout down belongs to root, the user, or the package's owner, and whoever
    can write to it, or to `folder`, can also write to the package. So nobody else put the library there, or anything
    that it loads from that folder."""
    ours = os.stat(PACKAGE)
    owners = {0, os.geteuid(), ours.st_uid}
    return not _is_others(os.stat(folder), ours) and all(
        each.st_uid in owners and not (_is_others(each, ours) and not _is_kept_apart(each)) for each in way(path, root)
    )


def _is_others(status: os.stat_result, ours: os.stat_result) -> bool:
    """Tells whether somebody can write to it who cannot write to the package."""
    added = status.st_mode & ~(ours.st_mode if status.st_gid == ours.st_gid else ours.st_mode & ~stat.S_IWGRP)
    by_group = added & stat.S_IWGRP and status.st_gid != 0
    return not stat.S_ISLNK(status.st_mode) and bool(by_group or added & stat.S_IWOTH)


def _is_kept_apart(status: os.stat_result) -> bool:
    """Tells whether it is a folder such as /tmp: others can add to it, but remove nothing."""
    return stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX)
