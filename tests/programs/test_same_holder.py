"""Who holds a block: owner, owners, pins, types, report and its page name the same, and each step of the way is a
pointer."""

from __future__ import annotations

import json
import os
import random
import re
import signal
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional

import pytest
from partial import look
from running import Running

from arenascope.base.model import Kind
from arenascope.blocks.graph.holders import Holders, kinds_of_all
from arenascope.blocks.graph.leads import Owner
from arenascope.blocks.graph.owners import UNREACHED, held
from arenascope.blocks.graph.refs import ImageSearch
from arenascope.cli.shell import How, ShellDoor
from arenascope.commands.framework.command import Context, parse_request
from arenascope.commands.framework.live_copy import looked
from arenascope.session.session import Session

PROGRAMS = ("memcached", "perl", "python", "redis-on-glibc", "ruby")
PINNED = "perl"
"""It frees much at its end: blocks are in the way for certain."""
EACH, LARGEST = 1000, 50
"""Blocks of each program, some of the largest among them; memcached has fewer."""
FIRST = 3
"""Rows of a report."""
Ask = Callable[[str], Mapping[str, Any]]


class Truth(NamedTuple):
    """Of each block: where it begins, how large it is, what it is, and who holds it."""

    search: ImageSearch
    kinds: list[Optional[Kind]]
    owners: list[Optional[Owner]]


@pytest.mark.parametrize("serving", [pytest.param(each, id=each) for each in PROGRAMS], indirect=True)
def test_the_same_for_every_command(serving: Running, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    saved, page = tmp_path / "saved.core", tmp_path / "page.html"
    os.kill(serving.pid, signal.SIGSTOP)
    try:
        assert look(Path(str(serving.pid)), f"save {saved}")[0] == 0
    finally:
        os.kill(serving.pid, signal.SIGCONT)
    door = ShellDoor(str(saved), How("none"))
    context = Context(door, Namespace(libc=None), Session(door.target()))

    def ask(words: str) -> Mapping[str, Any]:
        return parse_request(words, door.find_command).answered(context).keys

    # it looks a second time, which may find more holders
    report = ask(f"report --owners --html {page}")
    search = looked(context).search
    holders = Holders(search, 0)
    truth = Truth(search, kinds_of_all(search), [holders.of(each) for each in search.blocks.starts])
    rows = ask("owners --limit 0")["owners"]
    check_owners(rows, truth)
    check_types(ask("types --owners --limit 0")["types"], truth)
    pins = ask("pins --owners --own --limit 0")["pins"]
    assert pins or request.node.callspec.id != PINNED
    check_pins(pins, truth)
    check_report(report["held"]["owners"], rows)
    found = re.search(r'id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    check_page(json.loads(found[1])["documents"], rows, truth)
    rng = random.Random(serving.pid)
    for block in some_blocks(rng, truth):
        check_way(ask, block, truth)


def who(row: Mapping[str, Any]) -> Owner:
    return Owner(row["kind"], row["name"], row["tid"], row["stale"])


def check_owners(rows: list[dict[str, Any]], truth: Truth) -> None:
    """All blocks are counted once, each as its holder's."""
    sizes: Counter[Optional[Owner]] = Counter()
    for owner, size in zip(truth.owners, truth.search.blocks.sizes):
        sizes[owner] += size
    assert {who(row): row["held_bytes"] for row in rows} == sizes
    assert {who(row): row["blocks"] for row in rows} == Counter(truth.owners)


def check_types(rows: list[dict[str, Any]], truth: Truth) -> None:
    by_kind: dict[object, Counter[Optional[Owner]]] = {}
    for kind, owner, size in zip(truth.kinds, truth.owners, truth.search.blocks.sizes):
        if kind is not None:
            by_kind.setdefault((kind.name, *kind[1:]), Counter())[owner] += size
    told = 0
    for row in rows:
        sizes = by_kind.pop(tuple(row[key if key != "name" else "type"] for key in Kind._fields), None)
        if sizes is not None and row["held_by"] is not None:
            told += row["held_by"]["blocks"]
            assert row["held_by"]["bytes"] == sizes[who(row["held_by"])] == max(sizes.values()), row
    assert 2 * told > len(truth.kinds)


def check_pins(rows: list[dict[str, Any]], truth: Truth) -> None:
    for row in rows:
        owner = truth.owners[truth.search.blocks.find(int(row["user_address"], 16))]
        assert row["held_by"] is not None
        assert who(row["held_by"]) == owner, row


def check_report(told: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    keys = ("kind", "name", "tid", "stale", "held_bytes", "retained_bytes")
    expected = [{key: row[key] for key in keys} for row in rows if row["kind"] != UNREACHED]
    assert told == expected[:FIRST]


def check_page(documents: Mapping[str, Any], rows: list[dict[str, Any]], truth: Truth) -> None:
    shown = documents["owners"]["owners"]
    assert shown == rows[: len(shown)]
    assert len(documents["owners"]["whose"]) == len(shown) > 0
    check_report(documents["report"]["held"]["owners"], rows)
    check_pins(documents["pins"]["pins"], truth)
    check_types(documents["types"]["types"], truth)


def some_blocks(rng: random.Random, truth: Truth) -> Iterator[int]:
    sizes = truth.search.blocks.sizes
    largest = sorted(range(len(sizes)), key=sizes.__getitem__)[-LARGEST:]
    yield from {*largest, *rng.sample(range(len(sizes)), min(EACH - LARGEST, len(sizes)))}


def check_way(ask: Ask, block: int, truth: Truth) -> None:
    """It begins at a word of the holder's, and each pointer leads to the block that has the next one."""
    search, owner = truth.search, truth.owners[block]
    blocks, memory = search.blocks, search.session.memory
    told = ask(f"owner {blocks.starts[block]:#x}")
    assert owner is not None
    assert who(told["held_by"]) == owner
    path = told["path"]
    if owner.kind == UNREACHED:
        assert path is None
        return
    first, *others = path
    assert (first["kind"] == owner.kind) or {first["kind"], owner.kind} == {"stack", "register"}
    assert owner in roots_at(search, first, block)
    assert all(each["kind"] == "block" for each in others)
    for each, further in zip(path, [*others, {"block": hex(blocks.starts[block])}]):
        to = int(further["block"], 16)
        if each["address"] is not None and each["encoding"] is None and each["kind"] != "kernel":
            assert memory.word(int(each["address"], 16)) == to + each["into"]
        assert blocks.find(to + each["into"]) == blocks.find(to)


def roots_at(search: ImageSearch, first: Mapping[str, Any], block: int) -> set[Owner]:
    """Whose the pointer is that lies there; of a register whoever has one that leads to such a block."""
    found = held(search)
    leads = zip(found.leads, found.graph.seeds)
    if first["address"] is None:
        return {found.owners[lead.owner] for lead, seed in leads if not seed.address}
    return {found.owners[lead.owner] for lead, seed in leads if seed.address == int(first["address"], 16)}
