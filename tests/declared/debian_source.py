"""Programs from their distribution's source: upstream's archive, as apt has it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest


def downloaded(package: str, to: Path) -> Path:
    """In a folder of its own there."""
    folder = Path(tempfile.mkdtemp(dir=to))
    fetch = ["apt-get", "source", "-qq", "--download-only", package]
    done = subprocess.run(fetch, cwd=folder, capture_output=True, text=True)
    if done.returncode and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], capture_output=True)
        done = subprocess.run(fetch, cwd=folder, capture_output=True, text=True)
    found = sorted(folder.glob(f"{package}_*.orig.tar.*"))
    if done.returncode or not found:
        reason = next((line for line in done.stderr.splitlines() if line.startswith("E:")), "no archive came")
        shutil.rmtree(folder)
        pytest.skip(f"apt has no source of {package} here: {reason}")
    return found[0]


def unpack(archive: Path, to: Path) -> None:
    with tarfile.open(archive) as file:
        file.extractall(archive.parent)
    next(each for each in archive.parent.iterdir() if each.is_dir()).rename(to)
    shutil.rmtree(archive.parent)
