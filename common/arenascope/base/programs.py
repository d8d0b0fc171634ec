"""Finds other programs to run, only where nobody else can have put them."""

from __future__ import annotations

import os
import stat
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
    if stat.S_ISLNK(status.st_mode):
        return False
    writes = status.st_mode & (stat.S_IWOTH if status.st_gid == 0 else OTHERS_WRITE)
    # others can add files to a folder such as /tmp, but remove none
    return bool(writes) and not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX)


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
