"""Servers: whom they hold most by, held against their own figures."""

from __future__ import annotations

import os
import re
import socket
import struct
from collections import Counter
from pathlib import Path

import pytest
from ledger import mappings
from own_figures import PAGES, Owner, called, figures_of, held_by, owners_of, spoken_to, started
from programs import (
    answer,
    asked,
    haproxy,
    has_started,
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
    say,
    tables,
    texts,
    told,
    values,
)
from running import Running, receive, receive_until


@figures_of("redis-on-glibc")
def redis(largest: list[Owner]) -> set[str]:
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
    return {"server", "shared"}


@figures_of("memcached")
def of_memcached(largest: list[Owner]) -> set[str]:
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
    assert owners[0]["blocks"] >= 0.9 * pages
    assert 0.9 * (pages << 20) <= owners[0]["held_bytes"] <= 1.1 * (pages << 20)
    hashes = [each for each in owners if "hash" in (each["name"] or "") and each["blocks"] == 1]
    assert [0 < each["held_bytes"] - int(stats["hash_bytes"]) <= PAGES for each in hashes] == [True], hashes
    # a list of items leads to the first item of a page in fewer steps: such a row has whole pages alone
    whole = (1 << 20) + 4096
    lists = [each for each in owners[1:] if each["held_bytes"] == each["blocks"] * whole]
    assert owners[0]["held_bytes"] // whole + sum(each["blocks"] for each in lists) == pages
    # by which list that is, is decided by what was asked for last
    others = [each for each in largest[1:] if each["held_bytes"] == each["blocks"] * whole]
    return {called(each) for each in (owners[0], *hashes, *lists, *others)}


@figures_of("mariadbd")
def of_mariadb(largest: list[Owner]) -> set[str]:
    """A key cache of twice the size has twice the blocks to describe; the performance schema says each table's size,
    and how much values of users' variables take."""
    options = ["--performance-schema=ON", "--performance-schema-instrument=memory/%=ON"]
    with started(lambda folder: mariadb(folder, options=options)) as running:
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
            ((values_size, values_count),) = told(connection, VALUES)
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
    large = [each for each in owners[:5] if (each["name"] or "").startswith("mariadbd+0x")]
    assert sum(each["held_bytes"] for each in large) > sizes["performance_schema.memory"] / 2
    # what leads to them lies in pages that MariaDB maps itself
    mapped = max((each for each in owners if each["kind"] == "mapping"), key=lambda each: int(each["blocks"]))
    # a thread's stack may still have what leads to one, as it did when that was set
    assert int(values_count) - 2 <= mapped["blocks"] <= int(values_count), mapped
    (size, more) = divmod(int(values_size), int(values_count))
    assert not more
    assert 0 <= mapped["held_bytes"] - size * mapped["blocks"] <= 64 * mapped["blocks"]
    return {"dflt_key_cache", "mapping"}


@figures_of("mariadbd")
def of_arias_pages(largest: list[Owner]) -> set[str]:
    """Twice the size, twice the blocks to describe."""
    held = []
    for size in (128, 256):
        options = [f"--aria-pagecache-buffer-size={size << 20}"]
        with started(lambda folder, options=options: mariadb(folder, options=options)) as running:
            running.work(running.folder / "socket", tables, 1, log_in)
            with spoken_to(running.folder / "socket") as connection:
                log_in(connection)
                ((_, unused),) = told(connection, "SHOW GLOBAL STATUS LIKE 'Aria_pagecache_blocks_unused'")
            owners = owners_of(running.pid)
        held.append({each["name"]: each["held_bytes"] / int(unused) for each in owners if each["blocks"] == 1})
    same = {name for name, size in held[0].items() if size > 100 and held[1].get(name, 0) == pytest.approx(size, 0.01)}
    assert len(same) == 1, held
    return same


VALUES = (
    "SELECT current_number_of_bytes_used, current_count_used "
    "FROM performance_schema.memory_summary_global_by_event_name "
    "WHERE event_name = 'memory/sql/user_var_entry::value'"
)
TREES = "SELECT name, coalesce(parent, '-'), sum(total_bytes) FROM pg_backend_memory_contexts GROUP BY name, parent"


@figures_of("postgres")
def of_postgres(largest: list[Owner]) -> set[str]:
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
    return {called(owners[0]), "CacheMemoryContext"}


TOP = "SELECT total_bytes FROM pg_backend_memory_contexts WHERE level = 0"
CHANNELS = 8000


