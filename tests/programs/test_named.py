"""What well-known programs call their blocks: at least half of the bytes have a name, and of those that were drawn none
is wrong, by what the program itself says or by its memory read once more."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import string
import struct
import subprocess
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, NamedTuple

from programs import (
    HERE,
    answer,
    asked,
    has_started,
    join,
    keys,
    log_in,
    mariadb,
    memcached,
    postgres,
    redis_on_glibc,
    redis_says,
    rows,
    tables,
    tracked_java,
    values,
)
from running import Running, receive_until
from shell_door import ask

from arenascope.blocks.name_all_blocks import live_kinds
from arenascope.cli.shell import How, ShellDoor
from arenascope.session.session import Session

SAMPLE = 50


class Block(NamedTuple):
    user: int
    usable: int
    name: str


class Seen(NamedTuple):
    """A program that stands still."""

    session: Session
    blocks: list[Block]
    """All that have one of the names in question."""
    share: float
    """Of the bytes in use, of which more is known than the size."""

    def drawn(self) -> list[Block]:
        return random.Random(1).sample(self.blocks, min(SAMPLE, len(self.blocks)))

    def read(self, address: int, size: int) -> bytes:
        return self.session.memory.read(address, size)


@contextmanager
def seen(pid: int, names: tuple[str, ...]) -> Iterator[Seen]:
    os.kill(pid, signal.SIGSTOP)
    try:
        rows = ask(pid, "types --limit 0")["types"]
        known = sum(row["bytes"] for row in rows if row["kind"] != "size")
        session = Session(ShellDoor(str(pid), How("none")).target())
        live = live_kinds(session)
        starts, ends = live.blocks.starts, live.blocks.ends
        found = [
            Block(starts[number], ends[number] - starts[number] + 1 & -8, live.kinds[kind].name)
            for number, kind in live.typed()
        ]
        yield Seen(session, [each for each in found if each.name in names], known / sum(row["bytes"] for row in rows))
    finally:
        os.kill(pid, signal.SIGCONT)


def test_sqlites_pages_are_those_of_its_database() -> None:
    size, page_words = 4096, struct.Struct("<2QI")
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        script = (HERE / "load.sql").read_text()
        saved = "SELECT 'ready';", f".save {folder}/saved.db\nSELECT 'ready';"
        (Path(folder) / "load.sql").write_text(script.replace(*saved))
        running = Running(Path(folder), ["sqlite3", "-batch", ":memory:", ".read load.sql"])
        try:
            running.await_line()
            database = (Path(folder) / "saved.db").read_bytes()
            with seen(running.pid, ("sqlite page cache",)) as found:
                assert found.share > 0.9
                assert abs(len(found.blocks) - len(database) // size) < 10
                for block in found.drawn():
                    page, _, number = page_words.unpack(found.read(block.user + 8 + size, page_words.size))
                    # the first one counts changes
                    assert number == 1 or found.read(page, size) == database[(number - 1) * size : number * size]
        finally:
            running.end()


def text_of(found: Seen, pointer: int) -> bytes:
    """What an sds holds."""
    kind = found.read(pointer - 1, 1)[0]
    size = (0, 1, 2, 4, 8)[kind & 7]
    front = found.read(pointer - 1 - 2 * size, size) if size else bytes([kind >> 3])
    return found.read(pointer, int.from_bytes(front, "little"))


def test_redis_knows_its_keys_and_values() -> None:
    names = (
        "sds",
        "redisObject",
        "dict",
        "dictEntry",
        "dict table",
        "quicklist",
        "quicklistNode",
        "listpack",
        "zskiplistNode",
    )
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        running = redis_on_glibc(Path(folder))
        try:
            running.serve(Path(folder) / "socket", keys, 40, rounds=40)
            with redis_says(running) as connection:
                for number in range(2000):
                    answer(connection, "RPUSH", f"list{number % 5}", f"element {number}" * 20)
                    answer(connection, "ZADD", "ranks", number, f"member {number}")
                    answer(connection, "HSET", f"hash{number % 50}", f"field{number}", number)
                    answer(connection, "HSET", "large", f"field{number}", "v" * 70)
                with seen(running.pid, names) as found:
                    seen_of = {name: [each for each in found.blocks if each.name == name] for name in names}
                    drawn = {
                        name: random.Random(2).sample(seen_of[name], min(SAMPLE, len(seen_of[name]))) for name in names
                    }
                    wrong = wrong_ones(found, drawn)
                    texts = {text_of(found, word_at(found, each.user)) for each in drawn["zskiplistNode"]}
                    keys_of = {text_of(found, word_at(found, each.user)) for each in drawn["dictEntry"]}
                    assert found.share > 0.75
                assert all(seen_of.values())
                assert len(seen_of["dictEntry"]) >= int(answer(connection, "DBSIZE")[1:])
                assert len(seen_of["zskiplistNode"]) == 2000
                assert len(seen_of["quicklist"]) == 5
                assert not wrong
                # what they are called is known to the server
                assert all(answer(connection, "ZSCORE", "ranks", each.decode()) is not None for each in texts)
                own = of_the_server(connection)
                assert not [each for each in keys_of if each not in own and not is_known(connection, each.decode())]
        finally:
            running.end()


def word_at(found: Seen, address: int) -> int:
    return int.from_bytes(found.read(address, 8), "little")


def of_the_server(connection: socket.socket) -> bytes:
    """Its commands with theirs, and its settings."""
    connection.sendall(b"COMMAND\r\nCONFIG GET *\r\nPING\r\n")
    return receive_until(connection, b"+PONG\r\n")


def is_known(connection: socket.socket, key: str) -> bool:
    if answer(connection, "EXISTS", key) == b":1" or answer(connection, "ZSCORE", "ranks", key) is not None:
        return True
    return key.startswith("field") and answer(connection, "HGET", "large", key) is not None


def wrong_ones(found: Seen, drawn: dict[str, list[Block]]) -> list[Block]:
    """By what the server was given: all its texts are known beforehand."""
    wrong = []
    for block in drawn["listpack"]:
        size, entries = struct.unpack("<IH", found.read(block.user, 6))
        data = found.read(block.user, size)
        # each entry ends in its own length, so that it can be read from behind; all are shorter than 16 KiB
        at, count = size - 1, 0
        while at > 6:
            length, shift = data[at - 1] & 127, 0
            place = at - 1
            while data[place] & 128:
                place -= 1
                shift += 7
                length |= (data[place] & 127) << shift
            at, count = place - length, count + 1
        if (at, count, data[-1]) != (6, entries, 255):
            wrong.append(block)
    for block in drawn["sds"]:
        data = found.read(block.user, block.usable)
        if data[0] >= 128 and data[0] % 8 == 0 and data[1 + data[0] // 8] == 0:
            texts = [data[1 : 1 + data[0] // 8]]
        else:
            forms = [size for kind, size in ((1, 3), (2, 5), (3, 9)) if data[size - 1] == kind]
            texts = [data[size : size + int.from_bytes(data[: size // 2], "little")] for size in forms]
        if not any(each.isascii() and set(each.decode()) <= set(string.printable) for each in texts):
            wrong.append(block)
    return wrong


def test_memcacheds_slab_pages_are_as_many_as_it_says() -> None:
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        running = memcached(Path(folder))
        try:
            running.serve(Path(folder) / "socket", values, 200, rounds=200)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(Path(folder) / "socket"))
                connection.sendall(b"stats slabs\r\n")
                said = receive_until(connection, b"END\r\n").decode()
            told = {words[1]: int(words[2]) for words in map(str.split, said.splitlines()) if words[0] == "STAT"}
            pages = {name: each for name, each in told.items() if name.endswith(":total_pages")}
            names = {f"slab pages of class {name.split(':')[0]}": count for name, count in pages.items()}
            with seen(running.pid, tuple(names)) as found:
                assert found.share > 0.9
                assert Counter(each.name for each in found.blocks) == names
                for block in found.drawn():
                    number = int(block.name.rsplit(" ", 1)[1])
                    size = told[f"{number}:chunk_size"]
                    for item in range(told[f"{number}:chunks_per_page"]):
                        assert found.read(block.user + item * size + 40, 1)[0] & 63 == number
        finally:
            running.end()


CONTEXTS = "SELECT name, sum(total_nblocks), sum(total_bytes) FROM pg_backend_memory_contexts GROUP BY name"
PASSING = (
    "ExprContext",
    "ExecutorState",
    "PortalContext",
    "PortalHeapMemory",
    "MessageContext",
    "printtup",
    "TopTransactionContext",
    "Table function",
    "HashAgg",
)
"""What a statement has, and the one that asks."""


def test_postgres_blocks_are_of_the_contexts_that_it_lists() -> None:
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        running = postgres(Path(folder))
        try:
            has_started(running)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(Path(folder) / ".s.PGSQL.5432"))
                join(connection)
                for round_ in range(6):
                    rows(connection, 0, round_)
                ((pid,),) = asked(connection, "SELECT pg_backend_pid()")
                asked(connection, CONTEXTS)
                told = {name: (int(blocks), int(size)) for name, blocks, size in asked(connection, CONTEXTS)}
                stay = {name: each for name, each in told.items() if not name.startswith(PASSING)}
                with seen(int(pid), tuple(stay)) as found:
                    assert found.share > 0.75
                    blocks = Counter(each.name for each in found.blocks)
                    bytes_of: Counter[str] = Counter()
                    for block in found.blocks:
                        bytes_of[block.name] += block.usable
                asked(connection, "SELECT 1")
                assert len(stay) > 10
                for name, (count, size) in stay.items():
                    assert blocks[name] == count, name
                    assert size <= bytes_of[name] < size + 4096 * count
        finally:
            running.end()


SORT = "SELECT repeat(md5(n::text), 3) FROM generate_series(1, 20000) AS n ORDER BY 1"
SORTED = "Caller tuples"
"""A sort's rows: since 15 in a Generation context."""


