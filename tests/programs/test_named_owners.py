"""Real programs: each block has a main holder, and most bytes one that an operator knows by name."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from partial import look
from running import Running

NOBODY = 0.001
"""Of all bytes, at most; a leak is none that these have."""
NAMED = {
    "python": 0.95,
    "ruby": 0.95,
    "node": 0.95,
    "java": 0.95,
    "perl": 0.95,
    "redis-on-glibc": 0.95,
    "go": 0.95,
    "memcached": 0.8,
    "postgres": 0.8,
    "mariadbd": 0.8,
    "nginx": 0.8,
    "haproxy": 0.8,
    "gdb": 0.8,
}
"""With symbols, or a runtime; or by what the code of a stripped program says (x86-64)."""
OTHERS = ("php", "sqlite", "git", "cc1plus", "lighttpd", "rust")
"""Most of their variables have addresses alone; Rust's threads keep all on their stacks."""
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
}


def is_named(owner: dict[str, Any]) -> bool:
    """A place in a file is no name, nor is a mapping's address."""
    if owner["kind"] in ("global", "tls"):
        return owner["name"] is not None and re.fullmatch(r".*\+0x[0-9a-f]+", owner["name"]) is None
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
