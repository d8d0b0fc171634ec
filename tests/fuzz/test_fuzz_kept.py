"""What arenascope itself keeps between looks, damaged by chance: folders of snapshots.

A short run among all tests, a long one by `make fuzz`; what makes it longer, or does one run again, is in test_fuzz.py.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from forked import Run, door
from subjects import Subject
from test_fuzz import LONG, today
from test_fuzz_files import RAW, Failure, check, damaged, fuzz

SHORT = 40
SNAPSHOTS = 5


class Kept:
    """The snapshot of a process, and a folder for damaged copies of it."""

    def __init__(self, folder: Path) -> None:
        self.page, self.moments = folder / "page.html", folder / "moments"
        self.moments.mkdir()
        with Subject("cache") as subject:
            ready(["snapshot", str(subject.pid), str(folder / "snapshot"), "--types", "--owners"])
        self.snapshot: dict[str, Any] = json.loads((folder / "snapshot").read_text())

    def make(self, seed: str, index: int) -> Run:
        rng = random.Random(f"{seed}:{index}")
        files = {}
        for number in range(SNAPSHOTS):
            document = {**self.snapshot, "taken": self.snapshot["taken"] + 60 * number}
            whole = json.dumps(document).encode()
            path = self.moments / f"{number}.json"
            files[path] = damaged(rng, document) if rng.random() < 0.5 else whole
        words = ["trend", str(self.moments), *rng.choice(([], [], ["--html", str(self.page)], ["--until", "1G"]))]
        if rng.random() < 0.5:
            words = [*words, "--json"]

        def act() -> None:
            for path, data in files.items():
                path.write_bytes(data)
            try:
                check(door(words), words)
                if self.page.exists() and RAW.search(self.page.read_text()):
                    raise Failure("characters that steer what is written, on a page")
            finally:
                for path in (*files, self.page):
                    path.unlink(missing_ok=True)

        return Run(f"{seed}:{index} {' '.join(words)}", act)


def ready(words: list[str]) -> None:
    said = door(words)
    assert said.status == 0, said.complaint


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("kept"))


def test_a_few(kept: Kept) -> None:
    fuzz(kept, SHORT, "always")


@pytest.mark.fuzz
def test_many(kept: Kept) -> None:
    fuzz(kept, int(os.environ.get("ARENASCOPE_FUZZ_RUNS", LONG)) // 2, f"{today()} {os.getpid()}")
