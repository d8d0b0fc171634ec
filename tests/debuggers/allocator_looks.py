"""Subjects that other allocators serve, looked at from all sides, and what must be said of them.

Truth is the linker's own word (dladdr of malloc, inside), smaps, and malloc_info and mallctl called inside.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from ctypes.util import find_library
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Sequence

import pytest
from doors import DOORS, NEWEST, Core, Door, Image, Live, Outcome, give_up
from subjects import Subject

FIXED = ["-std=gnu11", "-D_GNU_SOURCE", "-pthread", "-g", "-O1", "-fno-builtin"]
COMMANDS = ["version --json", "arenas --json", "version", "arenas", "arenas --quick --json"]
BUILD_SECONDS = 200


def library(name: str) -> str:
    found = find_library(name)
    if not found:
        give_up(f"lib{name} is not installed")
    return found


def build(program: Path, source: Path, compiler: str, *options: str) -> Path:
    """Where the compiler cannot, the test is skipped with its words."""
    if not shutil.which(compiler):
        give_up(f"{compiler} is not installed")
    done = subprocess.run(
        [compiler, *FIXED, "-o", str(program), str(source), *options],
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
    )
    if done.returncode:
        pytest.skip(f"{compiler} cannot build {program.name}: {done.stderr.strip().splitlines()[-1]}")
    return program


class Looks:
    """One subject from all sides: every door, live and core."""

    def __init__(
        self,
        program: str,
        *arguments: str,
        env: Optional[Mapping[str, str]] = None,
        commands: Sequence[str] = COMMANDS,
        core: str = "gcore",
    ) -> None:
        self.outcomes: dict[tuple[str, str], list[Outcome]] = {}
        self.commands = list(commands)
        with Subject(program, *arguments, env=env) as subject:
            self.smaps_text = Path(f"/proc/{subject.pid}/smaps").read_text()
            self.rss = subject.rollup("Rss")
            self.truth: dict[str, Any] = subject.truth if subject._file("truth.json") else {}
            self.libc_info = subject._file("libc-info.xml")
            self._look(Live(subject.pid, subject.program))
            if core:
                self._look(Core(getattr(subject, core)(), subject.program))

    def _look(self, image: Image) -> None:
        for name in NEWEST:
            door: Door = DOORS[name]
            if not door.available():
                self.outcomes[name, image.kind] = door.run(image, self.commands)

    def json(self, command: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """(where from, the document)."""
        assert self.outcomes, give_up("no debugger is installed")
        for (door, kind), outcomes in self.outcomes.items():
            yield f"{door} {kind}", outcomes[self.commands.index(f"{command} --json")].json()

    def words(self, command: str) -> Iterator[tuple[str, str]]:
        """(where from, what was written, or the error)."""
        for (door, kind), outcomes in self.outcomes.items():
            outcome = outcomes[self.commands.index(command)]
            yield f"{door} {kind}", outcome.error or outcome.text

    def rss_of(self, word: str) -> int:
        """Of the mappings whose first line in smaps ends so."""
        found = re.findall(
            rf"^[0-9a-f]+-[0-9a-f]+ .*{re.escape(word)}\n(?:.*\n)*?Rss: +(\d+) kB", self.smaps_text, re.MULTILINE
        )
        assert found, word
        return sum(int(each) for each in found) * 1024


def serving(document: Mapping[str, Any]) -> list[tuple[str, Optional[bool]]]:
    return [(each["name"], each["replaces_malloc"]) for each in document["allocators"]]


def check_replaced(looks: Looks, name: str, how: str) -> None:
    """This one serves malloc; figures of glibc's arenas are marked as no more than those."""
    for command in ("version", "arenas"):
        for where, document in looks.json(command):
            assert serving(document) == [(name, True)], where
            assert how in document["allocators"][0]["how"], where
            assert document["allocators"][0]["instead"]
            assert document["complete"] is False
            (past,) = [each for each in document["problem_records"] if each["id"] == "malloc-replaced"]
            assert past["names"]["allocators"] == f"{name} ({document['allocators'][0]['how']})", where
            assert document["allocators"][0]["instead"] in past["names"]["ask"], where
            if command == "arenas":
                held = document["totals"]["system_bytes"] + document["mmapped"]["bytes"]
                assert past["figures"]["glibc_bytes"] == held, where
        for where, text in looks.words(command):
            assert f"{name} ({document['allocators'][0]['how']}) " in text, where
            assert document["allocators"][0]["instead"] in text, where


def check_beside(looks: Looks, name: str) -> None:
    """It has a heap of its own, and malloc is glibc's."""
    for command in ("version", "arenas"):
        for where, document in looks.json(command):
            assert serving(document) == [(name, False)], where
            assert (document["complete"], document["problems"]) == (True, []), where
        for where, text in looks.words(command):
            assert f"{name} ({document['allocators'][0]['how']}) " in text, where


def check_share(looks: Looks) -> None:
    """What glibc's arenas have in memory: the break, which is theirs alone here, and the one block by mmap."""
    mapped = int(re.findall(r'<total type="mmap" count="\d+" size="(\d+)"', looks.libc_info)[-1])
    current = int(re.findall(r'<system type="current" size="(\d+)"', looks.libc_info)[-1])
    expected = (looks.rss_of("[heap]") if current else 0) + mapped
    for where, document in looks.json("arenas"):
        share = document["share"]
        if "live" not in where:
            assert share["rss_bytes"] is None
            continue
        assert share["glibc_resident_bytes"] == expected, where
        # what is read of a file is mapped by that
        assert 0 <= share["rss_bytes"] - looks.rss < 4 << 20, where
        assert document["totals"]["system_bytes"] + (document["mmapped"]["bytes"] or 0) == current + mapped, where
    for where, text in looks.words("arenas"):
        if "live" in where:
            told = re.search(r"glibc's arenas hold ([0-9.]+) % of the ([0-9.]+) MiB resident", text)
            assert told, where
            assert abs(float(told[1]) - 100 * expected / looks.rss) < 1.5, where
