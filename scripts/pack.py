"""Packs the shell door into one file, dist/arenascope.pyz, for a pod: it runs on a bare Python 3.9 or newer.

The shells' completion is in it where shtab is installed, and the engine where a cargo is: for this machine's processor,
with cargo-zigbuild also for each whose standard library this Rust has.

The same files make the same bytes, wherever and whenever they are packed: see scripts/release.sh.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "common"))

import portable_engine  # noqa: E402
from reference import write_for_package  # noqa: E402

from arenascope.cli.fleet.via import OLDEST_DATE, archived  # noqa: E402
from arenascope.engine import in_archive  # noqa: E402


def build(target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    date = int(os.environ.get("SOURCE_DATE_EPOCH", OLDEST_DATE))
    with tempfile.TemporaryDirectory() as folder:
        made = {name: path.read_bytes() for name, path in write_for_package(Path(folder)).items()}
    if portable_engine.can_build():
        built = {cpu: portable_engine.build(cpu) for cpu in {*portable_engine.CPUS, os.uname().machine}}
        made.update((in_archive(cpu), library.read_bytes()) for cpu, library in built.items() if library is not None)
    target.write_bytes(b"#!/usr/bin/env python3\n" + archived(date, made))
    target.chmod(0o755)
    return target


if __name__ == "__main__":
    print(build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "arenascope.pyz"))
