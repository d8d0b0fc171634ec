"""What is said of types and variables is what the program itself prints of them (fixtures/types), in each build that
changes debug information. Debuggers ask the same engine: declared/test_doors_agree.py."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple, Optional, Sequence

import pytest
from looks import ROOT, needs
from marks import full_after
from subjects import Subject
from test_other_files import build as build_replaced

from arenascope.cli.shell import How, ShellDoor
from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.type_source import TypeFacts, TypeSource

SOURCES = ROOT / "fixtures" / "types"


class Build(NamedTuple):
    """How it is compiled."""

    name: str
    flags: Sequence[str]
    compiler: str = "gcc"

    def make(self, folder: Path) -> Path:
        """Compiled in its own folder, where split debug information stays."""
        needs(self.compiler)
        other = {"gcc": "g++", "clang": "clang++"}[self.compiler]
        flags = [*self.flags, "-w", f"-I{SOURCES}", "-D_GNU_SOURCE"]
        library, program = folder / "liblibrary.so", folder / "program"
        for words in (
            (self.compiler, *flags, "-fPIC", "-shared", "-o", library, SOURCES / "library.c"),
            (self.compiler, *flags, "-c", "-o", folder / "plain.o", SOURCES / "plain.c"),
            (other, *flags, "-std=gnu++17", "-c", "-o", folder / "program.o", SOURCES / "program.cc"),
            (other, *flags, "-o", program, folder / "program.o", folder / "plain.o", library, "-pthread"),
        ):
            subprocess.run([*words, f"-Wl,-rpath,{folder}"], cwd=folder, check=True, capture_output=True)
        return program


BUILDS = (
    Build("O0-dwarf5", ["-O0", "-g", "-gdwarf-5"]),
    Build("O2-dwarf4", ["-O2", "-g", "-gdwarf-4"]),
    Build("O1-split", ["-O1", "-g", "-gsplit-dwarf"]),
    Build("O2-compressed-no-pie", ["-O2", "-g", "-gz", "-no-pie", "-fno-pie"]),
    Build("clang-O0", ["-O0", "-g"], "clang"),
)


class Row(NamedTuple):
    """A line of declared.txt."""

    name: str
    rest: Sequence[str]

    @property
    def address(self) -> int:
        return int(self.rest[0], 16)


class Typed:
    """What the program printed, and what is said of a core of it."""

    def __init__(self, truth: dict[str, list[Row]], types: TypeSource) -> None:
        self.truth, self.types = truth, types
        self.variables = types.variables([each.address for each in truth["variable"]])
        self.facts: dict[int, TypeFacts] = {}
        left: list[Optional[int]] = [each.type for each in self.variables.values()]
        left += [*types.named("Ring<Mixed, 3>"), *types.named("Side")]
        while left:
            number = left.pop()
            if number is not None and number not in self.facts:
                facts = self.facts[number] = types.facts(number)
                left += [facts.target, *(each.type for each in (*facts.fields, *facts.arguments))]

    def named(self, name: str) -> TypeFacts:
        (facts,) = [each for each in self.facts.values() if each.name == name]
        return facts

    def text(self, number: Optional[int]) -> str:
        """A type as declared.txt writes it."""
        if number is None:
            return "void"
        facts = self.types.facts(number)
        if facts.form in ("pointer", "reference"):
            return self.text(facts.target) + "*"
        if facts.form == "array":
            return f"{self.text(facts.target)}[{facts.length}]"
        return facts.name or facts.form


def source(subject: object) -> TypeSource:
    types = ShellDoor(str(subject), How("none", declared=True)).target().types
    assert types is not None
    return types


@pytest.fixture(scope="module", params=full_after(1, BUILDS), ids=lambda build: build.name)
def typed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Typed:
    folder = tmp_path_factory.mktemp("typed")
    rows = defaultdict(list)
    with Subject(str(request.param.make(folder))) as subject:
        for line in (subject.folder / "truth" / "declared.txt").read_text().splitlines():
            kind, name, *rest = line.split("\t")
            rows[kind].append(Row(name, rest))
        core = Path(shutil.move(subject.kernel_core(), folder / "core"))
    return Typed(rows, source(core))


def test_variables(typed: Typed) -> None:
    found = {at: (each.name, each.address, typed.text(each.type)) for at, each in typed.variables.items()}
    assert len(found) == 19
    assert found == {each.address: (each.name, each.address, each.rest[2]) for each in typed.truth["variable"]}
    # of each thread's own, which module has them and where they lie in its block
    own = {(each.name, typed.text(each.type)) for each in typed.types.thread_locals()}
    expected = {(each.name, each.rest[2]) for each in typed.truth["thread"]}
    assert expected
    assert expected <= own


def test_layouts(typed: Typed) -> None:
    assert len(typed.truth["type"]) >= 6
    for row in typed.truth["type"]:
        assert typed.named(row.name).size == int(row.rest[0]), row
    assert len(typed.truth["field"]) >= 15
    for row in typed.truth["field"]:
        field, offset, size = row.rest
        (found,) = [each for each in typed.named(row.name).fields if each.name == field.partition("[")[0]]
        member = typed.types.facts(found.type)
        assert found.offset == int(offset), row
        assert member.size == int(size) or (member.form == "array" and member.length is None), row


def test_what_has_no_place_is_left_out(typed: Typed) -> None:
    node, mixed, side = typed.named("node"), typed.named("Mixed"), typed.named("Side")
    assert [each.name for each in node.fields][:3] == ["kind", "", "links"]
    assert [(each.name, each.is_base) for each in mixed.fields] == [("Shape", True), ("after", False), ("", False)]
    # a virtual base has no fixed place
    assert [each.name for each in side.fields if not each.name.startswith("_vptr")] == ["side"]
    assert (mixed.polymorphic, side.polymorphic, node.polymorphic) == (True, True, False)
    fields = {each.name: each.type for each in node.fields}
    assert typed.types.facts(fields["tail"]).length is None
    assert typed.text(fields["pair"]) == "node*[3][2]"
    # as the ABI has them: side by side, from the bit of least weight on
    flag, rest = node.bits
    assert (flag.name, flag.size, rest.name, rest.size) == ("flag", 3, "rest", 13)
    assert rest.offset == flag.offset + 3
    kinds = typed.types.facts(fields["kind"])
    assert (kinds.form, dict(kinds.enumerators), kinds.signed) == ("enum", {"FIRST": -2, "SECOND": 40}, True)
    of, count = typed.named("Ring<Mixed, 3>").arguments
    assert (of.type, count.value) == (*typed.types.named("Mixed"), 3)


def test_names_that_lead_to_one_type(typed: Typed) -> None:
    """Two modules have a `twice` each."""
    assert len(typed.types.named("twice")) != 1
    assert not typed.types.named("nothing")
    assert {each.size for each in typed.facts.values() if each.name == "twice"} == {16, 56}
    for name in ("Mixed", "Side", "hidden", "node", "Colour"):
        (number,) = typed.types.named(name)
        assert typed.types.facts(number).name == name
    names = {Path(each).name.partition(".so")[0] for each in typed.types.without()}
    assert not names & {"program", "liblibrary"}
    assert "libstdc++" in names


def test_a_file_of_another_build(tmp_path: Path) -> None:
    """What it says of variables and types is said of another library than the one in memory."""
    files = build_replaced(tmp_path)
    core = files.core(tmp_path)
    said = subprocess.run(["nm", "-D", files.right], capture_output=True, text=True, check=True).stdout
    place = next(int(line.split()[0], 16) for line in said.splitlines() if line.endswith(" right_owner"))
    address = place + next(each.start for each in CoreImage(str(core)).regions() if each.path == str(files.library))
    files.put(files.wrong)
    wrong = source(core)
    assert not wrong.variables([address])
    assert [*wrong.named("RightLink"), *wrong.named("WrongLink")] == []
    assert str(files.library) in wrong.without()
    files.put(files.right)
    right = source(core)
    assert [each.name for each in right.variables([address]).values()] == ["right_owner"]
    assert right.named("RightLink")
    assert str(files.library) not in right.without()


MAPPED_TWICE = """
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int file = open("LIBRARY", O_RDONLY), rights = PROT_READ | PROT_EXEC;
    char *room = mmap(0, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int at = 0; at < 2; at++)
        mmap(room + (at << 19), 1 << 16, rights, MAP_PRIVATE | MAP_FIXED, file, 0);
    printf("ready %d\\n", (int)getpid());
    fflush(stdout);
    return getchar() == EOF;
}
"""


def test_a_module_that_is_mapped_twice_is_named_once(tmp_path: Path) -> None:
    library = tmp_path / "library.so"
    (tmp_path / "library.c").write_text("int twice(void) { return 2; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "library.c"], check=True)
    (tmp_path / "main.c").write_text(MAPPED_TWICE.replace("LIBRARY", str(library)))
    subprocess.run(["gcc", "-g", "-o", tmp_path / "main", tmp_path / "main.c"], check=True)
    with Subject(str(tmp_path / "main")) as subject:
        without = source(subject.pid).without()
    assert without.count(str(library)) == 1
    assert len(without) == len(set(without))
