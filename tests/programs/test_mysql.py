"""What a mariadbd's blocks are, held against its own count of what my_malloc gave out."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import pytest
from programs import log_in, mariadb, query, tables, told
from running import Running
from shell_door import ask

from arenascope.blocks.graph.blocks import live_blocks
from arenascope.blocks.name_all_blocks import catalogue_of
from arenascope.cli.shell import How, ShellDoor
from arenascope.session.session import Session

ALLOCATOR_HEADER = 24
COUNTED, MARKS = 2, 3


def status_of(connection: socket.socket, variable: str) -> int:
    ((_, value),) = told(connection, f"SHOW GLOBAL STATUS LIKE '{variable}'")
    return int(value)


def given_out(pid: int) -> int:
    """What its headers say that was asked for, with these."""
    session = Session(ShellDoor(str(pid), How("none")).target())
    word, catalogue = session.layout.word, catalogue_of(session)
    sizes = []
    for user in live_blocks(session).starts:
        marked = session.memory.word(user + word) if catalogue.front(user) else 0
        if marked & COUNTED:
            sizes.append((marked & ~MARKS) + ALLOCATOR_HEADER)
    return sum(sizes)


def connections_of(pid: int) -> int:
    """Objects of THD: threads of its own have some, too."""
    (row,) = ask(pid, "types --quick --match THD")["types"]
    assert (row["kind"], row["module"], row["certain"]) == ("c++", "mariadbd", True)
    return int(row["blocks"])


def connected_to(running: Running) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(running.folder / "socket"))
    log_in(connection)
    return connection


@pytest.mark.full
@pytest.mark.xdist_group("mariadbd-types")
def test_all_that_my_malloc_gave_out_is_known() -> None:
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        running = mariadb(Path(folder), None)
        try:
            running.serve(running.folder / "socket", tables, 10, log_in, 10)
            with connected_to(running) as connection:
                before, known = status_of(connection, "Memory_used"), given_out(running.pid)
                for number in range(50):
                    query(connection, f"SET @kept{number} = REPEAT('x', {100_000 + 1_001 * number})")
                # what it maps by itself is in its count, too, and does not change
                grew, more = status_of(connection, "Memory_used") - before, given_out(running.pid) - known
                connected, sessions = status_of(connection, "Threads_connected"), connections_of(running.pid)
                others = [connected_to(running) for _ in range(7)]
                came = status_of(connection, "Threads_connected") - connected
                assert (came, connections_of(running.pid) - sessions) == (7, 7)
                for other in others:
                    other.close()
                document = ask(running.pid, "types --limit 0")
        finally:
            running.end()
    assert grew > 50 * 100_000
    assert abs(more - grew) < grew // 100
    rows = document["types"]
    # nearly nothing is left of which no more than the size is known
    sized = sum(row["bytes"] for row in rows if row["kind"] == "size" and ":" not in row["type"])
    assert sized < sum(row["bytes"] for row in rows) // 20
