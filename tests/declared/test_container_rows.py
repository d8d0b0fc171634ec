"""`heap containers`: the program itself counts its containers' elements, buckets and chains, and the log of allocation
sites tells what a container holds."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple, Sequence

import pytest
from documents import ask_door
from doors import GDB, Door, Image, Live
from looks import opened
from marks import full_after, in_full
from shell_door import SHELL, ask
from sites import PROGRAMS, Count, Sited

from arenascope.sources.elf.elf_file import NT_PRSTATUS

pytestmark = pytest.mark.xdist_group("declared containers")
Row = dict[str, Any]


class Asked(NamedTuple):
    program: str
    arguments: Sequence[str]
    ticks: int = 0


ASKED = (
    Asked("daemon.O2", ("300", "closed")),
    Asked("daemon.O0", ("40",), ticks=150),
    Asked("server.O2", ("600", "0"), ticks=3),
    Asked("orders.O2", ("800", "index")),
    Asked("orders.O0", ("400", "kept")),
    Asked("pool.O2", ("300", "queue")),
    Asked("pool.O0", ("300", "cache"), ticks=2),
)


def rows_in(door: Door, image: Image, words: str = "") -> list[Row]:
    (found,) = ask_door(door, image, f"containers {words} --limit 0")
    return found["containers"]


def counted(rows: Sequence[Row], path: str) -> Count:
    """Of lists that hang on several others the sum."""
    if path in ("requests", "headers"):
        lists = [row for row in rows if row["form"] == "list" and f"{row['type']}s" == path]
        return Count(sum(row["elements"] for row in lists), 0, 0)
    (row,) = [row for row in rows if row["path"] == path or row["path"].endswith((f" {path}", f".{path}"))]
    return Count(row["elements"], row["buckets"] or 0, row["longest_chain"] or 0)


def agrees(rows: Sequence[Row], counts: dict[str, Count]) -> None:
    found = {path: counted(rows, path) for path, count in counts.items() if count.elements}
    expected = {path: count for path, count in counts.items() if count.elements}
    for path, count in found.items():
        if not count.buckets:
            # an array of pointers of which no two chain
            assert expected[path].longest <= 1
            expected[path] = Count(expected[path].elements, 0, 0)
    assert found == expected


@pytest.mark.needs_gdb
@pytest.mark.parametrize("asked", full_after(1, ASKED), ids=lambda asked: "-".join((asked.program, *asked.arguments)))
def test_elements_are_what_the_program_counts(asked: Asked, tmp_path: Path) -> None:
    """Live in GDB and the shell, and in a core of GDB's."""
    sited = Sited(PROGRAMS / asked.program, tmp_path, *asked.arguments)
    try:
        for _ in range(asked.ticks):
            sited.tick()
        counts = sited.counts()
        live = Live(sited.pid, sited.program)
        rows = rows_in(GDB, live)
        agrees(rows, counts)
        agrees(rows_in(SHELL, live), counts)
        core = sited.image("core", tmp_path)
    finally:
        sited.end()
    assert rows_in(GDB, core) == rows


ROUNDED, LEAST, BUFFER = 16, 32, 512 + 16


@pytest.mark.parametrize("program", ["pool.O2", *in_full("pool.O0")])
def test_what_a_cache_holds_behind_shared_pointers_that_a_plain_pointer_leads_to(program: str, tmp_path: Path) -> None:
    """The vtable of a control block, which tells itself without any way to it, does not tell what is in the block."""
    sited = Sited(PROGRAMS / program, tmp_path, "300", "cache")
    try:
        rows = rows_in(SHELL, Live(sited.pid, sited.program), "--match pool->cache*")
    finally:
        sited.end()
    blocks = {row["path"]: row["held_blocks"] for row in rows}
    # for each a node, a control block and a vector's body; keys from "job number 100100" on have a body
    assert blocks == {"pool->cache": 1 + 3 * 300 + 200, "pool->cache[].second": 300}


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """With an id: types were not asked for; a core tells of no thread, whose variable all containers hang of."""
    sited = Sited(PROGRAMS / "orders.O2", tmp_path, "50")
    try:
        image = Live(sited.pid, sited.program)
        opened(GDB).do(image, [f"generate-core-file {tmp_path / 'core'}"])
        said = [ask(sited.pid, "containers", each) for each in ("--no-declared", "--declared")]
        without_registers(tmp_path / "core")
        said.append(ask(tmp_path / "core", "containers --declared"))
    finally:
        sited.end()
    notes = [{each["id"] for each in one["notes"]} for one in said]
    assert notes == [{"types-not-asked"}, set(), {"no-containers", "locals-not-known"}]
    assert [bool(one["containers"]) for one in said] == [False, True, False]


def without_registers(core: Path) -> None:
    """As where a program wrote it that knew no threads."""
    notes = [struct.pack("<3I", 5, 336, kind) + b"CORE\0" for kind in (NT_PRSTATUS, 0xFFFF)]
    data = core.read_bytes()
    assert notes[0] in data
    core.write_bytes(data.replace(*notes))
