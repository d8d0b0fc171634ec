"""Packs the shell door into one file, dist/arenascope.pyz, for a pod: it runs on a bare Python 3.9 or newer."""

from __future__ import annotations

import shutil
import sys
import tempfile
import zipapp
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAIN = "from arenascope.__main__ import run\n\nrun()\n"


def build(target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "common" / "arenascope", source / "arenascope", ignore=without)
        (source / "__main__.py").write_text(MAIN)
        zipapp.create_archive(source, target, interpreter="/usr/bin/env python3", compressed=True)
    return target


if __name__ == "__main__":
    print(build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "arenascope.pyz"))
