"""Real programs, each running for the tests of one file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Iterator

import ledger
import pytest
from programs import PROGRAMS, Env, Program, named
from running import Running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/programs/"):
            item.add_marker(pytest.mark.debugger)
            if item.path.name != "test_counterfactual.py":
                item.add_marker(pytest.mark.full)


@pytest.fixture(
    scope="module",
    params=[pytest.param(each, id=each.name, marks=pytest.mark.xdist_group(each.name)) for each in PROGRAMS],
)
def program(request: pytest.FixtureRequest) -> Program:
    return request.param


def run(program: Program, env: Env = None) -> Iterator[Running]:
    # not pytest's own folder: a socket's path must be short
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        found = program.start(Path(folder), env)
        try:
            program.load(found)
            yield found
        finally:
            found.end()


@pytest.fixture(scope="module")
def running(program: Program) -> Iterator[Running]:
    yield from run(program)


@pytest.fixture
def serving(request: pytest.FixtureRequest) -> Iterator[Running]:
    """A program of the table by its name, or another, for one test: it need not outlive that."""
    yield from run(named(request.param) if isinstance(request.param, str) else request.param)


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Iterator[Running]:
    """The same, with a list of its blocks (ledger.py)."""
    yield from run(named(request.param), ledger.environment())
