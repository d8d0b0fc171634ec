"""Owners by declared types: each variable holds what the program's own walk says, and shares nothing by words that were
pointers once."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Iterator, NamedTuple

import pytest
from documents import ask_door
from doors import GDB, SHELL, Core, Image, Live
from looks import give_up
from marks import in_full
from sites import PROGRAMS, Sited
from subjects import Started
from test_truth import LEVELS

pytestmark = pytest.mark.xdist_group("declared sharing")
STREAM = "g_stream"
"""libc's list of streams leads to it as well: nothing of it is its variable's alone."""

MAP = "std::map<int, Session, std::less<int>, std::allocator<std::pair<int const, Session>>>"
NODES = {"Session": f"{MAP} node"}
"""Where a container has them."""
STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>"


class Truth(NamedTuple):
    """What the program says of itself."""

    variables: dict[str, tuple[int, int]]
    """How many blocks each holds, and their bytes."""
    types: dict[tuple[str, str], tuple[int, int, int]]
    """Of each type below a variable: how many, what they take, and the largest."""
    stale: dict[int, str]
    """The member that alone leads to a block."""


def told(file: Path) -> Truth:
    truth = Truth({}, {}, {})
    for line in file.read_text().splitlines():
        name, *figures = line.split("\t")
        if name.startswith("each "):
            _, type, variable = name.split()
            count, size, largest = map(int, figures)
            truth.types[type, variable] = count, size, largest
        elif name.startswith("stale "):
            truth.stale[int(figures[0], 16)] = name.partition(" ")[2]
        else:
            blocks, size = map(int, figures)
            truth.variables[name] = blocks, size
    return truth


class Recycled(NamedTuple):
    truth: Truth
    live: Live
    core: Core

    def image(self, kind: str) -> Image:
        return self.live if kind == "live" else self.core


@pytest.fixture(
    scope="module", params=[pytest.param(each, marks=[pytest.mark.full] * (each != "O2")) for each in LEVELS]
)
def recycled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recycled]:
    folder = tmp_path_factory.mktemp("recycled")
    program, file = PROGRAMS / f"recycled.{request.param}", folder / "truth"
    if not program.exists():
        pytest.skip(f"{program.name} is not built: make fixtures")
    with Started(program, file) as running:
        assert running.said.split() == ["ready", str(running.pid)]
        done = subprocess.run(["gcore", "-o", folder / "core", str(running.pid)], capture_output=True, text=True)
        core = folder / f"core.{running.pid}"
        if not core.exists():
            give_up(f"gcore wrote none: {done.stderr}")
        yield Recycled(told(file), Live(running.pid, program), Core(core, program))


def by_variable(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Without what is held by stale words."""
    rows = [each for each in found["owners"] if each["kind"] == "global" and each["stale"] is None]
    # g_names[abi:cxx11]
    return {each["name"].partition("[")[0]: each for each in rows if each["name"] is not None}


@pytest.mark.parametrize("kind", ["live", *in_full("core")])
def test_each_variable_holds_its_own(recycled: Recycled, kind: str) -> None:
    """Buffers, numbers, letters and unused room of others lead nowhere; unions, tails, inline buffers and tagged
    pointers do."""
    (found,) = ask_door(SHELL, recycled.image(kind), "owners --limit 0")
    rows = by_variable(found)
    held = {name: (rows[name]["blocks"], rows[name]["held_bytes"]) for name in recycled.truth.variables}
    assert held == recycled.truth.variables
    alone = {name: (rows[name]["retained_blocks"], rows[name]["retained_bytes"]) for name in rows if name in held}
    assert alone.pop(STREAM) == (0, 0)
    assert alone == {name: each for name, each in held.items() if name != STREAM}
    stale = [each for each in found["owners"] if each["stale"] is not None]
    assert sum(each["blocks"] for each in stale) == len(recycled.truth.stale)


def test_what_one_of_a_type_costs(recycled: Recycled) -> None:
    """With all that hangs on it; of a list's entries each by itself."""
    (found,) = ask_door(SHELL, recycled.core, "owners --limit 0 --by type")
    rows = by_variable(found)
    told = {}
    for type, variable in recycled.truth.types:
        name = NODES.get(type, type)
        (cost,) = (each for each in rows[variable]["by_type"] if each["type"] == name)
        assert cost["certain"]
        told[type, variable] = cost["blocks"], cost["retained_bytes"], cost["largest_bytes"]
    assert told == recycled.truth.types
    assert all(each["by_type"] for each in found["owners"])


@pytest.mark.full
def test_leaks_count_every_word(recycled: Recycled) -> None:
    """What only a number or a letter leads to is not called lost; which one does is told by its member."""
    (found,) = ask_door(SHELL, recycled.core, "leaks")
    assert not [each for each in found["leaks"] if each["strength"] == "definite"]
    assert found["stale"]["blocks"] == len(recycled.truth.stale)
    told = {int(block, 16): each for each in found["stale_words"] for block in each["samples"]}
    names = {block: each["name"].replace(STRING, "std::string") for block, each in told.items()}
    assert names == recycled.truth.stale
    assert sum(each["bytes"] for each in found["stale_words"]) == found["stale"]["bytes"]
    (with_owner,) = ask_door(SHELL, recycled.core, f"owner {next(iter(told)):#x}")
    assert with_owner["held_by"]["stale"] == told[next(iter(told))]["why"]


def test_without_types_they_share(recycled: Recycled) -> None:
    """By the very words: else the test above would show nothing."""
    (found,) = ask_door(SHELL, recycled.core, "owners --limit 0", declared=False)
    rows = by_variable(found)
    truth = recycled.truth.variables
    wrong = {name for name, each in truth.items() if (rows[name]["blocks"], rows[name]["held_bytes"]) != each}
    assert wrong >= {"g_sessions", "g_table", "g_counters", "g_messages"}
    assert rows["g_sessions"]["retained_blocks"] == 0


@pytest.mark.full
@pytest.mark.needs_gdb
def test_a_server_shares_nothing_with_stdout(tmp_path: Path) -> None:
    """The buffer of stdout lies where buckets of sessions were."""
    sited = Sited(PROGRAMS / "server.O1", tmp_path, "3000", "400")
    try:
        (found,) = ask_door(GDB, Live(sited.pid, sited.program), "owners --limit 0")
    finally:
        sited.end()
    rows = by_variable(found)
    assert rows["_IO_2_1_stdout_"]["blocks"] == 1
    sessions = rows["g_sessions"]
    assert sessions["retained_bytes"] == sessions["held_bytes"] > found["live_bytes"] / 2
