"""A day with a debugger, or a program that uses the API, asks for hundreds of looks: none may leave a file open."""

from __future__ import annotations

import gc
import os
from collections import Counter
from pathlib import Path
from typing import Any, Iterator, Union

import pytest
from doors import GDB, Core, Gdb, Image, Live
from lldb_door import NEWEST_LLDB, Lldb
from looks import opened
from marks import in_full
from subjects import Subject

import arenascope
from arenascope.commands.framework.find_command import COMMAND_NAMES

pytestmark = pytest.mark.xdist_group("descriptors")

LOOKS = ["arenas", "threads", "chunks --summary", "mmapped", "trim", "pins", "chunk 0x1000", "map", "report"]
OPEN = "sorted(os.path.realpath('/proc/self/fd/' + number) for number in os.listdir('/proc/self/fd'))"


@pytest.fixture(params=[GDB, *in_full(NEWEST_LLDB)], ids=lambda door: door.name)
def door(request: pytest.FixtureRequest) -> Union[Gdb, Lldb]:
    return opened(request.param)


def open_files(door: Union[Gdb, Lldb]) -> dict[str, Any]:
    """The step that tells which files are open, and collects no garbage before."""
    statements = f"import os; value = len({OPEN})"
    return {"do": f"python {statements}; print(value)"} if door is GDB else {"python": statements}


@pytest.mark.parametrize("kind", ["live", *in_full("core")])
def test_no_look_leaves_a_file_open(door: Union[Gdb, Lldb], subject: Subject, kind: str) -> None:
    image: Image = Live(subject.pid, subject.program) if kind == "live" else Core(subject.gcore(), subject.program)
    once = [{"do": f"heap {look}"} for look in LOOKS]
    # the first round may load what stays
    steps = [*once, open_files(door), *once, *once, *once, open_files(door)]
    outcomes = door.drive(door.look_at(image), steps)
    before, after = (outcomes[at].value if door is not GDB else int(outcomes[at].text) for at in (len(LOOKS), -1))
    assert after == before


@pytest.fixture(scope="module")
def kinds() -> Iterator[Subject]:
    with Subject("kinds") as subject:
        yield subject


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


def descriptors() -> list[str]:
    """Where each leads; but the one by which the list is read."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue
    return sorted(found)


@pytest.mark.parametrize("kind", ["live", *in_full("core")])
@pytest.mark.usefixtures("without_collector")
def test_every_command_closes_what_it_opened(kinds: Subject, tmp_path: Path, kind: str) -> None:
    """Also what knows itself by a circle of references, which nothing but the collector finds: it is switched off."""
    it = arenascope.open(kinds.pid if kind == "live" else str(kinds.gcore()))
    snapshot, block = str(tmp_path / "before"), it.chunks(limit=1).to_dict()["chunks"][0]["address"]
    words = {
        **{name: [block] for name in ("chunk", "owner", "refs")},
        "diff": [snapshot],
        "save": [str(tmp_path / "saved"), "--redact"],
        "snapshot": [str(tmp_path / "now"), "--types", "--owners"],
        "report": ["--types", "--owners"],
    }
    it.ask("snapshot", snapshot)
    documents, left = [], {}
    # trend reads snapshots alone
    names = [each for each in COMMAND_NAMES if each != "trend"]
    for name in names:
        before = descriptors()
        documents.append(it.ask(name, *words.get(name, ())))
        more = Counter(descriptors()) - Counter(before)
        if more:
            left[name] = sorted(more.elements())
    assert len(documents) == len(names)
    assert left == {}
