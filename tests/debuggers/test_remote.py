"""A process behind gdbserver: read through GDB's own connection, as this machine's /proc knows nothing of it."""

from __future__ import annotations

import re
import subprocess
from typing import Iterator

import pytest
from doors import GDB
from looks import needs
from marks import full_after, in_full
from subjects import Subject

FIXTURES = ("bins", "mmapped", "many_heaps")


@pytest.fixture(params=full_after(1, FIXTURES))
def served(request: pytest.FixtureRequest) -> Iterator[tuple[Subject, str]]:
    """A subject, and where its gdbserver listens."""
    needs("gdbserver")
    with Subject(request.param) as subject:
        server = subprocess.Popen(
            ["gdbserver", "--attach", "127.0.0.1:0", str(subject.pid)],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        try:
            port = next(found.group(1) for found in (re.search(r"port (\d+)", line) for line in server.stderr) if found)
            yield subject, f"127.0.0.1:{port}"
        finally:
            server.kill()
            server.wait()


@pytest.mark.xdist_group("remote")
@pytest.mark.parametrize("symbols", [True, *in_full(False)], ids=["symbols", "stripped"])
def test_figures_are_exact(served: tuple[Subject, str], symbols: bool) -> None:
    subject, address = served
    hide = [] if symbols else ["-iex", "set debug-file-directory /nonexistent"]
    commands = ["heap info", "heap stats", "heap arenas --json", "heap mmapped --json", "heap threads --json"]
    commands += ["heap params --json"]
    outcomes = GDB.drive([*hide, "-ex", f"target remote {address}"], [{"do": command} for command in commands])
    info, stats, arenas, mmapped, threads, params = outcomes
    assert info.text == subject.info_xml
    assert stats.text == subject.stats_text
    document = arenas.json()
    assert document["complete"], document["problems"]
    assert document["target"]["kind"] == "live"
    assert document["glibc"]["located_by"] == ("symbols" if symbols else "scan")
    # what is resident there cannot be told from here
    assert all(arena["resident_bytes"] is None for arena in document["arenas"])
    assert mmapped.json()["match"]
    # glibc counts the processors over there: those of this machine say nothing
    assert params.json()["arenas"] == {"count": len(arenas.json()["arenas"]), "limit": None}
    named = {thread["name"] for thread in threads.json()["threads"]}
    assert named == set(subject.thread_names().values())


@pytest.mark.xdist_group("remote")
def test_apply_is_refused(served: tuple[Subject, str]) -> None:
    _, address = served
    (refused,) = GDB.drive(["-ex", f"target remote {address}"], [{"do": "heap trim --apply -y"}])
    assert refused.error is not None
    assert "another machine" in refused.error
    assert "\n" not in refused.error.strip()
