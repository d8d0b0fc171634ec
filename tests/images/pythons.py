"""A Python at rest, as a subject."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Sequence

import pytest
from platforms import BUILD
from subjects import Started


def resting(
    code: str, python: Sequence[str] = (sys.executable,), arguments: Sequence[str] = (), **environment: str
) -> Started:
    """Runs code that prints a line and then reads on, until it is let go."""
    return Started(*python, "-S", "-c", code, *arguments, env={**os.environ, **environment})


PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")


def python_of(release: str) -> list[str]:
    """Where there is one of this release: by its name, where pyenv keeps it, or in a root that scripts/releases.sh
    fetched."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{release}.*/bin/python{release}"))
    named = [each for each in [shutil.which(f"python{release}")] if each and "shims" not in each]
    if [*named, *kept]:
        return [str([*named, *kept][0])]
    root = BUILD / f"python{release}" / "root"
    if not root.exists() or os.geteuid():
        pytest.skip(f"no Python {release} here, nor a root of one that this user may enter")
    return ["chroot", str(root), f"/usr/bin/python{release}"]
