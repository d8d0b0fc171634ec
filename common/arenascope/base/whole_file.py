"""Writes files whole or not at all; a device, a FIFO or a terminal is written to directly."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from typing import Iterator, Optional

from .errors import ArenascopeError

PRIVATE, FOR_ALL = 0o600, 0o666
"""Modes of new files: private by default, as most hold names or values of a program."""
ACL = "system.posix_acl_access"
STANDARD_STREAMS = (1, 2)
OWN_FILES = "/proc/self/fd"


def partial_name(path: str) -> str:
    """Returns a temporary name in the same folder: rename works only within a file system."""
    return os.path.join(os.path.dirname(path), f".arenascope-{os.urandom(8).hex()}")


class PartialFile:
    """A new file in the folder of `path`, which gets that name once it is whole. Until then it has no name, if the file
    system supports that (O_TMPFILE): an unfinished file leaves nothing, even if we are killed."""

    def __init__(self, path: str, mode: int) -> None:
        self.path = path
        self._name = ""
        if os.path.isdir(OWN_FILES):
            with suppress(OSError):
                self.descriptor = os.open(os.path.dirname(path) or ".", os.O_WRONLY | os.O_TMPFILE, mode)
                return
        self._name = partial_name(path)
        self.descriptor = os.open(self._name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)

    def finish(self) -> None:
        # a full disk may show only now: on network file systems, and where space is counted later
        os.fsync(self.descriptor)
        if not self._name:
            try:
                self._link(self.path)
                return
            except FileExistsError:
                name = partial_name(self.path)
                self._link(name)
                self._name = name
        os.replace(self._name, self.path)

    def _link(self, name: str) -> None:
        # linkat() by any folder: link() does not follow this name
        os.link(f"{OWN_FILES}/{self.descriptor}", name, src_dir_fd=self.descriptor)

    def close(self) -> None:
        os.close(self.descriptor)
        if self._name:
            # a finished file no longer has this name
            with suppress(OSError):
                os.unlink(self._name)


@contextmanager
def nameless_file(folder: str) -> Iterator[int]:
    """Returns a descriptor of a file that nobody else can open, or find after we end."""
    try:
        file = TemporaryFile(buffering=0, dir=folder)  # noqa: SIM115 - closed below
    except OSError as error:
        raise ArenascopeError(f"cannot write in {folder}: {error.strerror or error}") from error
    with file:
        yield file.fileno()


def kind_of_disk(folder: str) -> str:
    """Returns the file system's type, as in mount(8); "" if unknown."""
    device = os.stat(folder).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError), open("/proc/self/mountinfo", errors="replace") as file:
        for fields in map(str.split, file):
            if fields[2] == number:
                return fields[fields.index("-") + 1]
    return ""


def write_whole(path: str, data: bytes, mode: int = PRIVATE) -> None:
    """Replaces a file atomically: readers of `path`, or of what it links to, see the old file or the new one, under the
    same owner and mode. A new file gets `mode` less the umask."""
    try:
        old = _look_at(path)
        if old is None:
            _replace(os.path.realpath(path), data, mode)
        elif (stream := _stream(old)) is not None:
            _write(os.dup(stream), data)
        elif stat.S_ISREG(old.st_mode):
            if not os.access(path, os.W_OK, effective_ids=True):
                raise ArenascopeError(f"cannot write {path}: it is write-protected", "name another file")
            # private until its owner is set
            _replace(os.path.realpath(path), data, 0o600, old)
        else:
            _write(_open_other(path, old), data)
    except OSError as error:
        raise ArenascopeError(f"cannot write {path}: {error.strerror or error}") from error


def _look_at(path: str) -> Optional[os.stat_result]:
    """Follows symlinks through the kernel, which refuses those that somebody else left in /tmp
    (fs.protected_symlinks)."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _stream(old: os.stat_result) -> Optional[int]:
    """Finds an open stream of ours, such as /dev/stdout redirected to a file: replacing that file would lose other
    output."""
    for stream in STANDARD_STREAMS:
        with suppress(OSError):
            if stat.S_ISREG(old.st_mode) and os.path.samestat(os.fstat(stream), old):
                return stream
    return None


def _open_other(path: str, old: os.stat_result) -> int:
    try:
        # no waiting for somebody to read the FIFO: a process that we hold would wait as well
        descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError as error:
        if stat.S_ISFIFO(old.st_mode) and os.path.exists(path):
            raise ArenascopeError(f"cannot write {path}: nobody reads from it", "start the reader first") from error
        raise
    os.set_blocking(descriptor, True)
    return descriptor


def _write(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]


def _replace(path: str, data: bytes, mode: int, old: Optional[os.stat_result] = None) -> None:
    """Replaces the file; `old` is the status of the existing one, whose owner is kept."""
    partial = PartialFile(path, mode)
    try:
        if old is not None:
            _keep_owner(partial.descriptor, path, old)
        _write(os.dup(partial.descriptor), data)
        partial.finish()
    finally:
        partial.close()


def _keep_owner(descriptor: int, path: str, old: os.stat_result) -> None:
    made = os.fstat(descriptor)
    if (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError as error:
            raise ArenascopeError(f"cannot write {path}: it would change its owner", "name another file") from error
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
    access = None
    with suppress(OSError):
        access = os.getxattr(path, ACL)
    if access is not None:
        # its mode alone would give the group what the list's mask lets others have
        os.setxattr(descriptor, ACL, access)
