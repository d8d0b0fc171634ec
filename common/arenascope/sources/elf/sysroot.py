"""Opens files of another host below a folder: a path from a core never leads out of it, and only regular files are
opened."""

from __future__ import annotations

import errno
import os
import stat
from typing import Optional

MOST_LINKS = 40
"""As the kernel has it (MAXSYMLINKS)."""
NOT_REGULAR = "it is no regular file"
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class PathWithin(str):
    """A path below `root` that had no links. It is checked again when it is opened: whoever can write there may have
    put a link in its place since."""

    root: str


def file_within(sysroot: str, path: str) -> Optional[PathWithin]:
    """Returns the regular file that has this path for a process whose root is `sysroot` (chroot); None if there is
    none.

    Absolute links begin at the root again, and ".." does not lead out of it. The result has no links below the root.
    The root itself is resolved by the kernel: the target of /proc/PID/root is a path of another root.
    """
    left = path.split("/")[::-1]
    found: list[str] = []
    links = 0
    try:
        while left:
            part = left.pop()
            if part in ("", "."):
                continue
            if part == "..":
                del found[-1:]
                continue
            here = os.path.join(sysroot, *found, part)
            mode = os.lstat(here).st_mode
            if stat.S_ISLNK(mode):
                links += 1
                if links > MOST_LINKS:
                    return None
                target = os.readlink(here)
                if target.startswith("/"):
                    found.clear()
                left += target.split("/")[::-1]
            elif stat.S_ISDIR(mode) or not any(left):
                found.append(part)
            else:
                return None
        whole = PathWithin(os.path.join(sysroot, *found))
        whole.root = sysroot
        return whole if stat.S_ISREG(os.lstat(whole).st_mode) else None
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None


def open_regular(path: str) -> int:
    """Opens a regular file for reading; OSError for any other. A FIFO is not waited for, no device is touched."""
    if not isinstance(path, PathWithin):
        return _open_regular(path, None)
    *folders, name = os.path.relpath(path, path.root).split("/")
    folder = os.open(path.root, FOLDER)
    try:
        for each in folders:
            inner = os.open(each, FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        return _open_regular(name, folder)
    finally:
        os.close(folder)


def _open_regular(path: str, folder: Optional[int]) -> int:
    """Opens a file in a given folder without following links."""
    follow = folder is None
    if not stat.S_ISREG(os.stat(path, dir_fd=folder, follow_symlinks=follow).st_mode):
        raise OSError(errno.EINVAL, NOT_REGULAR, path)
    file = os.open(path, FILE if follow else FILE | os.O_NOFOLLOW, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        # it was replaced since
        os.close(file)
        raise OSError(errno.EINVAL, NOT_REGULAR, path)
    return file
