"""Figures saved small: what commands say as JSON at one moment, without a byte of what the blocks hold.

A later release reads what an earlier one wrote: keys that are not there count as not known.
"""

from __future__ import annotations

import gzip
import json
from typing import Any, Mapping

from .errors import UsageError
from .whole_file import write_whole

FORMAT = 1
NAME = "arenascope_snapshot"
GZIP = b"\x1f\x8b"
Document = Mapping[str, Any]


def write(path: str, document: Document) -> int:
    """Whole or not at all, and its size; compressed where the name ends in .gz."""
    data = json.dumps({NAME: FORMAT, **document}, ensure_ascii=False, separators=(",", ":")).encode()
    if path.endswith(".gz"):
        data = gzip.compress(data)
    write_whole(path, data)
    return len(data)


def read(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            data = file.read()
        if data.startswith(GZIP):
            data = gzip.decompress(data)
        document = json.loads(data)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        raise UsageError(f"{path} is no snapshot: {error}", "make one with: snapshot FILE") from error
    form = document.get(NAME) if isinstance(document, dict) else None
    if not isinstance(form, int):
        raise UsageError(f"{path} is no snapshot", "make one with: snapshot FILE")
    if form > FORMAT:
        raise UsageError(f"{path} was written by a newer arenascope (format {form})", "update arenascope")
    return dict(document)


def looks_like_one(path: str) -> bool:
    """By its first bytes: a core file given in its place is none."""
    try:
        with open(path, "rb") as file:
            start = file.read(64)
            if start.startswith(GZIP):
                file.seek(0)
                with gzip.open(file) as unpacked:
                    start = unpacked.read(64)
    except (OSError, EOFError):
        return False
    return start.startswith(f'{{"{NAME}"'.encode())