@figures_of("postgres")
def of_the_top_context(largest: list[Owner]) -> set[str]:
    """Names of channels lie in it: it grows by as much as it says."""
    with started(postgres) as running:
        has_started(running)
        with spoken_to(running.folder / ".s.PGSQL.5432") as connection:
            join(connection)
            ((pid,),) = asked(connection, "SELECT pg_backend_pid()")
            seen = []
            for count in (1, CHANNELS):
                say(connection, ";".join(f"LISTEN c{number:060}" for number in range(count)))
                asked(connection, TOP)
                ((size,),) = asked(connection, TOP)
                seen.append((int(size), held_by(owners_of(int(pid)), "TopMemoryContext")))
    (before, held_before), (after, held_after) = seen
    assert after - before > 60 * CHANNELS
    assert held_before > before
    assert held_after - held_before == pytest.approx(after - before, rel=0.05)
    return {"TopMemoryContext"}


LEVELS = (
    "SELECT level, name, coalesce(parent, '-'), sum(total_bytes) FROM pg_backend_memory_contexts "
    "GROUP BY level, name, parent ORDER BY level"
)


@figures_of("postgres")
def of_postgres_where_cursors_keep_much(largest: list[Owner]) -> set[str]:
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
    return {called(owners[0])}


@figures_of("nginx")
def of_nginx(largest: list[Owner]) -> set[str]:
    """Its cycle has each connection; what the kernel tells of them is as large as epoll_events says."""
    events, cycle = 700, []

    for connections in (1000, 5000, 9000):

        def start(folder: Path, connections: int = connections) -> Running:
            running = nginx(folder)
            running.end()
            conf = folder / "nginx.conf"
            text = conf.read_text().replace("worker_connections 64", f"worker_connections {connections}")
            conf.write_text(text.replace("events {", f"events {{ use epoll; epoll_events {events};"))
            return Running(folder, ["nginx", "-c", conf, "-p", folder])

        with started(start) as running:
            requests(running)
            # one that is being answered has a pool, and 264 KiB for gzip
            running.rest()
            owners = owners_of(running.pid)
        cycle.append(held_by(owners, "ngx_cycle"))
    # a connection, and two events
    assert cycle[1] - cycle[0] > 4000 * 200
    assert cycle[2] - cycle[1] == pytest.approx(cycle[1] - cycle[0], rel=0.01)
    (told,) = (each for each in owners if "epoll_wait() failed" in (each["name"] or ""))
    # struct epoll_event has no padding here
    assert 0 < told["held_bytes"] - 12 * events <= 32
    return {"ngx_cycle", called(told)}


TABLE, WORD = struct.Struct("3Q4I3Q"), 8
"""OpenSSL's hash table: nodes, two functions, four numbers, two loads, how many items it has."""


@figures_of("nginx")
def of_openssls_tables(largest: list[Owner]) -> set[str]:
    """OpenSSL counts the items of each: a node for each item, perhaps the item as well, nodes and itself."""
    proved = set()
    with started(nginx) as running:
        requests(running)
        owners = [each for each in owners_of(running.pid) if re.match(r"libcrypto\.so\S*\+0x", each["name"] or "")]
        with open(f"/proc/{running.pid}/mem", "rb", 0) as memory:
            for each in owners[:2]:
                file, place = each["name"].split()[0].split("+")
                base = next(one.start for one in mappings(running.pid) if Path(one.path).name == file)
                at = os.pread(memory.fileno(), WORD, base + int(place, 16))
                items = TABLE.unpack(os.pread(memory.fileno(), TABLE.size, int.from_bytes(at, "little")))[-1]
                # what a pool of nginx's has an old pointer to counts as nginx's
                if any(0.95 * of * items <= each["blocks"] - 2 <= of * items for of in (1, 2)):
                    proved.add(called(each))
    assert proved
    return proved


def pages(connection: socket.socket, number: int, round_: int) -> None:
    connection.sendall(f"GET /{number}/{round_} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
    head = receive_until(connection, b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    receive(connection, int(head.lower().split(b"content-length: ")[1].split()[0]))


@figures_of("haproxy")
def of_haproxy(largest: list[Owner]) -> set[str]:
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
    return {called(owners[0]), "sink_list", "stktable_by_name"}


@figures_of("lighttpd")
def of_lighttpd(largest: list[Owner]) -> set[str]:
    """Chunks that wait for the next response are as large as its configuration says, and one size has one list; what is
    read at once is twice as large, and has another one."""
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
            # three blocks each: how many wait depends on how a request came
            held.append(
                {
                    each["name"]: each["held_bytes"] * 3 // each["blocks"]
                    for each in owners_of(running.pid)
                    if each["blocks"] % 3 == 0
                }
            )
    grown = [name for name, size in held[0].items() if held[1].get(name, 0) - size == 32768 - 8192]
    assert len(grown) == 1, held
    # of a text that a chunk has no room for
    larger = [name for name, size in held[0].items() if 0 < size - 2 * 8192 <= 256]
    assert len(larger) == 1, held
    return {*grown, *larger}
