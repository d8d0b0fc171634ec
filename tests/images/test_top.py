"""arenascope top: each process's figures against mallinfo2 called inside it, and that nobody is stopped."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from looks import needs
from marks import in_full
from schemas import valid
from shell_door import ARENASCOPE, arenascope
from subjects import await_parked
from test_other_allocators import library

from arenascope.cli import top
from arenascope.session.header_look import HeaderLook, HeaderReader
from arenascope.sources.live.processes_by_name import ListedProcess, list_processes

ROOT = Path(__file__).resolve().parents[2]
PAGE = os.sysconf("SC_PAGE_SIZE")
SUBJECT = Path(__file__).with_name("top.c").read_text()


@pytest.fixture(scope="module")
def program(build):
    return build(SUBJECT)


@pytest.fixture(scope="module")
def subject(program, start):
    return start(program)


def listed(pid: int) -> ListedProcess:
    return next(each for each in list_processes(PAGE) if each.pid == pid)


def look(pid: int, chunks: int = 1 << 20, reader: HeaderReader | None = None) -> HeaderLook:
    process = listed(pid)
    return (reader or HeaderReader()).look(pid, (process.started, process.program), chunks)


def agrees(seen: HeaderLook, facts: dict[str, int]) -> None:
    assert seen.arenas == 2
    assert seen.system == facts["arena"]
    assert seen.free is not None
    assert seen.free.whole
    assert seen.free.all == facts["free"] - facts["fast"]
    assert seen.mmapped == (facts["mapped"], facts["mapped_bytes"])


def test_the_figures_are_mallinfos(subject):
    agrees(look(subject.pid), subject.facts)


def test_what_is_not_followed_is_left_out(subject):
    whole, part = look(subject.pid).free, look(subject.pid, chunks=20).free
    assert not part.whole
    assert part.tops == whole.tops
    assert 0 < part.bins < whole.bins
    assert 0 < part.resident < whole.resident


def test_a_second_process_of_a_libc_is_not_searched(program, start, subject, monkeypatch):
    reader = HeaderReader()
    agrees(look(subject.pid, reader=reader), subject.facts)
    monkeypatch.setattr(reader, "_search", None)
    other = start(program)
    agrees(look(other.pid, reader=reader), other.facts)
    # what another libc's build-id leads to is not believed
    (build_id,) = reader._libcs
    reader._libcs[build_id] = reader._libcs[build_id]._replace(main_arena=reader._libcs[build_id].main_arena + 64)
    reader.forget_all_but([])
    with pytest.raises(TypeError):
        look(other.pid, reader=reader)


def test_a_static_program(build, start):
    static = start(build(SUBJECT, "-static"))
    agrees(look(static.pid), static.facts)


def test_a_program_that_another_allocator_serves():
    other = subprocess.Popen(["sleep", "60"], env={"LD_PRELOAD": library("jemalloc")})
    try:
        await_parked(other.pid, 1)
        assert look(other.pid).allocators == ("jemalloc",)
    finally:
        other.kill()
        other.wait()


def test_a_program_that_only_its_own_mount_namespace_has(program, start, tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    script = tmp_path / "start"
    script.write_text(
        "#!/bin/sh\n"
        f"exec unshare -m sh -c 'mount -t tmpfs none {inside} && cp {program} {inside}/p && exec {inside}/p'\n"
    )
    script.chmod(0o755)
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    contained = start(script)
    assert not (inside / "p").exists()
    agrees(look(contained.pid), contained.facts)


def test_the_resident_part_is_the_whole_looks(subject):
    document, _ = printed("--exact", str(subject.pid), "--limit", "1")
    (row,) = (each for each in document["processes"] if each["pid"] == subject.pid)
    exact = row["exact"]
    assert row["figures"] == "exact"
    assert exact["held_seconds"] > 0
    assert row["free_whole"]
    assert row["stranded_bytes"] == exact["stranded_bytes"]
    # beside it the whole look has a top's part of its first page, and what threads cache
    assert 0 <= exact["free_bytes"] - row["free_resident_bytes"] < 4 * PAGE
    assert exact["trim_bytes"] > 0


def printed(*words: str) -> tuple[dict[str, Any], int]:
    """The only document, and the exit status."""
    done = arenascope("top", "--json", *words, status=None)
    (line,) = done.stdout.splitlines()
    return valid(json.loads(line)), done.returncode


def test_each_look_is_a_line(subject):
    done = arenascope("top", "--json", "--count", 3, "--interval", 0.05, "--limit", 0)
    documents = [valid(json.loads(line)) for line in done.stdout.splitlines()]
    assert len(documents) == 3
    for document in documents:
        (row,) = (each for each in document["processes"] if each["pid"] == subject.pid)
        assert row["system_bytes"] == subject.facts["arena"]
        assert row["exact"] is None
        assert row["figures"] == ("estimate" if row["free_whole"] else "at-least")
        ranks = [each["free_resident_bytes"] for each in document["processes"] if each["arenas"]]
        assert [each for each in ranks if each is not None] == sorted(
            (each for each in ranks if each is not None), reverse=True
        )


def test_one_that_cannot_be_looked_at_whole_is_said_in_a_line():
    done = arenascope("top", "--exact", 4194305, "--limit", 1, status=2)
    assert len(done.stderr.splitlines()) == 1
    assert "4194305" in done.stderr
    assert done.stdout


def test_one_that_ends_meanwhile_is_left_out(subject, monkeypatch):
    gone = subprocess.Popen(["true"])
    gone.wait()
    ended = ListedProcess(gone.pid, "true", rss=PAGE, started=1, program=b"")
    monkeypatch.setattr(top, "list_processes", lambda page_size: [ended, listed(subject.pid)])
    found = top.Looks({}).look()
    assert [each.pid for each in found.processes] == [subject.pid]
    assert found.unread == 0


@pytest.mark.parametrize("exact", [False, *in_full(True)])
def test_none_is_stopped_but_for_those_of_exact(subject, tmp_path, exact):
    needs("strace")
    calls = tmp_path / "calls"
    words = ["--exact", str(subject.pid)] if exact else []
    trace = ("strace", "-f", "-o", str(calls), "-e", "trace=ptrace,kill,tkill,tgkill,pidfd_send_signal,rt_sigqueueinfo")
    subprocess.run([*trace, *ARENASCOPE, "top", "--limit", "3", *words], check=True, capture_output=True, timeout=120)
    said = [line for line in calls.read_text().splitlines() if "(" in line]
    stops = [line for line in said if "PTRACE_SEIZE" in line or "SIGSTOP" in line or "PTRACE_ATTACH" in line]
    if exact:
        # each of its two threads, once
        assert {line.split("PTRACE_SEIZE, ")[1].split(",")[0] for line in stops} == set(
            os.listdir(f"/proc/{subject.pid}/task")
        )
        assert len(stops) == 2
    else:
        assert said == []
    assert subject.status("State")[0] == "S"
