"""Counts, for the support matrix, which tests passed in which cell: `pytest --cells FILE`, then scripts/matrix.py.

A cell is a look's release, machine, door, image and symbols; a test that judges several looks notes how each came off
(tests/debuggers/made_once.py). With pytest-xdist the notes travel with each report, so workers need not agree on
anything.

And what pytest-xdist begins with, and which tests are traced for the lines that they reach.
"""

from __future__ import annotations

import gc
import json
import os
import signal
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Iterable, Iterator

import covered
import pytest
from lifetimes import remove_folders

MEASURED = pytest.StashKey[object]()
UNTRACED = pytest.StashKey[bool]()
COUNTED = ("passed", "failed", "skipped")
# GDB would ask whether to load symbols from there
os.environ.pop("DEBUGINFOD_URLS", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cells", metavar="FILE", help="write the outcomes by release, machine, door, image and symbols")


class Cells:
    """Lives where the reports come together: in the controller, or in the only process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: Counter[tuple[str, str]] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            for name, value in report.user_properties:
                if name == "cell":
                    cell, outcome = value
                    self.counts[cell, outcome] += 1

    def pytest_sessionfinish(self) -> None:
        cells = sorted({cell for cell, _ in self.counts})
        document = {cell: {name: self.counts[cell, name] for name in COUNTED} for cell in cells}
        self.path.write_text(json.dumps(document, indent=1) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    # the order is longest_first's
    config.option.loadscopereorder = False
    # nohup, and a shell for what runs in its background, have signals ignored that tests send: programs inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    config.stash[MEASURED] = covered.start()
    path = config.getoption("--cells")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Cells(Path(path)), "cells")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in more_of_the_same(items):
        item.stash[UNTRACED] = True
    # a single process goes file by file
    if hasattr(config, "workerinput"):
        items[:] = longest_first(items)


def more_of_the_same(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Those whose parameters all had their values in a test before, each for itself; and where `make test` has some
    variants of a test, the others. To trace them takes half as long again, and leads through the same lines."""
    seen: dict[str, dict[str, list[object]]] = {}
    for full, of_these in groupby(sorted(items, key=is_full), key=is_full):
        had = set(seen) if full else set()
        for item in of_these:
            name = item.nodeid.partition("[")[0]
            if name in had or not has_new_value(item, seen.setdefault(name, {})):
                yield item


def is_full(item: pytest.Item) -> bool:
    return item.get_closest_marker("full") is not None


def has_new_value(item: pytest.Item, seen: dict[str, list[object]]) -> bool:
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return True
    new = {name: value for name, value in callspec.params.items() if value not in seen.setdefault(name, [])}
    for name, value in new.items():
        seen[name].append(value)
    return bool(new)


def pytest_collection_finish() -> None:
    # some 10,000 tests, which Python would go through each time that it looks for what nobody holds any more
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    with covered.paused(item.config.stash[MEASURED], item.stash.get(UNTRACED, False)):
        return (yield)


def longest_first(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """What begins last should end soon, else one worker is busy while the others have nothing left: first the groups
    with a test that is marked slow, then those of many tests. pytest-xdist itself goes by their number alone."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        names = [mark.args[0] for mark in item.iter_markers("xdist_group")]
        groups.setdefault("_".join(sorted(names)) or item.nodeid, []).append(item)
    slow = {name for name, group in groups.items() if any(item.get_closest_marker("slow") for item in group)}
    order = sorted(groups, key=lambda name: (name not in slow, -len(groups[name])))
    return [item for name in order for item in groups[name]]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    remove_folders()
    # each worker's before the controller's
    covered.save(session.config.stash[MEASURED])
    session.config.stash[MEASURED] = None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    folder = os.environ.get(covered.FOLDER)
    # xdist's workers have a summary that nobody sees: what they add up is lost to the controller's
    if folder and not hasattr(terminalreporter.config, "workerinput"):
        terminalreporter.section("lines that no test reaches")
        for line in covered.report(Path(folder)):
            terminalreporter.write_line(line)
