"""What is wrong is said in one line: bad words, nothing to look at, images that lack something, damaged heaps."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from ctypes.util import find_library
from pathlib import Path
from typing import Any, Iterator

import pytest
from album import COMMANDS, FIGURES
from doors import DOORS, LOAD, Core, Door, Gdb, Live, Outcome, give_up
from subjects import Subject

SECONDS = 20
"""No command may take longer, whatever it meets."""


@pytest.fixture(params=sorted(name for name in DOORS if name != "shell"))
def door(request: pytest.FixtureRequest) -> Door:
    door = DOORS[request.param]
    reason = door.available()
    if reason:
        give_up(reason)
    return door


def one_line(outcome: Outcome) -> str:
    """The error, which is one line and the only thing said."""
    assert outcome.error, f"{outcome.command} said {outcome.text!r}"
    assert outcome.text == ""
    assert len(outcome.error.strip().splitlines()) == 1, outcome.error
    assert outcome.seconds < SECONDS
    return outcome.error


# words

@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    with Subject("bins") as subject:
        yield subject


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
    "nonsense": ["nonsense", "help heap"],
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
    assert finished.status == 1
    assert "no arena 999" in finished.stderr
    assert "{" not in finished.stdout


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


def test_malloc_was_never_called(door: Door) -> None:
    with Subject("untouched") as subject:
        images = [Live(subject.pid, subject.program)]
        found = [(image, symbols, door.run(image, COMMANDS, symbols)) for image in images for symbols in (True, False)]
        core = Core(subject.kernel_core(), subject.program)
        found += [(core, symbols, door.run(core, COMMANDS, symbols)) for symbols in (True, False)]
    for _, _, outcomes in found:
        seen = dict(zip(COMMANDS, outcomes))
        assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
        for command in ("arenas", "heaps", "bins", "threads", "mmapped"):
            assert seen[command].text.startswith("no heap yet"), command
            document = seen[f"{command} --json"].json()
            assert (document["complete"], document["problems"]) == (True, [])
        totals = seen["arenas --json"].json()["totals"]
        assert totals["system_bytes"] == totals["top_bytes"] == totals["used_bytes"] == 0
        assert totals["bins"] == totals["fast"] == totals["tcache"] == {"chunks": 0, "bytes": 0}
        assert seen["bins --json"].json()["bins"] == seen["heaps --json"].json()["heaps"] == []
        assert {row["name"]: row["value"] for row in seen["params --json"].json()["params"]}["top_pad"] == 131072


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


def fails_or_admits(outcome: Outcome, whole: dict[str, Any]) -> None:
    """What an image that lacks something may answer: an error, what is missing, or the truth where nothing is."""
    assert outcome.seconds < SECONDS
    if outcome.error is not None:
        assert "truncated" in one_line(outcome)
    elif outcome.command.endswith("--json"):
        document = json.loads(outcome.text)
        assert document["complete"] is (not document["problems"])
        if document["complete"]:
            document.pop("target"), document.pop("glibc")
            expected = {**whole[outcome.command]}
            expected.pop("target"), expected.pop("glibc")
            assert document == expected, outcome.command
    elif outcome.text != whole[outcome.command]:
        assert "incomplete: " in outcome.text, outcome.command


@pytest.mark.parametrize("part", [0.9, 0.5, 0.02])
@pytest.mark.parametrize("fixture", ["bins", "bins.static"])
def test_truncated_cores(door: Door, fixture: str, part: float, tmp_path: Path) -> None:
    """A dynamic program loses libc's data first, a static one keeps main_arena and loses threads' heaps."""
    commands = [command for command in FIGURES if not command.startswith("version")] + ["arenas"]
    with Subject(fixture) as subject:
        core = subject.kernel_core()
        whole = {}
        for outcome in door.run(Core(core, subject.program), commands):
            whole[outcome.command] = outcome.json() if outcome.command.endswith("--json") else outcome.text
        cut = tmp_path / "core"
        subprocess.run(["cp", "--sparse=always", str(core), str(cut)], check=True)
        os.truncate(cut, int(core.stat().st_size * part))
        for symbols in (True, False):
            for outcome in door.run(Core(cut, subject.program), commands, symbols):
                fails_or_admits(outcome, whole)


def test_another_programs_file(gdb: Gdb, subject: Subject, tmp_path: Path) -> None:
    """A core opened without its program still names its libc."""
    with Subject("bins") as other:
        core, xml = other.gcore(), other.info_xml
        outcome, = gdb.drive(["-c", str(core)], [{"do": "heap info"}])
    assert outcome.text == xml


# damage, done by GDB and undone afterwards

# name: where a word is overwritten, and with what; {small} and the like are places that hold something
DAMAGES = {
    "fd astray": ("{small} + 16", "0x4141414141414141"),
    "fd unmapped": ("{small} + 16", "0x1000"),
    "fd unaligned": ("{small} + 16", "*(long*)({small} + 16) + 8"),
    "fd to itself": ("{small} + 16", "{small}"),
    "fd null": ("{small} + 16", "0"),
    "fd skips to the bin": ("{small} + 16", "(long)&main_arena.bins[0] + 16 * {small_index} - 32"),
    "a bin's own fd": ("(long)&main_arena.bins[2 * ({small_index} - 1)]", "0x10"),
    "a small chunk's size": ("{small} + 8", "0x7fffffffffff1"),
    "a small chunk's size of zero": ("{small} + 8", "0"),
    "a large chunk's size": ("{large} + 8", "0x21"),
    "a large chunk's fd": ("{large} + 16", "0x4141414141414141"),
    "unsorted's fd": ("{unsorted} + 16", "0x4141414141414141"),
    "a fast chunk's fd": ("{fast} + 16", "0x4141414141414141"),
    "a fastbin's head": ("(long)&main_arena.fastbinsY[{fast_index}]", "0x1230"),
    "a thread cache's entry": ("(long)&tcache->entries[{tcache_index}]", "0x1230"),
    "a cached chunk's next": ("(long)tcache->entries[{tcache_index}]", "0x4141414141414141"),
    "a thread cache's count": ("(long)&tcache->counts[{tcache_index} & ~3]", "0x0102010201020102"),
    "top": ("(long)&main_arena.top", "0x1000"),
    "top null": ("(long)&main_arena.top", "0"),
    "top's size": ("(long)main_arena.top + 8", "0xfffffffffff1"),
    "the ring": ("(long)&main_arena.next->next", "0x1000"),
    "the ring never closes": ("(long)&main_arena.next->next", "(long)main_arena.next"),
    "the ring's first step": ("(long)&main_arena.next", "0x1000"),
    "a heap's arena": ("((long)main_arena.next & ~0x3ffffffL)", "0"),
    "a heap's size": ("((long)main_arena.next & ~0x3ffffffL) + 16", "0x7ffffffff000"),
    "a heap's predecessor": ("((long)main_arena.next & ~0x3ffffffL) + 8", "(long)main_arena.next & ~0x3ffffffL"),
    "system_mem": ("(long)&main_arena.system_mem", "0x1000"),
}
LOOKS = ("arenas --json", "bins --json", "heaps --json", "threads --json", "info --json", "stats --json", "trim --json",
         "mmapped --json", "params --json", "arenas", "bins", "info", "trim")


class Places:
    """Where each damage is done, by GDB's reckoning: lists of the main arena and the main thread that hold chunks."""

    def __init__(self, gdb: Gdb, subject: Subject) -> None:
        self.subject = subject
        select = ["-p", str(subject.pid), "-ex", "thread 1"]
        lists = [{"value": name} for name in ("main_arena.bins", "main_arena.fastbinsY", "tcache->counts")]
        bins, fast, cached = (outcome.value for outcome in gdb.drive(select, lists, load=()))
        heads = {index: bins[2 * (index - 1)] for index in range(1, 127)
                 if bins[2 * (index - 1)] != bins[2 * index - 1]}  # more than one chunk, so that a list is cut
        small, large = (next(index for index in heads if low <= index < high) for low, high in ((2, 64), (64, 127)))
        fast_index = next(index for index, head in enumerate(fast) if head)
        names = {"small": heads[small], "small_index": small, "large": heads[large], "unsorted": heads[1],
                 "fast": fast[fast_index], "fast_index": fast_index,
                 "tcache_index": max(range(len(cached)), key=lambda index: cached[index])}
        words = [{"value": text.format(**names)} for damage in DAMAGES.values() for text in damage]
        values = [outcome.value & (1 << 64) - 1 for outcome in gdb.drive(select, words, load=())]
        self.damages = dict(zip(DAMAGES, zip(values[::2], values[1::2])))

    @contextmanager
    def damaged(self, name: str) -> Iterator[None]:
        address, value = self.damages[name]
        with open(f"/proc/{self.subject.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(address)
            kept = memory.read(8)
            try:
                memory.seek(address)
                memory.write(value.to_bytes(8, "little"))
                yield
            finally:
                memory.seek(address)
                memory.write(kept)


@pytest.fixture(scope="module")
def places(gdb: Gdb) -> Iterator[Places]:
    with Subject("bins") as subject:
        yield Places(gdb, subject)


@pytest.mark.xdist_group("damage")
@pytest.mark.parametrize("symbols", [True, False], ids=["symbols", "stripped"])
@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_and_ends_nothing(door: Door, places: Places, name: str, symbols: bool) -> None:
    subject = places.subject
    with places.damaged(name):
        outcomes = dict(zip(LOOKS, door.run(Live(subject.pid, subject.program), LOOKS, symbols)))
    for look, outcome in outcomes.items():
        assert outcome.seconds < SECONDS, look
        if outcome.error is not None:
            one_line(outcome)
        elif look.endswith("--json"):
            document = outcome.json()
            assert document["complete"] is (not document["problems"]), look
    arenas = outcomes["arenas --json"].json()
    assert arenas["complete"] is False
    assert any("0x" in problem for problem in arenas["problems"]), arenas["problems"]
    assert len(arenas["problems"]) < 100
    assert "incomplete: " in outcomes["arenas"].text


@pytest.mark.xdist_group("damage")
def test_all_damage_was_undone(gdb: Gdb, places: Places) -> None:
    """Else the tests above would have met each other's."""
    outcome, = gdb.run(Live(places.subject.pid, places.subject.program), ["info"])
    assert outcome.text == places.subject.info_xml
    assert places.subject.send("check") == "intact"
