"""A library that several threads ask for at the same time: each gets all of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

COMMON = Path(__file__).resolve().parents[2] / "common"
ASKED = """
import json, sys, threading
sys.path.insert(0, {common!r})
from arenascope.base import optional_libraries
before, seen = sys.path[:], []
def ask():
    seen.append(hasattr(optional_libraries.load("pygments"), "highlight"))
threads = [threading.Thread(target=ask) for _ in range(3)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(json.dumps([*seen, sys.path == before]))
"""


def test_each_gets_all_of_it() -> None:
    pytest.importorskip("pygments", reason="pygments is not installed: scripts/setup.sh installs it")
    words = [sys.executable, "-c", ASKED.format(common=str(COMMON))]
    said = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout
    assert json.loads(said) == [True] * 4
