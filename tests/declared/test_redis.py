"""redis as its distribution has it, with debug information and on glibc's malloc: what is in it is what was meant."""

from __future__ import annotations

import pytest
from redis_source import Redis
from running import standing
from sites import SitedBlock, sited_blocks

pytestmark = [
    pytest.mark.full,
    pytest.mark.needs_network,
    pytest.mark.slow,
    pytest.mark.xdist_group("redis from source"),
]
ENCODINGS = {
    b"string": {b"int", b"embstr", b"raw"},
    b"list": {b"quicklist", b"listpack"},
    b"hash": {b"hashtable", b"listpack"},
    b"set": {b"hashtable", b"intset"},
    b"zset": {b"skiplist", b"listpack"},
    b"stream": {b"stream"},
}
MAKES_ENTRIES = ("dictAddRaw", "createEntryNormal")
"""Before 7.2, and since."""
OF_OLD = {b"ziplist": b"listpack"}


def test_it_has_every_kind_of_value(filled_redis: Redis) -> None:
    found: dict[bytes, set[bytes]] = {}
    for key in filled_redis.ask("KEYS", "*"):
        name = key.decode("latin-1")
        kind, encoding = filled_redis.ask("TYPE", name)[1:], filled_redis.ask("OBJECT", "ENCODING", name)
        found.setdefault(kind, set()).add(OF_OLD.get(encoding, encoding))
    assert found.keys() == ENCODINGS.keys()
    # before 7.2 a small list is a quicklist, too
    assert all(found[kind] == ENCODINGS[kind] or kind == b"list" for kind in ENCODINGS)
    assert b"mem_allocator:libc" in filled_redis.ask("INFO", "memory")


def test_each_key_has_its_entry(filled_redis: Redis) -> None:
    """Of the database's table, by where it was allocated."""
    keys = int(filled_redis.ask("DBSIZE")[1:])
    with standing(filled_redis.pid):
        blocks = sited_blocks(filled_redis.log, filled_redis.pid, filled_redis.program)
    entries = sum(
        any(each.function.startswith("dbAdd") for each in block.calls) and asked_for(block) in MAKES_ENTRIES
        for block in blocks.values()
    )
    assert entries == keys > 1000
    own = sum(not block.foreign for block in blocks.values())
    assert own > 0.99 * len(blocks)


def asked_for(block: SitedBlock) -> str:
    """The function that called redis's own allocator."""
    return next((each.function for each in block.calls if "alloc" not in each.function), "")
