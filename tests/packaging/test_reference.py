"""docs/commands.md says what the command table says, and man can read the man page."""

from __future__ import annotations

import sys
from pathlib import Path

from looks import completed, needs

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_is_current() -> None:
    completed(sys.executable, ROOT / "scripts" / "reference.py", "--check")


def test_the_man_page_is_one(tmp_path: Path) -> None:
    needs("groff")
    completed(sys.executable, ROOT / "scripts" / "reference.py", "--for-package", tmp_path)
    done = completed("groff", "-man", "-Tutf8", "-ww", tmp_path / "arenascope.1")
    assert not done.stderr
    assert "malloc_trim" in done.stdout
