"""Who holds most of a real program's heap, held against what this program says itself of its memory."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

import pytest
from partial import look
from programs import (
    Env,
    Start,
    answer,
    asked,
    blocked,
    go,
    haproxy,
    has_started,
    history,
    join,
    keys,
    lighttpd,
    log_in,
    mariadb,
    memcached,
    nginx,
    postgres,
    query,
    redis_on_glibc,
    redis_says,
    requests,
    rows,
    rust,
    say,
    script,
    tables,
    texts,
    told,
    values,
)
from running import Running, receive, receive_until

Owner = dict[str, Any]
PAGES = 2 * 4096
"""More than a block's size, at most: one by mmap is of whole pages."""


@contextmanager
def started(start: Callable[[Path], Running]) -> Iterator[Running]:
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        running = start(Path(folder))
        try:
            yield running
        finally:
            running.end()


@contextmanager
def spoken_to(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        yield connection


def owners_of(pid: int) -> list[Owner]:
    os.kill(pid, signal.SIGSTOP)
    try:
        status, out, complained = look(Path(str(pid)), "owners --json --limit 0")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert status == 0, complained
    owners: list[Owner] = json.loads(out)["owners"]
    return owners


def held_by(owners: list[Owner], name: str) -> int:
    return sum(each["held_bytes"] for each in owners if name in (each["name"] or ""))


def test_redis() -> None:
    """What hangs on a database's dict are its entries: each has a key, and a value of two blocks."""
    with started(redis_on_glibc) as running:
        running.work(running.folder / "socket", keys, 250)
        with redis_says(running) as connection:
            count = int(answer(connection, "DBSIZE")[1:])
            names = [f"k{number}-{round_}" for number in range(8) for round_ in range(250)]
            said = sum(int(answer(connection, "MEMORY", "USAGE", each, "SAMPLES", 0)[1:]) for each in names)
            owners = owners_of(running.pid)
    assert count == len(names)
    assert owners[0]["name"] == "server"
    held = next(each for each in owners[0]["path"] if each["type"] == "dict")
    # a client may point at what it has sent last
    assert 0.98 * 4 * count <= held["blocks"] <= 4 * count + 3
    table, header, odd = 8 << (count - 1).bit_length(), 8, 15
    assert 0.98 * (said + table) <= held["retained_bytes"] <= said + table + 4 * (header + odd) * count + PAGES
    # OBJ_SHARED_INTEGERS
    assert owners[1]["name"] == "shared"
    assert owners[1]["blocks"] >= 10000


def test_memcached() -> None:
    with started(memcached) as running:
        running.work(running.folder / "socket", values, 200)
        with spoken_to(running.folder / "socket") as connection:
            connection.sendall(b"stats slabs\r\n")
            slabs = receive_until(connection, b"END\r\n").decode()
            connection.sendall(b"stats\r\n")
            general = receive_until(connection, b"END\r\n").decode()
        owners = owners_of(running.pid)
    stats = {words[1]: words[2] for words in map(str.split, (slabs + general).splitlines()) if words[0] == "STAT"}
    pages = sum(int(each) for name, each in stats.items() if name.endswith(":total_pages"))
    assert int(stats["total_malloced"]) == pages << 20
    assert "free_chunks" in owners[0]["name"]
    # a list of items leads to the first item of a page in fewer steps
    assert owners[0]["blocks"] >= 0.9 * pages
    assert 0.9 * (pages << 20) <= owners[0]["held_bytes"] <= 1.1 * (pages << 20)
    hashes = [each for each in owners if "hash" in (each["name"] or "") and each["blocks"] == 1]
    assert [0 < each["held_bytes"] - int(stats["hash_bytes"]) <= PAGES for each in hashes] == [True], hashes


def test_mariadb() -> None:
    """A key cache of twice the size has twice the blocks to describe; the performance schema says each table's size."""
    with started(lambda folder: mariadb(folder, options=["--performance-schema=ON"])) as running:
        running.work(running.folder / "socket", tables, 3, log_in)
        held = {}
        with spoken_to(running.folder / "socket") as connection:
            log_in(connection)
            for size in (32, 64):
                query(connection, f"SET GLOBAL key_buffer_size = {size << 20}")
                ((_, unused),) = told(connection, "SHOW GLOBAL STATUS LIKE 'Key_blocks_unused'")
                owners = owners_of(running.pid)
                held[size] = held_by(owners, "dflt_key_cache") / int(unused)
            schema = told(connection, "SHOW ENGINE PERFORMANCE_SCHEMA STATUS")
    # bytes for each block
    assert 100 < held[32] < 400
    assert held[64] == pytest.approx(held[32], rel=0.01)
    sizes = {name: int(size) for _, name, size in schema if name.endswith(".memory")}
    alone = (
        "(pfs_table).memory",
        "(pfs_table_share).memory",
        "(statements_digest_token_array).memory",
        "events_statements_summary_by_digest.memory",
        "file_instances.memory",
        "events_statements_history_long.memory",
    )
    for name in alone:
        assert any(0 <= each["held_bytes"] - sizes[name] <= PAGES for each in owners), name
    large = [each for each in owners[:5] if each["name"].startswith("mariadbd+0x")]
    assert sum(each["held_bytes"] for each in large) > sizes["performance_schema.memory"] / 2


TREES = "SELECT name, coalesce(parent, '-'), sum(total_bytes) FROM pg_backend_memory_contexts GROUP BY name, parent"


def test_postgres() -> None:
    with started(postgres) as running:
        has_started(running)
        with spoken_to(running.folder / ".s.PGSQL.5432") as connection:
            join(connection)
            for round_ in range(6):
                rows(connection, 0, round_)
            ((pid,),) = asked(connection, "SELECT pg_backend_pid()")
            asked(connection, TREES)
            listed = asked(connection, TREES)
            owners = owners_of(int(pid))
            say(connection, "SELECT 1")
    sizes: Counter[str] = Counter()
    for name, parent, size in listed:
        # what is below the cache is its
        sizes["CacheMemoryContext" if parent == "CacheMemoryContext" else name] += int(size)
    assert ["LocalBufferContext" in owners[0]["name"], owners[1]["name"]] == [True, "CacheMemoryContext"]
    for name in ("LocalBufferContext", "CacheMemoryContext"):
        assert held_by(owners, name) == pytest.approx(sizes[name], rel=0.1)


LEVELS = (
    "SELECT level, name, coalesce(parent, '-'), sum(total_bytes) FROM pg_backend_memory_contexts "
    "GROUP BY level, name, parent ORDER BY level"
)


def test_postgres_where_cursors_keep_much() -> None:
    """All that a portal has is below TopPortalContext, to which a variable of portalmem.c leads."""
    with started(postgres) as running:
        has_started(running)
        with spoken_to(running.folder / ".s.PGSQL.5432") as connection:
            join(connection)
            ((pid,),) = asked(connection, "SELECT pg_backend_pid()")
            say(connection, "SET work_mem = '256MB'")
            say(connection, "BEGIN")
            large = "SELECT repeat(md5(n::text), 3) AS b FROM generate_series(1, 60000) AS n"
            for name, statement in (
                ("one", f"{large} ORDER BY 1"),
                ("two", f"SELECT b, count(*) FROM ({large}) AS l GROUP BY b"),
            ):
                say(connection, f"DECLARE {name} CURSOR FOR {statement}")
                say(connection, f"FETCH 1 FROM {name}")
            listed = asked(connection, LEVELS)
            owners = owners_of(int(pid))
            say(connection, "COMMIT")
    size, below = 0, {("1", "TopPortalContext")}
    for level, name, parent, total in listed:
        if (level, name) in below or (str(int(level) - 1), parent) in below:
            below.add((level, name))
            size += int(total)
    assert size > 20 << 20
    assert "ortal" in owners[0]["name"]
    assert owners[0]["held_bytes"] == pytest.approx(size, rel=0.1)
    # contexts beside a variable's own are not its
    assert held_by(owners, "ErrorContext") < 4 * 8192


def test_nginx() -> None:
    """All hangs on its cycle; what the kernel tells of connections is as large as epoll_events says."""
    events = 700

    def start(folder: Path) -> Running:
        running = nginx(folder)
        running.end()
        conf = folder / "nginx.conf"
        conf.write_text(conf.read_text().replace("events {", f"events {{ use epoll; epoll_events {events};"))
        return Running(folder, ["nginx", "-c", conf, "-p", folder])

    with started(start) as running:
        requests(running)
        owners = owners_of(running.pid)
    assert owners[0]["name"] == "ngx_cycle"
    (told,) = (each for each in owners if "epoll_wait() failed" in (each["name"] or ""))
    # struct epoll_event has no padding here
    assert 0 < told["held_bytes"] - 12 * events <= 32


def test_rust() -> None:
    """Each thread keeps one in three of what it has made, on its stack alone."""
    said = []
    for number in range(4):
        seed, sizes = number + 1, []
        for _ in range(12000):
            seed = (seed * 6364136223846793005 + 1442695040888963407) % (1 << 64)
            sizes.append(20 + (seed >> 33) % 3000)
        said.append(sum(sizes[2::3]))
    with started(rust) as running:
        running.await_line()
        owners = owners_of(running.pid)
    stacks = sorted((each for each in owners[:4] if each["kind"] == "stack"), key=lambda each: each["tid"])
    assert len({each["tid"] for each in stacks}) == 4
    for size, each in zip(said, stacks):
        assert size <= each["held_bytes"] < 1.1 * size


def pages(connection: socket.socket, number: int, round_: int) -> None:
    connection.sendall(f"GET /{number}/{round_} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
    head = receive_until(connection, b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    receive(connection, int(head.lower().split(b"content-length: ")[1].split()[0]))


def test_git(tmp_path: Path) -> None:
    """Without room for bases of deltas nobody keeps them; an array has room for each object that is to be packed."""
    history(tmp_path).end()
    base = ("git", "-C", tmp_path / "repository")
    listed = subprocess.run([*base, "rev-list", "--objects", "--all"], capture_output=True, check=True)
    objects = listed.stdout.count(b"\n")
    without, bases, packed = (
        git_owners(tmp_path, [*base, *words])
        for words in (
            ("-c", "core.deltaBaseCacheLimit=1", "log", "-p", "main"),
            ("log", "-p", "main"),
            ("pack-objects", "--all", "--stdout", "-q", "--revs"),
        )
    )
    assert sum(each["blocks"] for each in without if "(packfile.c)" in (each["name"] or "")) < 20
    (cache,) = (each for each in bases if "(packfile.c)" in (each["name"] or "") and each["blocks"] > 20)
    # to_pack has room for (0 + 1024) * 3 / 2, and its index for each twice, of 4 bytes
    room = 1024 * 3 // 2
    assert objects < room
    entries, index = [each for each in packed if "(builtin/pack-objects.c)" in (each["name"] or "")][:2]
    assert entries["blocks"] == index["blocks"] == 1
    assert 64 * room < entries["held_bytes"] < 160 * room
    places = 1 << (3 * objects - 1).bit_length()
    assert 0 < index["held_bytes"] - 4 * places <= 16
    # it is the same cache that packing reads deltas by; how much it keeps at that moment differs
    assert cache["name"] in [each["name"] for each in packed]
    assert packed[0]["held_bytes"] > cache["held_bytes"]


def git_owners(folder: Path, words: Sequence[object]) -> list[Owner]:
    running = Running(folder, words)
    try:
        blocked(running)
        return owners_of(running.pid)
    finally:
        running.end()


def test_haproxy() -> None:
    with started(haproxy) as running:
        running.work(running.folder / "socket", pages, 250)
        with spoken_to(running.folder / "control") as connection:
            connection.sendall(b"show table all\n")
            said = receive_until(connection, b"\n\n").decode()
        with spoken_to(running.folder / "control") as connection:
            connection.sendall(b"show info\n")
            files = int(receive_until(connection, b"\n\n").split(b"Maxsock: ")[1].split()[0])
        owners = owners_of(running.pid)
    used = int(said.split("used:")[1].split()[0])
    assert used == 8 * 250
    (table,) = (each for each in owners if each["name"] == "stktable_by_name")
    # an entry each
    assert table["blocks"] >= 0.9 * used
    # whole lines of the processor's cache for each file that it may open
    assert "fdtab" in owners[0]["name"]
    lines = owners[0]["held_bytes"] / files / 64
    assert 1 <= round(lines) <= 4
    # and a few blocks that lead nowhere else
    assert lines == pytest.approx(round(lines), abs=0.1)
    # its ring "buf0"
    (ring,) = (each for each in owners if each["name"] == "sink_list")
    assert 0 < ring["held_bytes"] - (1 << 20) < PAGES


def test_lighttpd() -> None:
    """Chunks that wait for the next response are as large as its configuration says, and one size has one list."""
    held = []
    for size in (8192, 32768):

        def start(folder: Path, size: int = size) -> Running:
            running = lighttpd(folder)
            running.end()
            conf = folder / "lighttpd.conf"
            conf.write_text(f"{conf.read_text()}server.chunkqueue-chunk-sz = {size}\n")
            return Running(folder, ["lighttpd", "-D", "-f", conf])

        with started(start) as running:
            running.work(running.folder / "socket", texts, 30)
            held.append({each["name"]: each["held_bytes"] for each in owners_of(running.pid) if each["blocks"] == 3})
    grown = [name for name, size in held[0].items() if held[1].get(name, 0) - size == 32768 - 8192]
    assert len(grown) == 1, held


ROOTS = """
gc_disable();
for ($number = 0; $number < %d; $number++) {
    $kept[] = [$number];
    $once = &$kept[$number];
    unset($once);
}
echo gc_status()["roots"], "\\n";
sleep(3600);
"""


@pytest.mark.parametrize("count", [20000, 40000])
def test_php(count: int) -> None:
    """Its collector notes 16384 roots, or twice as many, and so on, a word each, in one block."""
    with started(script("php", "-r", ROOTS % count)) as running:
        said = size_said_by(running)
        owners = owners_of(running.pid)
    assert said >= count
    room = 8 << max(14, (said - 1).bit_length())
    (noted,) = (each for each in owners[:3] if each["blocks"] == 1)
    assert 0 < noted["held_bytes"] - room <= PAGES


# runtimes: each says how much it was given, or what it keeps

PYTHON = """
import sys, time
kept = [bytes(1000 + number % 1000) for number in range(20000)]
print(sum(map(sys.getsizeof, kept)), flush=True)
time.sleep(3600)
"""
RUBY = """
require "objspace"
kept = (0...20000).map { |number| "x" * (1000 + number % 1000) }
puts kept.sum { |each| ObjectSpace.memsize_of(each) - 40 }
$stdout.flush
sleep 3600
"""
PERL = """
my @kept = map { "x" x (1000 + $_ % 1000) } 0 .. 19999;
my $sum = 0; $sum += length for @kept;
$| = 1; print "$sum\\n"; sleep 3600;
"""
NODE = """
const kept = [];
for (let number = 0; number < 20000; number++) kept.push(new ArrayBuffer(1000 + number % 1000));
global.kept = kept;
console.log(process.memoryUsage().arrayBuffers);
setInterval(() => {}, 1000);
"""
JAVA = """
import java.lang.management.*; import java.nio.*; import java.util.*;
public class Kept {
    static List<ByteBuffer> kept = new ArrayList<>();
    public static void main(String[] words) throws Exception {
        for (int number = 0; number < 20000; number++) kept.add(ByteBuffer.allocateDirect(1000 + number % 1000));
        for (BufferPoolMXBean each : ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class))
            if (each.getName().equals("direct")) System.out.println(each.getTotalCapacity());
        Thread.sleep(3600000);
    }
}
"""
GO = """
package main

// #include <stdlib.h>
import "C"
import ("fmt"; "runtime"; "time"; "unsafe")

type kept struct { text unsafe.Pointer }

func main() {
	all, sum := []*kept{}, 0
	for number := 0; number < 20000; number++ {
		size := 1000 + number%1000
		all = append(all, &kept{C.malloc(C.size_t(size))})
		sum += size
	}
	fmt.Println(sum)
	time.Sleep(time.Hour)
	runtime.KeepAlive(all)
}
"""
SQLITE = """
CREATE TABLE t (a, b);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO t SELECT i, hex(zeroblob(500 + i % 500)) FROM n;
.stats on
SELECT 1;
.system while kill -0 $PPID 2>&-; do sleep 1; done
"""


def written(file: str, text: str, *words: str) -> Start:
    def start(folder: Path, env: Env = None) -> Running:
        (folder / file).write_text(text)
        return script(*words)(folder, env)

    return start


def go_of_its_own(folder: Path, env: Env = None) -> Running:
    (folder / "kept.go").write_text(GO)
    return go(folder, env, folder / "kept.go")


RUNTIMES = {
    "python": (written("kept.py", PYTHON, "/usr/bin/python3", "kept.py"), "CPython"),
    "ruby": (written("kept.rb", RUBY, "ruby", "kept.rb"), "Ruby"),
    "perl": (written("kept.pl", PERL, "perl", "kept.pl"), "PL_"),
    "node": (written("kept.js", NODE, "node", "kept.js"), "v8_platform"),
    "java": (
        written("Kept.java", JAVA, "java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "Kept.java"),
        "JVM",
    ),
    "go": (go_of_its_own, "Go"),
    "sqlite": (written("kept.sql", SQLITE, "sqlite3", "-batch", ":memory:", ".read kept.sql"), "sqlite3+"),
}


@pytest.mark.parametrize("name", RUNTIMES)
def test_what_a_runtime_keeps(name: str) -> None:
    start, owner = RUNTIMES[name]
    with started(start) as running:
        size = size_said_by(running)
        owners = owners_of(running.pid)
    assert owner in owners[0]["name"]
    assert size > 10 << 20
    assert size <= owners[0]["held_bytes"] < 1.15 * size + (4 << 20)


def size_said_by(running: Running) -> int:
    """In the first line that has one."""
    assert running.process.stdout is not None
    line = b""
    while not (found := re.match(rb"(?:Memory Used:\s*)?(\d{4,}).*\n", line)):
        piece = os.read(running.process.stdout.fileno(), 1)
        assert piece, running.said()
        line = piece if line.endswith(b"\n") else line + piece
    return int(found[1])
