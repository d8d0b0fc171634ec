"""docs/commands.md says what the command table says, and man can read the man page."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from looks import give_up

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_is_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "reference.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_the_man_page_is_one(tmp_path: Path) -> None:
    if not shutil.which("groff"):
        give_up("groff is not installed")
    made = [sys.executable, str(ROOT / "scripts" / "reference.py"), "--for-package", str(tmp_path)]
    subprocess.run(made, check=True)
    page = str(tmp_path / "arenascope.1")
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", page], capture_output=True, text=True)
    assert not done.stderr
    assert done.returncode == 0
    assert "malloc_trim" in done.stdout
