"""Packs this package as one zip archive that Python runs: the zipapp, and what fleet sends to other hosts."""

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
"""Any Python can compile this, even 2.7."""
OLDEST_DATE = 315532800
"""1980, in seconds since 1970: zip has no earlier dates."""


def archived(date: int = OLDEST_DATE, more: Mapping[str, bytes] = MappingProxyType({})) -> bytes:
    """The archive. The same files give the same bytes. A running zipapp returns itself. `more`: files to add."""
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
