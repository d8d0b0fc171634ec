"""The environment of all tests, and what pytest-xdist begins with."""

from __future__ import annotations

import gc
import os
import signal
from typing import Iterable

import pytest
from lifetimes import remove_folders

# GDB would ask whether to load symbols from there
os.environ.pop("DEBUGINFOD_URLS", None)


def pytest_configure(config: pytest.Config) -> None:
    # the order is longest_first's
    config.option.loadscopereorder = False
    # nohup, and a shell for what runs in its background, have signals ignored that tests send: programs inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # a single process goes file by file
    if hasattr(config, "workerinput"):
        items[:] = longest_first(items)


def pytest_collection_finish() -> None:
    # some 10,000 tests, which Python would go through each time that it looks for what nobody holds any more
    gc.collect()
    gc.freeze()


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
def pytest_sessionfinish() -> None:
    remove_folders()