def test_what_postgres_sorts_is_of_its_context() -> None:
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        running = postgres(Path(folder))
        try:
            has_started(running)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(Path(folder) / ".s.PGSQL.5432"))
                join(connection)
                ((pid, version),) = asked(connection, "SELECT pg_backend_pid(), current_setting('server_version_num')")
                for statement in ("SET work_mem = '64MB'", "BEGIN", f"DECLARE c CURSOR FOR {SORT}", "FETCH 1 FROM c"):
                    asked(connection, statement)
                told = {name: (int(blocks), int(size)) for name, blocks, size in asked(connection, CONTEXTS)}
                with seen(int(pid), (SORTED,)) as found:
                    sizes = [each.usable for each in found.blocks]
                if int(version) >= 150000:
                    count, size = told[SORTED]
                    assert count > 3
                    assert len(sizes) == count
                    assert size <= sum(sizes) < size + 4096 * count
        finally:
            running.end()


def test_mariadbs_blocks_of_memory_roots_lead_to_others() -> None:
    header, allocator = struct.Struct("<3Q"), 24
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        running = mariadb(Path(folder))
        try:
            running.serve(Path(folder) / "socket", tables, 10, log_in, 10)
            with seen(running.pid, ("MEM_ROOT block",)) as found:
                assert found.share > 0.5
                assert len(found.blocks) > SAMPLE
                users = {each.user + allocator for each in found.blocks}
                for block in found.drawn():
                    after, left, size = header.unpack(found.read(block.user + allocator, header.size))
                    assert left <= size <= block.usable - allocator < size + 32
                    if after and after not in users:
                        _, left, size = header.unpack(found.read(after, header.size))
                        assert left <= size
        finally:
            running.end()


