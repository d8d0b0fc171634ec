"""`snapshot --types`, `diff` and `trend` follow the elements of containers, as the program counts them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from documents import ask_door
from doors import GDB, Door, Live
from marks import in_full
from schemas import valid_snapshot
from shell_door import SHELL
from sites import PROGRAMS, Sited

pytestmark = pytest.mark.xdist_group("declared containers")
PATH, APART, MOMENTS = "srv->sessions->buckets", 120, 4
BETWEEN = 2
"""Seconds."""


def said(door: Door, image: Live, words: str) -> dict[str, Any]:
    (found,) = ask_door(door, image, words, declared="--no-declared" not in words)
    return found


def taken(door: Door, image: Live, file: Path, at: int) -> None:
    """A snapshot, as of that time: rates take minutes."""
    said(door, image, f"snapshot {file} --types")
    document = valid_snapshot(json.loads(file.read_text()))
    file.write_text(json.dumps({**document, "taken": at}))


@pytest.mark.needs_gdb
@pytest.mark.parametrize("door", [SHELL, *in_full(GDB)], ids=lambda door: door.name)
def test_what_grows_is_followed(door: Door, tmp_path: Path) -> None:
    sited = Sited(PROGRAMS / "daemon.O2", tmp_path, "300", "closed")
    folder, counts = tmp_path / "moments", []
    folder.mkdir()
    try:
        image = Live(sited.pid, sited.program)
        for number in range(MOMENTS):
            counts.append(sited.counts()[PATH].elements)
            taken(door, image, folder / f"{number}.json", 1_700_000_000 + number * APART)
            sited.tick()
        diff = said(door, image, f"diff {folder / '0.json'} {folder / '1.json'}")
        trend = said(door, image, f"trend {folder}")
    finally:
        sited.end()
    grown = counts[1] - counts[0]
    assert grown == 100
    # what lies below has more elements, and holds less
    first = diff["containers"][0]
    assert (first["name"], first["before"], first["after"], first["change"]) == (PATH, counts[0], counts[1], grown)
    assert first["per_hour"] == grown * 3600 // APART
    (series,) = [each for each in trend["series"] if (each["by"], each["name"]) == ("container", PATH)]
    assert [value for _, value in series["moments"]] == counts
    assert (series["how"], series["per_hour"]) == ("steadily", grown * 3600 // APART)


def test_a_moment_without_types_is_no_moment_without_elements(tmp_path: Path) -> None:
    sited = Sited(PROGRAMS / "daemon.O2", tmp_path, "100", "closed")
    try:
        image = Live(sited.pid, sited.program)
        said(SHELL, image, f"snapshot {tmp_path / 'a.json'} --types --no-declared")
        taken(SHELL, image, tmp_path / "b.json", 1_700_000_000)
        diff = said(SHELL, image, f"diff {tmp_path / 'a.json'} {tmp_path / 'b.json'}")
    finally:
        sited.end()
    assert diff["containers"] == []


@pytest.mark.full
@pytest.mark.parametrize("since", [True, False], ids=["since", "again"])
def test_a_report_names_the_container_that_grows(since: bool, tmp_path: Path) -> None:
    """By a snapshot with types, and by two looks with types; not by a snapshot without."""
    sited = Sited(PROGRAMS / "daemon.O2", tmp_path, "100", "closed")
    try:
        image = Live(sited.pid, sited.program)
        counts = [sited.counts()[PATH].elements]
        if since:
            said(SHELL, image, f"snapshot {tmp_path / 'a.json'} --types")
            said(SHELL, image, f"snapshot {tmp_path / 'b.json'}")
            sited.tick()
            found = said(SHELL, image, f"report --since {tmp_path / 'a.json'}")
            assert "container" not in said(SHELL, image, f"report --since {tmp_path / 'b.json'}")["growth"]["names"]
        else:
            with ThreadPoolExecutor() as beside:
                later = beside.submit(said, SHELL, image, f"report --again {BETWEEN} --types")
                while not later.done():
                    sited.tick()
                    sleep(0.1)
                found = later.result()
        counts.append(sited.counts()[PATH].elements)
    finally:
        sited.end()
    grown = found["growth"]
    assert grown["names"]["container"] == PATH
    more = grown["figures"]["container_change_elements"]
    # while it looks twice there is more
    assert more == counts[1] - counts[0] if since else 0 < more <= counts[1] - counts[0]
    assert PATH in grown["text"].partition(".")[0]
