"""`--where` chooses just the objects that the program itself counts, in each command, live and in a core."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator

import pytest
from documents import ask_door
from doors import GDB, Core, Door, Live
from lldb_door import NEWEST_LLDB
from looks import opened
from marks import in_full
from shell_door import SHELL
from sites import PROGRAMS, Sited

pytestmark = [pytest.mark.needs_gdb, pytest.mark.xdist_group("declared containers")]


@pytest.fixture(scope="module", params=[("daemon.O2", "300", "closed"), *in_full(("orders.O2", "400", "index"))])
def sited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sited]:
    program, *arguments = request.param
    running = Sited(PROGRAMS / program, tmp_path_factory.mktemp("where"), *arguments)
    yield running
    running.end()


WAYS = [(SHELL, "live"), *in_full((GDB, "live"), (NEWEST_LLDB, "live"), (SHELL, "core"), (GDB, "core"))]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0].name} {way[1]}")
def test_as_many_match_as_the_program_counts(sited: Sited, way: tuple[Door, str], tmp_path: Path) -> None:
    door, kind = way
    haves, image = sited.counted("have"), sited.image(kind, tmp_path)
    conditions = [f"{member} == {value}" for _, member, value, _ in haves]
    commands = [f"types {have[0]} --where '{each}'" for have, each in zip(haves, conditions)]
    turned = [f"types {have[0]} --where 'not ({each})'" for have, each in zip(haves, conditions)]
    found = ask_door(door, image, *commands, *turned)
    for (type, *_, objects), both in zip(haves, zip(found, found[len(haves) :])):
        match, others = (each["where"] for each in both)
        assert match["matching_objects"] == int(objects)
        assert match["unknown_objects"] == others["unknown_objects"] == 0
        assert match["matching_objects"] + others["matching_objects"] == match["objects"]
        assert match["types"] == [type]
        # objects may lie in arrays, and in what containers have made
        assert 0 < sum(each["blocks"] for each in both[0]["types"]) <= int(objects)


def test_each_command_chooses_the_same_blocks(sited: Sited) -> None:
    type, member, value, _ = sited.counted("have")[0]
    image = Live(sited.pid, sited.program)
    where = f"--where '{type}: {member} == {value}'"
    types, owners, containers, chunks = ask_door(
        SHELL, image, *(f"{each} {where} --limit 0" for each in ("types", "owners", "containers", "chunks"))
    )
    blocks, size = (sum(each[key] for each in types["types"]) for key in ("blocks", "bytes"))
    assert blocks > 0
    assert types["where"] == owners["where"] == containers["where"] == chunks["where"]
    assert sum(each["matching_blocks"] for each in owners["owners"]) == blocks
    assert sum(each["matching_bytes"] for each in owners["owners"]) == size
    assert len(chunks["chunks"]) == blocks
    assert sum(each["bytes"] for each in chunks["chunks"]) == size
    largest = containers["containers"][0]
    assert (largest["matching_blocks"], largest["matching_bytes"]) == (blocks, size)
    # what several containers lead to counts in each
    assert all(0 < each["matching_blocks"] <= blocks for each in containers["containers"])
    assert all(each["matching_bytes"] <= size for each in containers["containers"])
    if sited.program.name.startswith("orders"):
        # orders that are done are erased from the book, and the index by symbol still has them
        matching = {each["path"]: each["matching_blocks"] for each in containers["containers"]}
        assert matching["main(): book.by_symbol"] == blocks
        assert not any(path.startswith("main(): book.open") for path in matching)
    starts = {each["samples"][0] for each in types["types"]}
    assert {int(each, 16) - 16 for each in starts} <= {int(each["address"], 16) for each in chunks["chunks"]}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("types session --where 'nothing == 1'", "peer.port"),
        ("types session --where 'closed = 1'", "column"),
        ("types session --where 'state == CLOSED'", "DONE"),
        ("types session --where 'closed == \"yes\"'", "closed"),
        ("types --where 'no_such_member == 1'", "no_such_member"),
        ("types nothing --where 'closed == 1'", "nothing"),
        ("types session --quick --where 'closed == 1'", "--quick"),
        ("chunks --free --where 'closed == 1'", "--free"),
        ("owners --by type --where 'closed == 1'", "--by"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(sited: Sited, command: str, said: str) -> None:
    if "daemon" not in sited.program.name:
        pytest.skip("of one program")
    (found,) = opened(SHELL).run(Live(sited.pid, sited.program), [f"{command} --declared"])
    last = found.error.strip().splitlines()[-1]
    assert said in last
    assert last.startswith("arenascope ")


def test_members_of_every_kind(tmp_path: Path) -> None:
    """Against each other: a condition and its contrary are all objects, and values are those that `chunk` shows."""
    sited = Sited(PROGRAMS / "daemon.O2", tmp_path, "100", "closed")
    try:
        image = Live(sited.pid, sited.program)
        sessions = "types session --where '{}'"
        conditions = [
            "peer.port > 0",
            "next == null",
            "next != 0",
            'user == "user-7@example.org"',
            "received >= sent or received < sent",
            "state is DONE and closed",
            "closed == true && !(state == DONE)",
            "log is not None and id <= 0x10",
        ]
        documents = ask_door(SHELL, image, *(sessions.format(each) for each in conditions))
        wheres = [each["where"] for each in documents]
        places = [each["samples"][0] for each in documents[3]["types"]]
        (chunk,) = ask_door(SHELL, image, f"chunk {places[0]} --with-values")
        core = tmp_path / "core"
        opened(SHELL).run(image, [f"save {core}"])
        again = ask_door(SHELL, Core(core, sited.program), *(sessions.format(each) for each in conditions))
    finally:
        sited.end()
    assert [each["where"] for each in again] == wheres
    counts = [each["matching_objects"] for each in wheres]
    objects = wheres[0]["objects"]
    assert counts[0] == counts[4] == objects
    assert counts[1] + counts[2] == objects
    assert counts[3] == 1
    assert counts[5] + counts[6] <= objects
    assert counts[6] == 0 < counts[5]
    assert 0 < counts[7] <= 16
    values = {each["name"]: each for each in chunk["chunk"]["members"]}
    assert values["user"]["text"] == "user-7@example.org"


def test_enums_of_rust_are_told_by_their_variants(tmp_path: Path) -> None:
    """A tree has a link fewer than nodes, a list one end."""
    sited = Sited(PROGRAMS / "idioms.rs.O1", tmp_path)
    try:
        image = Live(sited.pid, sited.program)
        conditions = [
            "Tree: left is Some",
            "Tree: right is not None",
            "Tree: left is None and right == None",
            "Link: next is None",
            "Link: next is not None",
        ]
        found = [each["where"] for each in ask_door(SHELL, image, *(f"types --where '{each}'" for each in conditions))]
    finally:
        sited.end()
    left, right, leaves, end, others = (each["matching_objects"] for each in found)
    assert left + right == found[0]["objects"] - 1 > 10
    assert 0 < leaves < found[0]["objects"]
    assert (end, end + others) == (1, found[3]["objects"])
    assert {each["unknown_objects"] for each in found} == {0}


def test_chunk_leads_from_block_to_block(tmp_path: Path) -> None:
    """By each pointer to a block, and back by who points to that; in each door and in a core."""
    sited = Sited(PROGRAMS / "daemon.O2", tmp_path, "100", "closed")
    try:
        image = Live(sited.pid, sited.program)
        (types,) = ask_door(SHELL, image, "types session --where 'log != null'")
        place = types["types"][0]["samples"][0]
        (first,) = ask_door(SHELL, image, f"chunk {place}")
        members = {each["name"]: each for each in first["chunk"]["members"]}
        log = members["log"]
        (there, refs) = ask_door(SHELL, image, f"chunk {log['target']}", f"refs {place}")
        (gdb,) = ask_door(GDB, image, f"chunk {place}")
        (screen,) = opened(GDB).run(image, [f"chunk {place}"])
        typed = next(line for line in screen.text.splitlines() if "p *(" in line)
        said = opened(GDB).do(image, [typed[typed.index("p *(") :].partition(",")[0]])
        core = tmp_path / "core"
        opened(SHELL).run(image, [f"save {core}"])
        (again,) = ask_door(SHELL, Core(core, sited.program), f"chunk {place}")
    finally:
        sited.end()
    assert (log["place"], log["leads_to"], members["id"]["place"]) == ("block", "request", None)
    back = [each for each in there["chunk"]["pointers"] if each["block"] == place]
    assert [each["field"] for each in back] == ["log"]
    assert back[0]["expression"].endswith("->log")
    assert first["chunk"]["pointers"] == refs["refs"]
    assert first["chunk"]["pointers_left_out"] == 0
    assert gdb["chunk"]["pointers"] == again["chunk"]["pointers"] == first["chunk"]["pointers"]
    assert gdb["chunk"]["members"] == again["chunk"]["members"] == first["chunk"]["members"]
    assert f"log = {log['target']}" in str(said)
