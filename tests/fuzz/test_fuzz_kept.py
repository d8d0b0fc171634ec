"""What arenascope itself keeps between looks, by chance: graph files with a right sum, and folders of snapshots.

A short run among all tests, a long one by `make fuzz`; what makes it longer, or does one run again, is in test_fuzz.py.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import graph_damage
import pytest
import snapshot_damage
from forked import Run, door
from subjects import Subject
from test_fuzz import LONG, today
from test_fuzz_files import RAW, Failure, check, fuzz
from test_fuzz_notes import a_block

from arenascope.blocks import pointer_finder

SHORT = 80
SNAPSHOTS = 5
ASKED = (
    ("leaks",),
    ("owners",),
    ("owners", "--fold"),
    ("owners", "--html", "PAGE"),
    ("owners", "--pprof", "PROFILE"),
    ("owner", "BLOCK"),
    ("refs", "BLOCK"),
)


class Kept:
    """A core with its graph file, and what `snapshot` says of a process."""

    def __init__(self, folder: Path) -> None:
        self.core, self.graph = folder / "core", folder / "graph"
        self.page, self.profile, self.moments = folder / "page.html", folder / "profile", folder / "moments"
        self.moments.mkdir()
        with Subject("cache") as subject:
            ready(["snapshot", str(subject.pid), str(folder / "snapshot"), "--types", "--owners"])
            shutil.move(subject.kernel_core(), self.core)
        self.snapshot: dict[str, Any] = json.loads((folder / "snapshot").read_text())
        self.block = a_block(self.core)
        ready(["owners", str(self.core), "--graph", str(self.graph)])
        self.data = self.graph.read_bytes()

    def make(self, seed: str, index: int) -> Run:
        rng = random.Random(f"{seed}:{index}")
        run = self.of_graph(rng) if rng.random() < 0.6 else self.of_folder(rng)
        return run._replace(words=f"{seed}:{index} {run.words}")

    def of_graph(self, rng: random.Random) -> Run:
        data, damage = graph_damage.damaged(rng, self.data)
        name, *more = rng.choice(ASKED)
        places = {"PAGE": str(self.page), "PROFILE": str(self.profile), "BLOCK": self.block}
        words = [name, str(self.core), "--graph", str(self.graph), *(places.get(each, each) for each in more)]
        return self.run(rng, words, {self.graph: data}, damage)

    def of_folder(self, rng: random.Random) -> Run:
        files = {}
        for number in range(SNAPSHOTS):
            document = {**self.snapshot, "taken": self.snapshot["taken"] + 60 * number}
            whole = json.dumps(document).encode()
            path = self.moments / f"{number}.json"
            files[path] = snapshot_damage.damaged(rng, document) if rng.random() < 0.5 else whole
        words = ["trend", str(self.moments), *rng.choice(([], [], ["--html", str(self.page)], ["--until", "1G"]))]
        return self.run(rng, words, files, f"{SNAPSHOTS} snapshots")

    def run(self, rng: random.Random, words: list[str], files: dict[Path, bytes], damage: str) -> Run:
        if rng.random() < 0.5:
            words = [*words, "--json"]
        worth_it = rng.choice((0, pointer_finder.WORTH_IT))

        def act() -> None:
            # half of them by numpy, where it is installed
            before, pointer_finder.WORTH_IT = pointer_finder.WORTH_IT, worth_it
            for path, data in files.items():
                path.write_bytes(data)
            try:
                check(door(words), words)
                if self.page.exists() and RAW.search(self.page.read_text()):
                    raise Failure("characters that steer what is written, on a page")
            finally:
                pointer_finder.WORTH_IT = before
                for path in (*files, self.page, self.profile):
                    path.unlink(missing_ok=True)

        return Run(f"{' '.join(words)}: {damage}", act)


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
