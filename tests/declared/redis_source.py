"""redis from its distribution's source: with debug information, on glibc's malloc, with every kind of value in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import BinaryIO, Iterator, Optional, Sequence, Union

import pytest
from debian_source import downloaded, unpack
from looks import ROOT
from programs import redis_says
from running import Running
from sites import LIBRARY

BUILT = ROOT / "fixtures" / "build" / "redis"
OPTIONS = ("MALLOC=libc", "OPTIMIZATION=-O2", "DEBUG=-g", "BUILD_TLS=no", "USE_SYSTEMD=no")
NEWER = ("FUNCTION", "FCALL")
"""Commands that redis has from 7 on."""
LIBRARY_OF_FUNCTIONS = """#!lua name=counting
redis.register_function('count', function(keys, args) return redis.call('INCR', keys[1]) end)
"""


def built() -> Path:
    """Built once: it stays where fixtures are built."""
    program = BUILT / "redis-server"
    if program.exists():
        return program
    for needed in ("apt-get", "make", "gcc"):
        if not shutil.which(needed):
            pytest.skip(f"{needed} is not installed: redis is built from its distribution's source")
    BUILT.mkdir(parents=True, exist_ok=True)
    # debug information names its sources, which stay
    source = BUILT / "source"
    shutil.rmtree(source, ignore_errors=True)
    unpack(downloaded("redis", BUILT), source)
    made = subprocess.run(
        ["make", "-C", source / "src", f"-j{os.cpu_count()}", *OPTIONS, "redis-server"],
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert made.returncode == 0, made.stderr[-2000:]
    # whole or not at all
    os.replace(source / "src" / "redis-server", program)
    return program


Reply = Union[bytes, None, list["Reply"]]


class Redis(Running):
    """It stands still: nobody asks it anything more."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.log = program, folder / "sites"
        words = ["--port", 0, "--unixsocket", folder / "socket", "--save", "", "--dir", folder, "--hz", 1]
        words += ["--slowlog-log-slower-than", 0, "--activerehashing", "no"]
        super().__init__(folder, [program, *words], {"LD_PRELOAD": str(LIBRARY), "SITES_LOG": str(self.log)})
        self.await_that((folder / "socket").exists, "it does not listen")
        self._connections: list[BinaryIO] = []
        self._first = self.connect()

    def connect(self) -> BinaryIO:
        self._connections.append(redis_says(self).makefile("rwb", buffering=0))
        return self._connections[-1]

    def ask(self, *words: object, over: Optional[BinaryIO] = None) -> Reply:
        connection = over or self._first
        send(connection, *words)
        return reply(connection)

    def end(self) -> None:
        for each in self._connections:
            each.close()
        super().end()


def send(connection: BinaryIO, *words: object) -> None:
    parts = [str(each).encode() for each in words]
    connection.write(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(each), each) for each in parts))


def reply(connection: BinaryIO) -> Reply:
    line = connection.readline()
    kind, rest = line[:1], line[1:].strip()
    if kind not in b"$*":
        return line.strip()
    if int(rest) < 0:
        return None
    if kind == b"*":
        return [reply(connection) for _ in range(int(rest))]
    text = b""
    while len(text) < int(rest) + 2:
        text += connection.read(int(rest) + 2 - len(text))
    return text[:-2]


def fill(running: Redis) -> None:
    for command in every_kind():
        said = running.ask(*command)
        known = not isinstance(said, bytes) or not said.startswith(b"-")
        assert known or (command[0] in NEWER and b"unknown command" in said), (command, said)
    # clients that wait for something, and whose commands are queued
    running.ask("SUBSCRIBE", "news", over=running.connect())
    running.ask("PSUBSCRIBE", "news.*", over=running.connect())
    send(running.connect(), "BLPOP", "nothing", 0)
    running.await_that(lambda: b"cmd=blpop" in running.ask("CLIENT", "LIST"), "nobody waits")
    transaction = running.connect()
    for command in (("WATCH", "number:1"), ("MULTI",), ("SET", "queued", "text")):
        running.ask(*command, over=transaction)


def every_kind(keys: int = 300) -> Iterator[Sequence[object]]:
    """Values of each type in each encoding, expiry, streams with readers, scripts, functions, users."""
    long = "some text that is longer than an embedded string may be, so that it has a block of its own "
    for i in range(keys):
        yield "SET", f"number:{i}", 100000 + i
        yield "SET", f"short:{i}", f"text {i}"
        yield "SET", f"long:{i}", long + str(i)
        yield "SET", f"expiring:{i}", f"{long}{i}", "EX", 100000
        yield "APPEND", f"appended:{i % 20}", long
        yield "HSET", f"small hash:{i}", "name", f"user {i}", "age", i
        yield "HSET", "large hash", f"field {i}", f"{long}{i}"
        yield "RPUSH", f"small list:{i % 50}", f"element {i}", i
        yield "RPUSH", "large list", f"{long}{i}" * 4
        yield "SADD", f"numbers:{i % 20}", i, i + 1
        yield "SADD", "words", f"word {i}"
        yield "ZADD", f"small sorted:{i % 50}", i, f"member {i}"
        yield "ZADD", "large sorted", i / 7, f"{long[:70]}{i}"
        yield "XADD", "stream", f"{i + 1}-1", "sensor", i, "text", f"value {i}"
        yield "PFADD", f"estimate:{i % 5}", *(f"visitor {i} {each}" for each in range(9))
        yield "SETBIT", f"bits:{i % 5}", i * 97, 1
        yield "GEOADD", "places", i / 10, i / 10, f"place {i}"
        if i < 50:
            yield "EVAL", f"return redis.call('INCR', KEYS[1]) + {i}", 1, f"scripted:{i}"
            yield "ACL", "SETUSER", f"user{i}", "on", f">secret{i}", f"~user{i}:*", "+get", "+set"
            yield "PUBLISH", f"channel:{i}", long
    for i in range(5):
        yield "XGROUP", "CREATE", "stream", f"group {i}", 0
        yield "XGROUP", "CREATECONSUMER", "stream", f"group {i}", f"reader {i}"
        yield "XREADGROUP", "GROUP", f"group {i}", f"reader {i}", "COUNT", 20, "STREAMS", "stream", ">"
    yield "FUNCTION", "LOAD", LIBRARY_OF_FUNCTIONS
    yield "FCALL", "count", 1, "counted"
