"""Damaged images by chance: a short run among all tests, a long one by `make fuzz`.

ARENASCOPE_FUZZ_RUNS says how many; ARENASCOPE_FUZZ_SEED=SEED does a run's series again, SEED:INDEX a single one.
"""

from __future__ import annotations

import datetime
import os
from typing import Iterator

import pytest
from images import Image, all_images
from oracle import Failure, one_run

SHORT, LONG = 500, 30_000
MAX_SHOWN = 20


@pytest.fixture(scope="module")
def images() -> list[Image]:
    return all_images()


def series(runs: int, *seeds: str) -> Iterator[str]:
    for seed in seeds:
        if ":" in seed:
            yield seed
            continue
        for index in range(runs // len(seeds)):
            yield f"{seed}:{index}"


def fuzz(images: list[Image], runs: int, *seeds: str) -> None:
    failures = []
    seeds = (os.environ["ARENASCOPE_FUZZ_SEED"],) if "ARENASCOPE_FUZZ_SEED" in os.environ else seeds
    print(f"fuzz: seeds {', '.join(seeds)}, {runs} runs over {len(images)} images", flush=True)
    for seed in series(runs, *seeds):
        try:
            one_run(images, seed)
        except Failure as failure:
            failures.append(failure)
            if len(failures) >= MAX_SHOWN:
                break
    if failures:
        raise failures[0] if len(failures) == 1 else AssertionError("\n".join(map(str, failures)))


def today() -> str:
    return datetime.date.today().isoformat()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("seed", "runs"),
    [
        ("always", SHORT // 16),
        *(
            pytest.param(each, SHORT // 4, marks=pytest.mark.full)
            for each in ("once more", "again", "more", "and more")
        ),
    ],
    ids=["always", "once more", "again", "more", "and more"],
)
def test_a_few(images: list[Image], seed: str, runs: int) -> None:
    """Always the same, as a test may not depend on the day: what is new is for `make fuzz`."""
    fuzz(images, runs, seed)


@pytest.mark.fuzz
def test_many(images: list[Image]) -> None:
    fuzz(images, int(os.environ.get("ARENASCOPE_FUZZ_RUNS", LONG)), f"{today()} {os.getpid()}")
