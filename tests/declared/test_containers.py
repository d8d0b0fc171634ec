"""Containers of the standard libraries claim what the program itself says that they have: all blocks that were asked
for by each, of the bytes asked, the elements where they lie and in their order. Damaged ones claim nothing wrongly."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import defaultdict
from typing import Any, NamedTuple, Sequence

import pytest
from doors import GDB, Live, give_up
from looks import HERE, ROOT, opened
from subjects import Subject

pytestmark = pytest.mark.xdist_group("containers")
SOURCE = ROOT / "fixtures" / "containers.cc"
BEFORE_MAIN, STRANGER = "-", "own_vector"
GONE = "weak_expired"
"""What it holds was destroyed: if its count is damaged, too, nothing tells."""
LAMBDAS = ("function_lambda", "function_other_lambda", "shared_lambda")
"""Of clang's debug information GDB does not say which class a method is of, if a lambda is in its name. With the old
ABI's strings two of them are of one size, and spelled alike."""
UNCOUNTED = "unique_plain_array"
"""How many it has nobody knows: as many as its block has room for."""
ROUNDED = 16
"""malloc's blocks differ by that."""


class Build(NamedTuple):
    name: str
    compiler: str
    flags: Sequence[str]
    damage: bool = False


BUILDS = (
    Build("O0", "g++", ["-std=c++17", "-O0", "-DWITH_PATHS"], True),
    Build("O2", "g++", ["-std=c++17", "-O2", "-DWITH_PATHS"]),
    Build("old-ABI", "g++", ["-std=c++17", "-O1", "-D_GLIBCXX_USE_CXX11_ABI=0"], True),
    Build("C++11-DWARF-4", "g++", ["-std=c++11", "-O1", "-gdwarf-4"]),
    Build("clang", "clang++", ["-std=c++17", "-O1", "-DWITH_PATHS"]),
)
ONLY_FULL = ("O2", "old-ABI", "C++11-DWARF-4", "clang")


class Truth:
    """What the program wrote."""

    def __init__(self, text: str) -> None:
        self.containers: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self.values: dict[str, list[list[int]]] = defaultdict(list)
        self.blocks: dict[str, dict[int, int]] = defaultdict(dict)
        """By whom they are for: the bytes asked for at each address."""
        self.usable: dict[int, int] = {}
        for line in text.splitlines():
            kind, *words = line.split()
            if kind == "block":
                self.blocks[words[3]][int(words[0], 16)] = int(words[1])
                self.usable[int(words[0], 16)] = int(words[2])
            elif kind == "value":
                self.values[words[0]].append([int(words[1], 16), int(words[2])])
            else:
                self.containers[words[0]], self.counts[words[0]] = int(words[1], 16), int(words[2])


class Asked(NamedTuple):
    build: Build
    truth: Truth
    answers: dict[str, dict[str, Any]]


MARKED = [pytest.param(each, id=each.name, marks=[pytest.mark.full] * (each.name in ONLY_FULL)) for each in BUILDS]


@pytest.fixture(scope="module", params=MARKED)
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    build: Build = request.param
    if shutil.which(build.compiler) is None:
        give_up(f"{build.compiler} is not installed")
    folder = tmp_path_factory.mktemp(build.name)
    program = folder / "containers"
    subprocess.run([build.compiler, "-g", *build.flags, "-w", "-o", program, SOURCE], check=True)
    with Subject(str(program)) as subject:
        truth = Truth((subject.folder / "truth" / "containers.txt").read_text())
        sizes = {str(at): truth.usable[at] for at in truth.usable}
        # to damage each word in its turn takes longest
        damaged = any(
            getattr(item, "function", None) is test_damaged_ones_claim_nothing_wrongly for item in request.session.items
        )
        task = {"containers": truth.containers, "blocks": sizes, "damage": build.damage and damaged}
        (folder / "task.json").write_text(json.dumps(task))
        driver = HERE.parent / "declared" / "drive_containers.py"
        script = f"python import runpy; runpy.run_path({str(driver)!r}, {{'FOLDER': {str(folder)!r}}})"
        opened(GDB).do(Live(subject.pid, subject.program), [script])
    return Asked(build, truth, json.loads((folder / "answers.json").read_text()))


def test_every_block_is_claimed(asked: Asked) -> None:
    """With the bytes that were asked for, and no other block."""
    wrong = {}
    before = asked.truth.blocks[BEFORE_MAIN]
    assert len(asked.answers) == len(asked.truth.containers) > 90
    for name, answer in asked.answers.items():
        claimed = {start: size for start, size, _ in answer["blocks"]}
        expected = asked.truth.blocks[name]
        if name == STRANGER:
            assert not claimed
            continue
        if name == UNCOUNTED:
            ((start, size),) = claimed.items()
            assert expected[start] <= size < expected[start] + ROUNDED
            continue
        odd = [(hex(start), size, claimed.get(start)) for start, size in expected.items() if claimed.get(start) != size]
        odd += [(hex(at), None, size) for at, size in claimed.items() if at not in expected and before.get(at) != size]
        if asked.build.name in ("clang", "old-ABI") and name in LAMBDAS:
            assert set(claimed.items()) <= set(expected.items())
            continue
        if odd or answer["refused"] or len(claimed) != len(answer["blocks"]):
            wrong[name] = odd, answer["refused"]
    assert not wrong


def test_elements_lie_where_the_program_has_them(asked: Asked) -> None:
    wrong = {}
    for name, answer in asked.answers.items():
        count, values = asked.truth.counts[name], asked.truth.values[name]
        if "string" in answer["type"].partition("<")[0]:
            values = []
        if (count >= 0 and answer["elements"] != count) or (values and answer["values"] != values):
            wrong[name] = count, answer["elements"], values[:3], (answer["values"] or [])[:3]
    assert not wrong
    assert sum(map(bool, asked.truth.values.values())) > 40


@pytest.mark.full
@pytest.mark.parametrize("asked", [each for each in MARKED if each.values[0].damage], indirect=True)
def test_damaged_ones_claim_nothing_wrongly(asked: Asked) -> None:
    """One word after the other is changed. What is claimed then is what it is for all that; or the word is the pointer
    to the block, which was changed to another one of just this size."""
    known = {(start, kind) for answer in asked.answers.values() for start, _, kind in answer["blocks"]}
    wrong, tried = {}, 0
    for name, answer in asked.answers.items():
        damaged = answer.get("damaged", [])
        tried += answer.get("tried", 0)
        odd = [each for each in damaged if (each[2], each[4]) not in known and each[1] != each[2]]
        if odd and name != GONE:
            wrong[name] = odd[:3]
    assert not wrong
    assert tried > 5000
