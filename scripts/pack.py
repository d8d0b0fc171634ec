"""Packs the shell door into one file, dist/arenascope.pyz, for a pod: it runs on a bare Python 3.9 or newer.

The same files make the same bytes, wherever and whenever they are packed: see scripts/release.sh.
"""

from __future__ import annotations

import os
import sys
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAIN = """\
import sys

if sys.version_info < (3, 9):
    sys.exit("arenascope: needs Python 3.9 or newer, and this is {}.{}".format(*sys.version_info))

from arenascope.__main__ import run

run()
"""
"""Any Python can compile this, 2.7 too."""
OLDEST_DATE = 315532800
"""1980, before which zip has no dates, in SOURCE_DATE_EPOCH's seconds."""


def build(target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    package = ROOT / "common" / "arenascope"
    date = time.gmtime(max(OLDEST_DATE, int(os.environ.get("SOURCE_DATE_EPOCH", OLDEST_DATE))))[:6]
    files = {
        path.relative_to(package.parent).as_posix(): path.read_bytes()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with open(target, "wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in sorted({**files, "__main__.py": MAIN.encode()}.items()):
                entry = zipfile.ZipInfo(name, date)
                entry.create_system, entry.external_attr = 3, 0o100644 << 16
                archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    target.chmod(0o755)
    return target


if __name__ == "__main__":
    print(build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "arenascope.pyz"))
