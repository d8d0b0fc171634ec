"""What is wrong is said in one line: bad words, nothing to look at, images that lack something, damaged heaps."""

from __future__ import annotations

from ctypes.util import find_library
from pathlib import Path

import pytest
from album import COMMANDS
from doors import LOAD, Core, Door, Gdb, Live
from looks import failure_id, give_up, one_line
from marks import in_full
from subjects import Subject

from arenascope.present.shared_text.lines_and_tables import NO_HEAP

"""No command may take longer, whatever it meets."""


# words

BAD_WORDS = {
    "bins --arena 999": ["no arena 999", "0 to 2"],
    "bins --arena -1": ["arena"],
    "heaps --arena 3": ["no arena 3"],
    "bins --arena main": ["--arena", "main"],
    "arenas --limit x": ["--limit", "'x'"],
    "arenas --limit": ["--limit"],
    "arenas --sort colour": ["--sort", "colour", "system"],
    "arenas --nonsense": ["--nonsense", "--help"],
    "arenas surplus": ["surplus"],
    "nonsense": ["nonsense", "heap help"],
    "nonsense --json": ["nonsense"],
}


@pytest.mark.xdist_group("loading")
def test_bad_words(door: Door, subject: Subject) -> None:
    outcomes = door.run(Live(subject.pid, subject.program), list(BAD_WORDS))
    expected = {**BAD_WORDS, **door.own_words}
    for words, outcome in zip(BAD_WORDS, outcomes):
        error = one_line(outcome)
        assert all(each in error for each in expected[words]), error


@pytest.mark.xdist_group("loading")
def test_an_error_ends_a_script_as_gdbs_own_do(gdb: Gdb, subject: Subject) -> None:
    finished = gdb.start(["-p", str(subject.pid), *LOAD, "-ex", "heap bins --arena 999 --json"])
    assert finished.returncode == 1
    assert "no arena 999" in finished.stderr
    (line,) = [line for line in finished.stdout.splitlines() if line.startswith("{")]
    assert failure_id(line) == "usage"


# nothing to look at


@pytest.mark.parametrize("arguments", [[], ["fixture"]], ids=["no program", "not started"])
def test_no_process(gdb: Gdb, arguments: list[str], subject: Subject) -> None:
    steps = [{"do": f"heap {command}"} for command in COMMANDS]
    for outcome in gdb.drive([str(subject.program) for _ in arguments], steps):
        if outcome.command.startswith("heap version"):
            assert outcome.error is None  # it tells what it can
            assert "arenascope" in outcome.text
        else:
            error = one_line(outcome)
            assert "no process" in error
            assert "attach" in error


@pytest.mark.parametrize("symbols", [True, *in_full(False)], ids=["symbols", "stripped"])
@pytest.mark.parametrize("image", ["live", *in_full("kernel")])
def test_malloc_was_never_called(door: Door, image: str, symbols: bool) -> None:
    with Subject("untouched") as subject:
        process = Live(subject.pid, subject.program)
        looked_at = process if image == "live" else Core(subject.kernel_core(), subject.program)
        outcomes = door.run(looked_at, COMMANDS, symbols)
    seen = dict(zip(COMMANDS, outcomes))
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    for command in ("arenas", "heaps", "bins", "threads", "mmapped"):
        assert NO_HEAP in seen[command].text, command
        document = seen[f"{command} --json"].json()
        assert (document["complete"], document["problems"]) == (True, [])
    totals = seen["arenas --json"].json()["totals"]
    assert totals["system_bytes"] == totals["top_bytes"] == totals["used_bytes"] == 0
    assert totals["bins"] == totals["fast"] == totals["tcache"] == {"chunks": 0, "bytes": 0}
    assert seen["bins --json"].json()["bins"] == seen["heaps --json"].json()["heaps"] == []
    params = seen["params --json"].json()
    rows = {row["name"]: row for row in params["params"]}
    assert rows["top_pad"]["value"] == 131072
    fast = rows["global_max_fast"]
    if fast["value"] is not None:
        # malloc_init_state() sets it: nobody has changed it
        assert (fast["value"], fast["note_record"]["id"]) == (0, "set-by-first-call")
    assert params["note_record"]["id"] == "at-defaults"


def test_another_allocator(door: Door) -> None:
    """glibc is mapped beside jemalloc and knows next to nothing: that must not pass for the process's heap."""
    library = find_library("jemalloc")
    if not library:
        give_up("libjemalloc2 is not installed")
    with Subject("bins", env={"LD_PRELOAD": library}) as subject:
        outcomes = door.run(Live(subject.pid, subject.program), COMMANDS)
    for outcome in outcomes:
        if outcome.command.split()[-1] not in ("info", "stats"):  # glibc's own words: what is to be said is on stderr
            assert "jemalloc" in (outcome.error or outcome.text), outcome.command


# images that lack something


def test_a_core_without_memory(door: Door) -> None:
    with Subject("bins", coredump_filter=0x10) as subject:
        core = Core(subject.kernel_core(), subject.program)
        for symbols in (True, False):
            for outcome in door.run(core, COMMANDS, symbols):
                if "version" in outcome.command:
                    continue  # it tells what it can
                error = one_line(outcome)
                assert "core" in error
                assert "coredump_filter" in error


def test_another_programs_file(gdb: Gdb, subject: Subject, tmp_path: Path) -> None:
    """A core opened without its program still names its libc."""
    with Subject("bins") as other:
        core, xml = other.gcore(), other.info_xml
        (outcome,) = gdb.drive(["-c", str(core)], [{"do": "heap info"}])
    assert outcome.text == xml
