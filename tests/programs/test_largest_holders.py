"""The three largest holders of each real program: each is proved by a figure of the program's own, or it is told why
there is none. test_reached.py proves all of them by a scan of memory besides."""

from __future__ import annotations

import re

import figures_of_programs
import figures_of_servers
import pytest
from own_figures import FIGURES, Owner, called, owners_of
from running import Running
from test_reached import LARGEST, NAMES

# what adds to FIGURES
assert figures_of_programs
assert figures_of_servers

LIBRARIES = {
    r"_nl_\w+|string_space|map|environ|nss_module_list|__nss_\w+|_IO_\w+|dtv": "libc counts none of what it keeps",
    r"libstdc\+\+\.so\S*": "of libstdc++'s emergency pool nothing tells its size",
    r"libcrypto\.so\S*( .*)?|default_context_int": "OpenSSL counts items of tables, not what a context has",
    r"libgnutls\.so\S*( .*)?": "GnuTLS counts nothing of its configuration",
}
REASONS = {
    "python": {r"python3\S*( .*)?|_PyRuntime": "sys tells of objects, of arenas and of their map, and of nothing else"},
    "java": {
        r"\w+Type|ChunkPool::\w+|ThreadsSMRSupport::\w+|.+_sym|stack": "NMT sums up chunks of arenas, and does "
        "not tell who leads to one: types of C1 do, and threads, which have theirs on their stacks while they compile"
    },
    "node": {
        r"node::.*|cppgc::.*": "several variables lead to node's environment: it tells what this has, not by which"
    },
    "mariadbd": {
        r"mariadbd\+\S+ \(storage/innobase/.*": "InnoDB allocates transactions, 4 MiB at a time, uninstrumented"
    },
    "memcached": {r"memcached\S+ ..mc-worker..": "of what its threads have stats tell the buffers, a part"},
    "php": {
        "executor_globals|compiler_globals": "it counts classes and functions, not what describes them",
        r"php8\S*( .*)?": "nobody is told of texts that PHP has once",
    },
    "ruby": {
        r"ruby_\w+|libruby\S*( .*)?": "ObjectSpace tells of objects, not of the VM's own tables and threads",
    },
    "cc1plus": {
        r"cc1plus\S*|mapping|memory_block_pool::instance|parse_in|g": "halfway one of these may be third: its report "
        "tells of its collector and of identifiers"
    },
    "git": {r"git\+\S+( .*)?": "git counts nothing of the objects that it has parsed"},
    "haproxy": {
        "servers_list|fdinfo|polled_mask": "its statistics tell of tables and rings, and of no server's memory"
    },
    "lighttpd": {"kernel": "its status tells how far a connection is, not what it takes"},
    "gdb": {r"gdb\+\S+( .*)?": "maint print statistics tells of files with symbols alone"},
}
"""By program: holders without a figure of the program's own, and why."""
TRIFLE = 0.01
"""Who holds no more of all that is held may be third by what the name service asks for, by an address, or by what a
compiler's thread was at."""
LOW = {"node": 0.4, "go": 0.1}
"""Their heaps lie so low that a number, which any table keeps, may be an address there, and lead to a part; of_nodes_…
and of_what_a_runtime_keeps add up what is held. More than this share nobody holds by chance."""
AT_ONCE = 4 << 20
"""What InnoDB takes at a time for its transactions and more, twice where it is busy. Its variables have no symbols: by
which text one is told, where no file is known, differs from build to build."""
OF_INNODB = re.compile(r"mariadbd\+\S+( .*)?", re.DOTALL)


def is_of_pieces(size: int) -> bool:
    return any(each * AT_ONCE <= size < 1.25 * each * AT_ONCE for each in (1, 2))


def reason_for(program: str, owner: Owner, share: float) -> str:
    name = called(owner)
    if share < TRIFLE:
        return "a trifle"
    if owner["kind"] in ("global", "tls") and share < LOW.get(program, 0):
        return "perhaps a number that is an address"
    if program == "mariadbd" and OF_INNODB.fullmatch(name) and is_of_pieces(owner["held_bytes"]):
        return "what InnoDB takes at once"
    reasons = {**REASONS.get(program, {}), **LIBRARIES}
    return next((why for pattern, why in reasons.items() if re.fullmatch(pattern, name, re.DOTALL)), "")


@pytest.mark.parametrize("serving", NAMES, indirect=True)
def test_each_has_a_figure_of_its_own_or_a_reason(serving: Running, request: pytest.FixtureRequest) -> None:
    program = request.node.callspec.params["serving"]
    owners = owners_of(serving.pid)
    held, largest = sum(each["held_bytes"] for each in owners), owners[:LARGEST]
    serving.end()
    proved = {name for figures in FIGURES[program] for name in figures(largest)}
    assert proved
    for each in largest:
        share = each["held_bytes"] / held
        assert called(each) in proved or reason_for(program, each, share), (called(each), share)
