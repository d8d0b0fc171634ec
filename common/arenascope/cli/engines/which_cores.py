"""Which cores are meant: files, patterns, folders that are gone through, and URLs of whatever fsspec knows."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Iterable, Iterator, Mapping, NamedTuple

from ...base.argv import ELF
from ...base.errors import UsageError
from ...sources.core.compressions import FORMATS

STARTS = (ELF, *(form.magic for form in FORMATS))
"""A core's first bytes, and those of what cores are packed in."""
STAMPS = ("ETag", "etag", "mtime", "LastModified", "Last-Modified", "last_modified", "updated", "modificationTime")
"""What file systems call that which changes with a file."""


class Core(NamedTuple):
    """One as it is now: another size or stamp makes it another one."""

    url: str
    bytes: int
    stamp: str


def find_cores(words: Iterable[str]) -> list[Core]:
    """Each once, in the order in which they were named."""
    by_url: dict[str, Core] = {}
    for word in words:
        for core in _of(word):
            by_url.setdefault(core.url, core)
    return list(by_url.values())


def _of(word: str) -> Iterator[Core]:
    fsspec: Any = import_module("fsspec")
    try:
        system, path = fsspec.url_to_fs(word)
        if any(mark in path for mark in "*?["):
            paths: list[str] = sorted(system.glob(path))
            rows = [system.info(each) for each in paths]
            yield from (as_core(system, row) for row in rows if row["type"] == "file")
            if not rows:
                raise UsageError(f"nothing matches {word}")
            return
        info = system.info(path)
        if info["type"] != "directory":
            core = as_core(system, info)
            # a URL may say more than where in its system a file lies
            yield core._replace(url=word) if "://" in core.url else core
            return
        inside = system.find(path, detail=True)
        yield from (as_core(system, inside[name]) for name in sorted(inside) if _begins_as_one(system, name))
    except (OSError, ImportError, ValueError) as error:
        raise UsageError(f"cannot look into {word}: {getattr(error, 'strerror', None) or error}") from error


def _begins_as_one(system: Any, path: str) -> bool:
    start: bytes = system.cat_file(path, start=0, end=max(map(len, STARTS)))
    return start.startswith(STARTS)


def as_core(system: Any, info: Mapping[str, Any]) -> Core:
    """Of what the file system says."""
    stamp = next((str(info[name]) for name in STAMPS if info.get(name) is not None), "")
    name = str(info["name"])
    # a plain path stays one
    url = name if "file" in _protocols(system) else str(system.unstrip_protocol(name))
    return Core(url, int(info.get("size") or 0), stamp)


def _protocols(system: Any) -> tuple[str, ...]:
    named = system.protocol
    return (named,) if isinstance(named, str) else tuple(named)
