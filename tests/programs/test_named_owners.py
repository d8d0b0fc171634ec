"""Real programs: each block has a main holder, and most bytes one that an operator knows by name."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from partial import look
from running import Running

NOBODY = 0.001
"""Of all bytes, at most; a leak is none that these have."""
NAMED = {
    "python": 0.9,
    "ruby": 0.95,
    "node": 0.95,
    "java": 0.95,
    "perl": 0.95,
    "redis-on-glibc": 0.95,
    "go": 0.95,
}
"""With symbols, or with a runtime's heap."""
OTHERS = (
    "memcached",
    "postgres",
    "mariadbd",
    "nginx",
    "haproxy",
    "gdb",
    "php",
    "sqlite",
    "git",
    "cc1plus",
    "lighttpd",
    "rust",
)
"""Most of their variables have no symbols; Rust's threads keep all on their stacks."""
LARGEST = {
    "python": ("runtime", "CPython"),
    "ruby": ("runtime", "Ruby"),
    "java": ("runtime", "JVM"),
    "perl": ("global", "PL_curinterp"),
    "go": ("runtime", "Go"),
    "rust": ("stack", None),
    "redis-on-glibc": ("global", "server"),
    "mariadbd": ("global", "dflt_key_cache"),
    "nginx": ("global", "ngx_cycle"),
    "lighttpd": ("stack", None),
}


def is_named(owner: dict[str, Any]) -> bool:
    """All unnamed variables of a file are no name, nor is a mapping's address."""
    if owner["kind"] in ("global", "tls"):
        return owner["name"] is not None and not owner["name"].startswith("unnamed variables of ")
    return owner["kind"] in ("runtime", "kernel")


@pytest.mark.parametrize("serving", [*NAMED, *OTHERS], indirect=True)
def test_each_block_has_one(serving: Running, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["serving"]
    os.kill(serving.pid, signal.SIGSTOP)
    try:
        status, out, _ = look(Path(str(serving.pid)), "owners --json --limit 0")
    finally:
        os.kill(serving.pid, signal.SIGCONT)
    assert status == 0
    found = json.loads(out)
    owners, live = found["owners"], found["live_bytes"]
    assert sum(each["held_bytes"] for each in owners) == live
    assert sum(each["held_bytes"] for each in owners if each["kind"] == "unreached") <= NOBODY * live
    named = sum(each["held_bytes"] for each in owners if is_named(each))
    assert named >= NAMED.get(name, 0) * live
    if name in LARGEST:
        assert (owners[0]["kind"], owners[0]["name"]) == LARGEST[name]
