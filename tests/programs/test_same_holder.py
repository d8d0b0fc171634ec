"""Who holds a block: owner, owners, pins and types name the same, and each step of the way is a pointer."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
from partial import look
from running import Running

from arenascope.blocks.graph.blocks import live_blocks
from arenascope.blocks.graph.held import Holders
from arenascope.blocks.graph.owners import UNREACHED, find_owners, held
from arenascope.blocks.graph.paths import find_owner
from arenascope.blocks.graph.refs import BLOCK, Search
from arenascope.blocks.graph.whose import asked_for
from arenascope.cli.shell import How, ShellDoor
from arenascope.commands.framework.live_copy import search_of
from arenascope.session.session import Session

PROGRAMS = ("memcached", "perl", "python", "redis-on-glibc")
EACH = 250


@pytest.mark.parametrize("serving", [pytest.param(each, id=each) for each in PROGRAMS], indirect=True)
def test_the_same_for_every_command(serving: Running, tmp_path: Path) -> None:
    saved = tmp_path / "saved.core"
    os.kill(serving.pid, signal.SIGSTOP)
    try:
        assert look(Path(str(serving.pid)), f"save {saved}")[0] == 0
    finally:
        os.kill(serving.pid, signal.SIGCONT)
    session = Session(ShellDoor(str(saved), How("none")).target())
    blocks = live_blocks(session)
    search = search_of(session, blocks)
    found = find_owners(search)
    owners = {each.number: each.owner for each in found.holdings}
    assert sum(each.bytes for each in found.holdings) == blocks.bytes
    holders = Holders(search, 0)
    rng = random.Random(serving.pid)
    for number in rng.sample(range(len(blocks)), min(EACH, len(blocks))):
        user = blocks.starts[number]
        owner = owners[found.whose[number]]
        assert holders.of(user) == owner
        way = find_owner(search, *asked_for(search, user))
        if owner.kind == UNREACHED:
            assert way is None
        else:
            assert way is not None
            assert owner == root_of(search, way[0].address, number)
            assert (way[0].kind == owner.kind) or {way[0].kind, owner.kind} == {"stack", "register"}
            assert [each.kind for each in way[1:]] == [BLOCK] * (len(way) - 1)
            # each leads to the block that has the next one, the last to what was asked for
            for one, other in zip(way, [*(each.block for each in way[1:]), number]):
                assert other is not None
                assert blocks.find(one.value) == other


def root_of(search: Search, address: object, number: int) -> object:
    """Whose the pointer is that lies there, or the register."""
    found = held(search)
    owners = {found.owners[lead.owner] for lead, seed in zip(found.leads, found.graph.seeds) if seed.address == address}
    return found.owners[found.main.whose[number]] if address is None else owners.pop()
