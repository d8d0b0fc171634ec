"""A core at a URL: read by ranges where its store can do that, else copied to where the worker runs."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Iterator, NamedTuple, Optional

from ...base.argv import ELF
from ...base.errors import ArenascopeError, TargetError
from ...sources.core.ranged_core import RangedBytes
from .engine_errors import engine_errors
from .which_cores import Core, as_core

LEAST = 8 << 20
"""A smaller one is copied by one request."""
PAUSES = (0.5, 2.0)
"""Seconds before it is asked for again."""
PROBE = 64


class Here(NamedTuple):
    path: str
    held: Optional[RangedBytes] = None
    """Where only what is asked for is fetched."""


@contextmanager
def fetched(core: Core) -> Iterator[Here]:
    """What had to be copied is removed. ArenascopeError also at the end, where what was read is not to be trusted."""
    fsspec: Any = import_module("fsspec")
    system, path = fsspec.url_to_fs(core.url)
    file = _in_parts(system, path) if core.bytes >= LEAST else None
    if file is None:
        with tempfile.TemporaryDirectory(prefix="arenascope-fleet-") as folder:
            copy = os.path.join(folder, os.path.basename(path) or "core")
            system.get_file(path, copy)
            yield Here(copy)
        return
    ranges = _Ranges(core, system, path, file=file)
    try:
        yield Here(core.url, ranges.held)
        ranges.check()
    finally:
        ranges.close()


def _in_parts(system: Any, path: str) -> Any:
    """Opened; None where the store has it only as a whole, or it is packed."""
    # to get at a part of an archive's file all before it is unpacked
    if not isinstance(system, import_module("fsspec.archive").AbstractArchiveFileSystem):
        with suppress(Exception):  # each file system has its own
            file = system.open(path, "rb", cache_type="none")
            start = _read(file, 0, PROBE)
            # whoever ignores where a part begins sends the first bytes again
            if start.startswith(ELF) and _read(file, 1, PROBE - 1) == start[1:]:
                return file
            file.close()
    return None


def _read(file: Any, offset: int, size: int) -> bytes:
    file.seek(offset)
    data: bytes = file.read(size)
    return data


class _Ranges:
    """One file of a store that gives any part of it."""

    def __init__(self, core: Core, system: Any, path: str, file: Any) -> None:
        self._url, self._system, self._path, self._file = core.url, system, path, file
        self._before = self._now()
        if self._before.bytes != core.bytes:
            raise TargetError(f"{core.url} was changed since it was found")
        self.held = RangedBytes(core.bytes, self._fetch)

    def _fetch(self, offset: int, size: int) -> bytes:
        what = f"{self._url}: {size:,} bytes at {offset:,} could not be fetched"
        for pause in (*PAUSES, 0.0):
            try:
                with engine_errors(what):
                    data = _read(self._file, offset, size)
                if len(data) == size:
                    return data
                failure = ArenascopeError(f"{what}: {len(data):,} came")
            except ArenascopeError as error:
                failure = error
            time.sleep(pause)
        raise failure

    def check(self) -> None:
        """ArenascopeError where it is another file by now, or not all could be had that was asked for."""
        if self._now() != self._before:
            raise TargetError(f"{self._url} was changed while it was read")
        if self.held.failure is not None:
            raise self.held.failure

    def _now(self) -> Core:
        with engine_errors(self._url):
            self._system.invalidate_cache(self._path)
            return as_core(self._system, self._system.info(self._path))

    def close(self) -> None:
        self.held.close()
        with suppress(Exception):
            self._file.close()
