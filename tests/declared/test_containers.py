"""Containers of the standard libraries lead to what the program itself says that they have: to all blocks that were
asked for by each, to no others, and to as many elements."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from contextlib import contextmanager
from typing import Iterator, NamedTuple, Optional, Sequence

import pytest
from looks import ROOT, needs
from sites import PROGRAMS
from subjects import Started, Subject
from test_truth import ARGUMENTS

from arenascope.blocks.declared.container_rows import start_of
from arenascope.blocks.declared.named_blocks import NamedBlocks
from arenascope.blocks.declared.once_per_image import named_blocks
from arenascope.blocks.declared.type_values import types_called
from arenascope.blocks.graph.blocks import live_blocks
from arenascope.blocks.graph.pointers_to import ImageSearch
from arenascope.blocks.graph.roots import find_roots
from arenascope.blocks.recognise.module_memory import ground_of
from arenascope.session.session import Session
from arenascope.sources.live.process import ProcessImage
from arenascope.sources.shell_target import ShellTarget

pytestmark = pytest.mark.xdist_group("containers")
SOURCE = ROOT / "fixtures" / "containers.cc"
BEFORE_MAIN, STRANGER = "-", "own_vector"
UNCOUNTED = "unique_plain_array"
"""How many it has nobody knows: as many as its block has room for."""
ROUNDED = 16
"""malloc's blocks differ by that."""


class Build(NamedTuple):
    name: str
    compiler: str
    flags: Sequence[str]


BUILDS = (
    Build("O0", "g++", ["-std=c++17", "-O0", "-DWITH_PATHS"]),
    Build("O2", "g++", ["-std=c++17", "-O2", "-DWITH_PATHS"]),
    Build("old-ABI", "g++", ["-std=c++17", "-O1", "-D_GLIBCXX_USE_CXX11_ABI=0"]),
    Build("C++11-DWARF-4", "g++", ["-std=c++11", "-O1", "-gdwarf-4"]),
    Build("clang", "clang++", ["-std=c++17", "-O1", "-DWITH_PATHS"]),
)
ONLY_FULL = ("O2", "old-ABI", "C++11-DWARF-4", "clang")


class Truth:
    """What the program wrote."""

    def __init__(self, text: str) -> None:
        self.containers: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self.blocks: dict[str, dict[int, int]] = defaultdict(dict)
        """By whom they are for: the bytes asked for at each address."""
        for line in text.splitlines():
            kind, *words = line.split()
            if kind == "block":
                self.blocks[words[3]][int(words[0], 16)] = int(words[1])
            elif kind == "container":
                self.containers[words[0]], self.counts[words[0]] = int(words[1], 16), int(words[2])


class Led(NamedTuple):
    """What a container leads to: bytes of types by blocks, and how many elements it has."""

    type: str
    blocks: dict[int, int]
    elements: Optional[int]


class Asked(NamedTuple):
    build: Build
    truth: Truth
    led: dict[str, Led]
    named: set[int]
    """All blocks that have names: what has a vtable has one in its own right, and two may lead to one block."""


@contextmanager
def traced(pid: int) -> Iterator[tuple[Session, NamedBlocks]]:
    with ShellTarget(ProcessImage(pid), declared=True) as target:
        assert target.types is not None
        session = Session(target)
        blocks = live_blocks(session)
        search = ImageSearch(session, blocks, find_roots(session, blocks))
        yield session, named_blocks(search, target.types, ground_of(session))


MARKED = [pytest.param(each, id=each.name, marks=[pytest.mark.full] * (each.name in ONLY_FULL)) for each in BUILDS]


@pytest.fixture(scope="module", params=MARKED)
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    build: Build = request.param
    needs(build.compiler)
    program = tmp_path_factory.mktemp(build.name) / "containers"
    subprocess.run([build.compiler, "-g", *build.flags, "-w", "-o", program, SOURCE], check=True)
    with Subject(str(program)) as subject, traced(subject.pid) as (session, named):
        truth = Truth((subject.folder / "truth" / "containers.txt").read_text())
        assert named.contents is not None
        assert session.target.types is not None
        by_start: dict[Optional[int], dict[int, int]] = defaultdict(dict)
        for block in range(len(named.blocks)):
            name, start = named.name_of(block), start_of(named, block)
            if name is not None:
                size = named.types.facts(name.type).size if name.type is not None else 0
                count = named.elements[block] if name.form == "array" else 1
                by_start[start.address if start is not None else None][named.blocks.starts[block]] = (
                    name.front + size * count
                )
        variables = session.target.types.variables([*truth.containers.values()])
        led, known = {}, {at for each in by_start.values() for at in each}
        for name, at in truth.containers.items():
            type = variables[at].type
            led[name] = Led(named.types.facts(type).name, by_start[at], named.contents.elements(type, at))
    return Asked(build, truth, led, known)


def test_every_block_is_named(asked: Asked) -> None:
    """With no more bytes than were asked for, and no other block."""
    wrong = {}
    before = asked.truth.blocks[BEFORE_MAIN]
    assert len(asked.led) == len(asked.truth.containers) > 90
    for name, led in asked.led.items():
        expected = asked.truth.blocks[name] if name != STRANGER else {}
        most, room = {**before, **expected}, ROUNDED * (name == UNCOUNTED)
        odd = [(hex(at), None) for at in expected if at not in asked.named]
        odd += [(hex(at), size) for at, size in led.blocks.items() if size > most.get(at, 0) + room]
        if odd:
            wrong[name] = led.type, odd
    assert not wrong, str(wrong)


def test_every_element_counts(asked: Asked) -> None:
    counts = {name: (count, asked.led[name].elements) for name, count in asked.truth.counts.items() if count >= 0}
    assert {name: each for name, each in counts.items() if each[0] != each[1]} == {}
    assert len(counts) > 40


def test_a_type_is_known_that_lies_in_blocks_of_another() -> None:
    with Started(PROGRAMS / "server.O2", *ARGUMENTS["server"]) as process, traced(process.pid) as (_, named):
        assert named.contents is not None
        found = [named.contents.types.facts(each.type).name for each in types_called(named, "Session")]
        assert found == ["Session"]
