"""The screens in README and in the case studies are what the tool prints today, numbers aside."""

from __future__ import annotations

import subprocess
import sys

import pytest
from doors import ROOT


@pytest.mark.xdist_group("stories")
def test_screens_are_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "stories.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=280,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
