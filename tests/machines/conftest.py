"""Fixtures for tests that look at other machines' heaps."""

from __future__ import annotations

from pathlib import Path

import pytest
from machine_album import Album, Sight

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.debugger)


@pytest.fixture(scope="session")
def machine_album() -> Album:
    return Album()


@pytest.fixture
def sight(request: pytest.FixtureRequest, machine_album: Album) -> Sight:
    return machine_album.sight(request.param)
