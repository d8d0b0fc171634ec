"""Counts, for the support matrix, which tests passed in which cell: `pytest --cells FILE`, then scripts/matrix.py.

A cell is what a test's `sight` or `view` says of itself: release, machine, door, image, symbols. With pytest-xdist the
counts travel with each report, so workers need not agree on anything.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Optional

import pytest

COUNTED = ("passed", "failed", "skipped")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cells", metavar="FILE", help="write the outcomes by release, machine, door, image and symbols")


def cell_of(item: pytest.Item) -> Optional[str]:
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec is not None else {}
    view = params.get("sight") or params.get("view")
    if view is None or not all(hasattr(view, name) for name in ("release", "machine", "door", "image", "symbols")):
        return None
    return "|".join((view.release, view.machine, view.door, view.image, "symbols" if view.symbols else "stripped"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    cell = cell_of(item)
    if cell is not None:
        item.user_properties.append(("cell", cell))


class Cells:
    """Lives where the reports come together: in the controller, or in the only process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: Counter[tuple[str, str]] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # a test that was set up wrongly failed, too; one that was skipped there has no call
        if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
            for name, value in report.user_properties:
                if name == "cell":
                    self.counts[value, report.outcome] += 1

    def pytest_sessionfinish(self) -> None:
        cells = sorted({cell for cell, _ in self.counts})
        document = {cell: {name: self.counts[cell, name] for name in COUNTED} for cell in cells}
        self.path.write_text(json.dumps(document, indent=1) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    # a shell starts what runs in its background with Ctrl-C ignored, and programs inherit that: tests press it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    path = config.getoption("--cells")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Cells(Path(path)), "cells")
