"""Fixtures for tests that run real debuggers on real processes and cores."""

from __future__ import annotations

import functools
from typing import Callable, Iterator, Mapping

import pytest
from album import Album, Sight
from doors import GDB, Door, Gdb
from lldb_door import EVERY_LLDB, NEWEST_LLDB, Lldb
from looks import opened
from marks import in_full
from scenarios import View
from subjects import Subject


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/debuggers/"):
            item.add_marker(pytest.mark.debugger)


@pytest.fixture(scope="session")
def album(request: pytest.FixtureRequest) -> Album:
    """Of the looks that this run's tests ask for, no others are taken."""
    asked = (item.callspec.params.get("sight", ()) for item in request.session.items if hasattr(item, "callspec"))
    return Album(view for views in asked for view in views)


@pytest.fixture
def sight(request: pytest.FixtureRequest, album: Album) -> Mapping[View, Callable[[], Sight]]:
    """Of the views that one test judges, what takes each."""
    return {view: functools.partial(album.sight, view) for view in request.param}


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    """A process with something of everything."""
    with Subject("bins") as subject:
        yield subject


@pytest.fixture(scope="session")
def gdb() -> Gdb:
    return opened(GDB)


@pytest.fixture(params=[NEWEST_LLDB, *in_full(*EVERY_LLDB[:-1])], ids=lambda door: door.name)
def lldb(request: pytest.FixtureRequest) -> Lldb:
    return opened(request.param)


@pytest.fixture(params=[GDB, *in_full(NEWEST_LLDB)], ids=lambda door: door.name)
def door(request: pytest.FixtureRequest) -> Door:
    """Each debugger; some tests have a list of their own."""
    return opened(request.param)