def test_a_jvms_blocks_are_of_the_subsystems_that_jcmd_lists() -> None:
    """As much of each as native memory tracking has counted for it."""
    tracked, mark = "HotSpot {} (NMT)", 0xE99E
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        running = tracked_java(Path(folder), {"STANDS_STILL": "1"})
        try:
            running.await_line()
            words = ["jcmd", str(running.pid), "VM.native_memory", "summary", "scale=b"]
            said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            told = {}
            for part in re.split(r"\n-\s+", said)[1:]:
                counted = re.search(r"\(malloc=(\d+)", part)
                if counted:
                    told[part.split(" (")[0]] = int(counted[1])
            with seen(running.pid, (*map(tracked.format, told), "Java direct buffer")) as found:
                assert found.share > 0.5
                by_name = {}
                for block in found.blocks:
                    size, marks = struct.unpack("<2Q", found.read(block.user, 16))
                    assert marks >> 48 == mark
                    by_name.setdefault(block.name, Counter())[marks >> 32 & 0xFF] += size
        finally:
            running.end()
    # each name is that of one number
    assert all(len(each) == 1 for each in by_name.values())
    numbers = [number for each in by_name.values() for number in each]
    assert len(numbers) == len(set(numbers)) > 5
    # what is inside may be told, so that it has another name
    for name, sizes in by_name.items():
        (size,) = sizes.values()
        whole = told.get(name.partition("HotSpot ")[2].partition(" (NMT)")[0], told.get("Other", 0))
        assert size <= 1.02 * whole + 4096, name
    for name in ("Code", "Module"):
        assert sum(by_name[tracked.format(name)].values()) > 0.8 * told[name], name
