"""redis as its distribution has it, with debug information and on glibc's malloc: what is in it is what was meant."""

from __future__ import annotations

import random
import socket
from collections import Counter
from pathlib import Path
from typing import Iterator, Mapping, NamedTuple, Optional

import pytest
from doors import GDB, Core, Live
from looks import ROOT, give_up, opened
from programs import Reply, answer, redis_says, send_command
from redis_source import built, every_kind
from running import Running
from sites import LIBRARY, Frame, SitedBlock, sited_blocks
from test_names import names_in
from waiting import standing

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
FIVE_LINES = """\
dictEntry.v.val = redisObject when ->refcount > 0 and ->refcount < 10000
dictEntry.v.val = redisObject and more when ->refcount > 0 and ->refcount < 10000 and ->encoding == 8
redisObject.ptr = dict when .encoding == 2
redisObject.ptr = zset when .encoding == 7
redisObject.ptr = char[] when .encoding == 0
"""
STRINGS = ("_sdsnewlen", "sdsnewlen", "_sdsMakeRoomFor", "sdsMakeRoomFor", "sdsResize", "sdsRemoveFreeSpace")
MAKERS: Mapping[str, tuple[str, ...]] = {
    "redisObject": ("createObject", "createEmbeddedStringObject"),
    "dictEntry": MAKES_ENTRIES,
    "dictEntry *[]": ("_dictExpand", "_dictResize", "dictExpand"),
    "dict": ("dictCreate", "_dictCreate"),
    "list": ("listCreate",),
    "listNode": ("listAddNodeHead", "listAddNodeTail", "listInsertNode"),
    "zskiplistNode": ("zslCreateNode",),
    "zskiplist": ("zslCreate",),
    "zset": ("createZsetObject", "zsetConvert", "zsetConvertAndExpand", "zsetDup"),
    "quicklist": ("quicklistCreate",),
    "quicklistNode": ("quicklistCreateNode",),
    "intset": ("intsetNew", "intsetResize"),
    "stream": ("streamNew",),
    "rax": ("raxNew", "raxNewWithMetadata"),
    "slowlogEntry": ("slowlogCreateEntry",),
    "client": ("createClient",),
    "user": ("ACLCreateUser",),
    "redisObject *[]": ("slowlogCreateEntry", "luaArgsToRedisArgv", "zcalloc_num"),
    "void at dictEntry.key": (*STRINGS, "createEmbeddedStringObject", "createObject"),
    "char[] of redisObject.ptr": (*STRINGS, "hllSparseSet", "lpNew", "lpInsert", "lpShrinkToFit", "ziplistNew"),
    "char[] of quicklistNode.entry": ("lpNew", "lpInsert", "lpShrinkToFit", "__quicklistCreateNode"),
}
"""Functions of redis's source that make what these names say."""
NEWER = ("FUNCTION", "FCALL")
"""Commands that redis has from 7 on."""
TAIL = " and a tail"


class Filled(NamedTuple):
    core: Path
    blocks: Mapping[int, SitedBlock]
    encodings: Mapping[bytes, int]
    """How many keys have which."""


class Redis(Running):
    """It stands still: nobody asks it anything more."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.log = program, folder / "sites"
        words = ["--port", 0, "--unixsocket", folder / "socket", "--save", "", "--dir", folder, "--hz", 1]
        words += ["--slowlog-log-slower-than", 0, "--activerehashing", "no"]
        super().__init__(folder, [program, *words], {"LD_PRELOAD": str(LIBRARY), "SITES_LOG": str(self.log)})
        self.await_that((folder / "socket").exists, "it does not listen")
        self._connections: list[socket.socket] = []
        self._first = self.connect()

    def connect(self) -> socket.socket:
        self._connections.append(redis_says(self))
        return self._connections[-1]

    def ask(self, *words: object, over: Optional[socket.socket] = None) -> Reply:
        return answer(over or self._first, *words)

    def end(self) -> None:
        for each in self._connections:
            each.close()
        super().end()


@pytest.fixture(scope="module")
def filled_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    if not LIBRARY.exists():
        give_up(f"{LIBRARY.relative_to(ROOT)} is not built: make fixtures")
    running = Redis(built(), tmp_path_factory.mktemp("redis"))
    try:
        fill(running)
        yield running
    finally:
        running.end()


def fill(running: Redis) -> None:
    for command in every_kind():
        said = running.ask(*command)
        known = not isinstance(said, bytes) or not said.startswith(b"-")
        assert known or (command[0] in NEWER and b"unknown command" in said), (command, said)
    # clients that wait for something, and whose commands are queued
    running.ask("SUBSCRIBE", "news", over=running.connect())
    running.ask("PSUBSCRIBE", "news.*", over=running.connect())
    send_command(running.connect(), "BLPOP", "nothing", 0)
    running.await_that(lambda: b"cmd=blpop" in running.ask("CLIENT", "LIST"), "nobody waits")
    transaction = running.connect()
    for command in (("WATCH", "number:1"), ("MULTI",), ("SET", "queued", "text")):
        running.ask(*command, over=transaction)


@pytest.fixture(scope="module")
def filled(filled_redis: Redis, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    folder = tmp_path_factory.mktemp("core")
    keys = [key.decode("latin-1") for key in filled_redis.ask("KEYS", "*")]
    encodings = Counter(filled_redis.ask("OBJECT", "ENCODING", key) for key in keys)
    with standing(filled_redis.pid):
        opened(GDB).do(Live(filled_redis.pid, filled_redis.program), [f"generate-core-file {folder / 'core'}"])
        blocks = sited_blocks(filled_redis.log, filled_redis.pid, filled_redis.program)
    return Filled(folder / "core", blocks, encodings)


def test_redis_holds_every_kind_of_value(filled_redis: Redis) -> None:
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


@pytest.mark.parametrize(
    ("rules", "least"), [("none", 0.45), (FIVE_LINES, 0.70), ("", 0.80)], ids=["none", "five", "own"]
)
def test_what_its_blocks_are(filled: Filled, tmp_path: Path, rules: str, least: float) -> None:
    """Unaided, with five lines, and with those that come along; and nothing wrong of what redis itself made."""
    file = tmp_path / "five.rules"
    if "=" in rules:
        file.write_text(rules)
    found = names_in(GDB, Core(filled.core, built()), tmp_path, RULES=str(file) if "=" in rules else rules)
    names = {address: name for address, (name, _) in found.items()}
    assert sum(each in names for each in filled.blocks) >= least * len(filled.blocks)
    kinds = Counter(name.removesuffix(TAIL) for name in names.values())
    wrong = []
    judged: dict[str, list[int]] = {}
    for address, block in filled.blocks.items():
        name = names[address].removesuffix(TAIL) if address in names else ""
        makers = MAKERS.get(name)
        if makers is not None:
            judged.setdefault(name, []).append(address)
            if not any(made(each, makers) for each in block.calls):
                wrong.append((hex(address), name, [each.function for each in block.calls][:4]))
    assert wrong == []
    # of as many names as there are
    sampled = random.Random(3).sample([each for name in judged for each in judged[name][:12]], 50)
    assert len({names[each] for each in sampled}) > 5
    if rules != "none":
        assert kinds["zset"] == filled.encodings[b"skiplist"]
    if not rules:
        assert kinds["quicklist"] == filled.encodings[b"quicklist"]
        assert kinds["intset"] == filled.encodings[b"intset"]
        assert kinds["stream"] == filled.encodings[b"stream"]


def made(frame: Frame, makers: tuple[str, ...]) -> bool:
    return frame.function in makers
