"""Fixtures for tests that run real debuggers on real processes and cores."""

from __future__ import annotations

from typing import Any, Iterator

import pytest
from album import Album
from choice import beyond_most, beyond_pairs, not_in_turn, not_its_turn
from doors import DOORS, GDB, NEWEST, Door, Gdb
from lldb_door import EVERY_LLDB, LLDBS, Lldb
from looks import opened
from made_once import Looks, Sights
from platforms import HOST, Platform
from scenarios import Scenario, View
from subjects import Subject


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/debuggers/"):
            item.add_marker(pytest.mark.debugger)
            if any(map(elsewhere, parameters(item).values())):
                item.add_marker(pytest.mark.full)
    # each sees what the one before it has left; lists, as both look at the mark
    for item in [*not_in_turn(items)]:
        item.add_marker(pytest.mark.full)
    for item in [*not_its_turn(items, DOORS)]:
        item.add_marker(pytest.mark.full)
    for item in beyond_pairs(items):
        item.add_marker(pytest.mark.exhaustive)
    # last, so that what is left out here is in `make test-all`
    for item in [*beyond_most(items)]:
        item.add_marker(pytest.mark.full)


def parameters(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return dict(callspec.params) if callspec is not None else {}


def elsewhere(parameter: Any) -> bool:
    """It calls for what `make test` does without: another release of glibc, or another LLDB than the newest."""
    if isinstance(parameter, Scenario):
        parameter = parameter.platform
    if isinstance(parameter, Platform):
        return parameter != HOST
    name = parameter if isinstance(parameter, str) else getattr(parameter, "name", None)
    return name in {door.name for door in EVERY_LLDB} - set(NEWEST)


@pytest.fixture(scope="session")
def album(request: pytest.FixtureRequest) -> Album:
    """Of the looks that this run's tests ask for, no others are taken."""
    asked = (parameters(item).get("sight") for item in request.session.items)
    return Album(view for looks in asked if isinstance(looks, Looks) for view in looks.views if isinstance(view, View))


@pytest.fixture
def sight(request: pytest.FixtureRequest, album: Album) -> Sights[View]:
    return Sights(request.param, album.sight)


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
