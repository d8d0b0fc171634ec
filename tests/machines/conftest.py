"""Fixtures for tests that look at other machines' heaps."""

from __future__ import annotations

import pytest
from machine_album import Album
from machine_table import View
from made_once import Sights


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/machines/"):
            item.add_marker(pytest.mark.debugger)
            item.add_marker(pytest.mark.full)


@pytest.fixture(scope="session")
def machine_album() -> Album:
    return Album()


@pytest.fixture
def sight(request: pytest.FixtureRequest, machine_album: Album) -> Sights[View]:
    return Sights(request.param, machine_album.sight)
