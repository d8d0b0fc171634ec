"""This package as one zip archive that a Python runs: the zipapp, and what fleet carries to other hosts."""

from __future__ import annotations

import io
import time
import zipfile
from pathlib import Path
from types import MappingProxyType
from typing import Mapping

MAIN = """\
import sys

if sys.version_info < (3, 9):
    sys.exit("arenascope: needs Python 3.9 or newer, and this is {}.{}".format(*sys.version_info))

from arenascope.__main__ import run

run()
"""
"""Any Python can compile this, 2.7 too."""
OLDEST_DATE = 315532800
"""1980, before which zip has no dates, in seconds since 1970."""


def archived(date: int = OLDEST_DATE, more: Mapping[str, bytes] = MappingProxyType({})) -> bytes:
    """The same files make the same bytes. A zipapp that runs is as it was packed. `more`: files that are added."""
    package = Path(__file__).resolve().parents[2]
    if not package.is_dir():
        return package.parent.read_bytes()
    files = {
        path.relative_to(package.parent).as_posix(): path.read_bytes()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in sorted({**files, **more, "__main__.py": MAIN.encode()}.items()):
            entry = zipfile.ZipInfo(name, time.gmtime(max(OLDEST_DATE, date))[:6])
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
