"""Fixtures for tests that run real debuggers on real processes and cores."""

from __future__ import annotations

from pathlib import Path

import pytest
from album import Album, Sight
from doors import GDB, Gdb, give_up

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.debugger)


@pytest.fixture(scope="session")
def album() -> Album:
    return Album()


@pytest.fixture
def sight(request: pytest.FixtureRequest, album: Album) -> Sight:
    return album.sight(request.param)


@pytest.fixture(scope="session")
def gdb() -> Gdb:
    reason = GDB.available()
    if reason:
        give_up(reason)
    return GDB
