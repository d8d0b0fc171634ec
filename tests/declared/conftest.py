"""Real programs that many tests look at."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator

import pytest
from looks import ROOT, give_up
from redis_source import Redis, built, fill
from sites import LIBRARY


@pytest.fixture(scope="session")
def redis_server() -> Path:
    return built()


@pytest.fixture(scope="session")
def filled_redis(redis_server: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    if not LIBRARY.exists():
        give_up(f"{LIBRARY.relative_to(ROOT)} is not built: make fixtures")
    running = Redis(redis_server, tmp_path_factory.mktemp("redis"))
    try:
        fill(running)
        yield running
    finally:
        running.end()
