"""Who holds what hangs on local variables: each by its function and name, as the log of allocations has it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Sequence

import pytest
from documents import ask_door
from doors import GDB, Core, Door, Image, Live
from lldb_door import NEWEST_LLDB
from looks import opened
from marks import in_full
from shell_door import SHELL
from sites import PROGRAMS, SOURCES, Expected, Sited

pytestmark = [pytest.mark.debugger, pytest.mark.xdist_group("declared sharing")]
BOOK, ARCHIVE, MINE = "main(): book", "main(): archive", "work(): mine"
INNER = re.compile(r"\b(_M_|_vptr|_Sp_)")
ARCHIVES = ("archive.trades[", "archive = ", "archive->last = ")
"""In lines of orders.cc that allocate for the archive; all others do so for the book."""


def of_stacks(found: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each for each in found["owners"] if each["kind"] == "stack" and each["stale"] is None}


def is_archives(block: Expected, lines: Sequence[str]) -> bool:
    """Of what std::make_unique makes the type tells, where no line does."""
    line = lines[int(block.site.rpartition(":")[2]) - 1] if block.site else ""
    return block.type in ("Archive", "Trade") or any(text in line for text in ARCHIVES)


@pytest.mark.parametrize("kind", ["live", *in_full("core")])
@pytest.mark.parametrize(
    "door",
    [pytest.param(GDB, marks=pytest.mark.needs_gdb), pytest.param(NEWEST_LLDB, marks=pytest.mark.full)],
    ids=lambda door: door.name,
)
def test_each_local_variable_holds_its_own(door: Door, kind: str, tmp_path: Path) -> None:
    """And what `owner` and the page say is the same."""
    lines = (SOURCES / "orders.cc").read_text().splitlines()
    sited = Sited(PROGRAMS / "orders.O1", tmp_path, "120", "kept")
    page = tmp_path / "page.html"
    try:
        blocks = {address: each for address, each in sited.expected().items() if not each.foreign}
        image: Image = Live(sited.pid, sited.program)
        if kind == "core":
            opened(GDB).do(image, [f"gcore {tmp_path / 'core'}"])
            image = Core(tmp_path / "core", sited.program)
        whose = {address: ARCHIVE if is_archives(each, lines) else BOOK for address, each in blocks.items()}
        some = [address for name in (BOOK, ARCHIVE) for address in [each for each in whose if whose[each] == name][:2]]
        found, *ways = ask_door(door, image, "owners --limit 0", *(f"owner {each:#x}" for each in some))
        archive = next(address for address, each in blocks.items() if each.type == "Archive")
        (refs,) = ask_door(door, image, f"refs {archive:#x}")
        fills = [address for address, each in blocks.items() if each.type == "Fill"][:2]
        shown = opened(door).run(image, [f"owner {each:#x}" for each in fills] + [f"refs {archive:#x}"])
        opened(door).run(image, [f"report --html {page}"])
    finally:
        sited.end()
    rows = of_stacks(found)
    assert {name: each["blocks"] for name, each in rows.items()} == Counter(whose.values())
    # what calls have left on the stack takes nothing from a variable
    assert all(each["retained_blocks"] == each["blocks"] for each in rows.values())
    for address, way in zip(some, ways):
        assert (way["held_by"]["kind"], way["held_by"]["name"]) == ("stack", whose[address])
        assert way["expression"].startswith(whose[address])
    assert BOOK in page.read_text()
    # the root of a map leads to the header in it: which element that is says more than the library's own member
    expressions = [each["expression"] for each in refs["refs"]]
    assert any(each and each.startswith(f"{ARCHIVE}->trades[") for each in expressions)
    assert not [each for each in (*map(str, expressions), *(each.text for each in shown)) if INNER.search(each)]


@pytest.mark.full
@pytest.mark.needs_gdb
def test_what_no_local_has_is_the_rest_of_the_stack(tmp_path: Path) -> None:
    """Each thread's variable holds its own jobs. Without types all is the stack's."""
    sited = Sited(PROGRAMS / "crew.O2", tmp_path, "20")
    try:
        jobs = sum(each.type in ("job", "char") for each in sited.expected().values())
        opened(GDB).do(Live(sited.pid, sited.program), [f"gcore {tmp_path / 'core'}"])
        image = Core(tmp_path / "core", sited.program)
        (found,) = ask_door(GDB, image, "owners --limit 0")
        (plain,) = ask_door(SHELL, image, "owners --limit 0", declared=False)
    finally:
        sited.end()
    mine = [each for each in found["owners"] if each["name"] == MINE]
    assert len({each["tid"] for each in mine}) == len(mine) == 2
    assert [each["blocks"] for each in mine] == [jobs // 2, jobs // 2]
    held = {each["tid"]: each["blocks"] for each in plain["owners"] if each["kind"] == "stack"}
    assert [*of_stacks(plain)] == [None]
    assert all(held[each["tid"]] >= each["blocks"] for each in mine)
