"""Fixtures for tests that run real debuggers on real processes and cores."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator

import pytest
from album import Album, Sight
from doors import GDB, Door, Gdb
from lldb_door import EVERY_LLDB, LLDBS, Lldb
from looks import opened
from subjects import Subject

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


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    """A process with something of everything."""
    with Subject("bins") as subject:
        yield subject


@pytest.fixture(scope="session")
def gdb() -> Gdb:
    return opened(GDB)


@pytest.fixture(params=EVERY_LLDB, ids=lambda door: door.name)
def lldb(request: pytest.FixtureRequest) -> Lldb:
    return opened(request.param)


@pytest.fixture(params=[GDB, *LLDBS], ids=lambda door: door.name)
def door(request: pytest.FixtureRequest) -> Door:
    """Each debugger; some tests have a list of their own."""
    return opened(request.param)
