"""redis from its distribution's source: with debug information, on glibc's malloc, with every kind of value in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterator, Sequence

import debian_source
from looks import ROOT

OPTIONS = ("MALLOC=libc", "OPTIMIZATION=-O2", "DEBUG=-g", "BUILD_TLS=no", "USE_SYSTEMD=no")
LIBRARY_OF_FUNCTIONS = """#!lua name=counting
redis.register_function('count', function(keys, args) return redis.call('INCR', keys[1]) end)
"""


def redis_build(_source: Path, program: Path) -> Iterator[Sequence[object]]:
    yield ["make", "-C", "src", f"-j{os.cpu_count()}", *OPTIONS, "redis-server"]
    yield ["cp", "src/redis-server", program]


def built() -> Path:
    return debian_source.built("redis", ROOT / "fixtures" / "build" / "redis" / "redis-server", redis_build)


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
