"""What a door says of types, variables and locals is what the program itself prints of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple, Sequence

import pytest
from doors import GDB, Core, Door, Gdb, Image, Live
from lldb_door import NEWEST_LLDB, Lldb
from looks import HERE, opened
from marks import full_after
from replaced import build as build_replaced
from shell_door import SHELL, Shell
from subjects import Subject
from type_answers import Answers
from typed import BUILDS, Build, Row, rows_of, text_of

from arenascope.cli.shell import How, ShellDoor
from arenascope.sources.core.core_image import CoreImage

pytestmark = [pytest.mark.xdist_group("type_sources")]
NAMES = ("Mixed", "Side", "Ring<Mixed, 3>", "hidden", "node", "twice", "nothing", "Colour")


class Typed(NamedTuple):
    """The program, what it printed, and what the door answered of it live and in a core."""

    door: Door
    build: Build
    truth: dict[str, list[Row]]
    folder: Path
    answers: dict[str, dict[str, Any]]


def ask(
    door: Door,
    image: Image,
    addresses: Sequence[int],
    folder: Path,
    structs: bool = False,
    names: Sequence[str] = NAMES,
) -> dict[str, Any]:
    if isinstance(door, Shell):
        subject = str(image.pid if isinstance(image, Live) else image.path)
        return ask_shell(subject, addresses, structs, names)
    results = folder / "answers.json"
    task = folder / "task.json"
    task.write_text(json.dumps({"addresses": list(addresses), "names": names, "structs": structs}))
    if isinstance(opened(door), Gdb):
        script = f"runpy.run_path({str(HERE / 'drive_types.py')!r}, {{'FOLDER': {str(folder)!r}}})"
        door.do(image, [f"python import runpy; {script}"])
    else:
        assert isinstance(door, Lldb)
        known = f"{{'FOLDER': {str(folder)!r}, 'debugger': debugger}}"
        script = f"import runpy; runpy.run_path({str(HERE / 'drive_lldb_types.py')!r}, {known})"
        door.drive(door.look_at(image), [{"python": script}])
    answers: dict[str, Any] = json.loads(results.read_text())
    results.unlink()
    return answers


def ask_shell(subject: str, addresses: Sequence[int], structs: bool, names: Sequence[str]) -> dict[str, Any]:
    target = ShellDoor(subject, How("none", declared=True)).target()
    assert target.types is not None
    asked = Answers(target.types)
    answers = asked.all(addresses, names)
    if structs:
        answers["structs"] = asked.structs()
    # as what went through JSON in a debugger
    through: dict[str, Any] = json.loads(json.dumps(answers))
    return through


DEBUGGERS: Sequence[Door] = (GDB, NEWEST_LLDB)
DOORS: Sequence[Door] = (*DEBUGGERS, SHELL)


@pytest.fixture(scope="module", params=DOORS, ids=lambda door: door.name)
def door(request: pytest.FixtureRequest) -> Door:
    return opened(request.param)


@pytest.fixture(scope="module", params=full_after(1, BUILDS), ids=lambda build: build.name)
def typed(request: pytest.FixtureRequest, door: Door, tmp_path_factory: pytest.TempPathFactory) -> Typed:
    build: Build = request.param
    folder = tmp_path_factory.mktemp(build.name)
    with Subject(str(build.make(folder))) as subject:
        truth = rows_of(subject)
        addresses = [each.address for each in truth["variable"]]
        live = ask(door, Live(subject.pid, subject.program), addresses, folder)
        core = Path(shutil.move(subject.kernel_core(), folder / "core"))
    answers = {"live": live, "core": ask(door, Core(core, subject.program), addresses, folder, build is BUILDS[0])}
    return Typed(door, build, truth, folder, answers)


OF_PROCESSES = pytest.mark.parametrize("door", DEBUGGERS, ids=lambda door: door.name, indirect=True)
"""The shell holds no process for its types: it has no registers."""
KINDS = pytest.mark.parametrize("kind", ["live", "core"])


@KINDS
def test_variables(typed: Typed, kind: str) -> None:
    answers = typed.answers[kind]
    found = {
        int(at, 16): (each["name"], each["address"], text_of(answers, each["type"]), each["tid"])
        for at, each in answers["variables"].items()
    }
    expected = {each.address: (each.name, each.address, each.rest[2], None) for each in typed.truth["variable"]}
    assert len(expected) == 19
    assert found == expected


@KINDS
def test_layouts(typed: Typed, kind: str) -> None:
    answers = typed.answers[kind]
    by_name: dict[str, list[dict[str, Any]]] = {}
    for facts in answers["facts"].values():
        by_name.setdefault(facts["name"], []).append(facts)
    assert len(typed.truth["type"]) >= 6
    for row in typed.truth["type"]:
        (facts,) = by_name[row.name]
        assert facts["size"] == int(row.rest[0]), row
    assert len(typed.truth["field"]) >= 15
    for row in typed.truth["field"]:
        (facts,) = by_name[row.name]
        field, offset, size = row.rest
        (found,) = [each for each in facts["fields"] if each["name"] == field.partition("[")[0]]
        member = answers["facts"][str(found["type"])]
        assert found["offset"] == int(offset), row
        assert member["size"] == int(size) or (member["form"] == "array" and member["length"] is None), row


@KINDS
def test_what_has_no_place_is_left_out(typed: Typed, kind: str) -> None:
    answers = typed.answers[kind]
    facts = {each["name"]: each for each in answers["facts"].values()}
    node, mixed, side = facts["node"], facts["Mixed"], facts["Side"]
    assert [each["name"] for each in node["fields"]][:3] == ["kind", "", "links"]
    assert [each["name"] for each in mixed["fields"]] == ["Shape", "after", ""]
    assert [each["is_base"] for each in mixed["fields"]] == [True, False, False]
    # a virtual base has no fixed place
    assert [each["name"] for each in side["fields"] if not each["name"].startswith("_vptr")] == ["side"]
    assert mixed["polymorphic"]
    assert side["polymorphic"]
    assert not node["polymorphic"]
    (tail,) = [each for each in node["fields"] if each["name"] == "tail"]
    assert answers["facts"][str(tail["type"])]["length"] is None
    (pair,) = [each for each in node["fields"] if each["name"] == "pair"]
    assert text_of(answers, pair["type"]) == "node*[3][2]"
    # as the ABI has them: side by side, from the bit of least weight on
    flag, rest = node["bits"]
    assert (flag["name"], flag["size"], rest["name"], rest["size"]) == ("flag", 3, "rest", 13)
    assert rest["offset"] == flag["offset"] + 3
    assert not flag["offset"] % 8
    kinds = answers["facts"][str(node["fields"][0]["type"])]
    assert (kinds["form"], kinds["enumerators"], kinds["signed"]) == ("enum", {"FIRST": -2, "SECOND": 40}, True)


@KINDS
def test_template_arguments(typed: Typed, kind: str) -> None:
    answers = typed.answers[kind]
    ring = answers["facts"][str(answers["by_name"]["Ring<Mixed, 3>"])]
    of, count = ring["arguments"]
    assert (of["type"], count["value"]) == (answers["by_name"]["Mixed"], 3)


@KINDS
def test_names_that_lead_to_one_type(typed: Typed, kind: str) -> None:
    """Two modules have a `twice` each."""
    answers = typed.answers[kind]
    assert answers["by_name"]["twice"] is None
    assert answers["by_name"]["nothing"] is None
    two = {each["type"] for each in answers["variables"].values() if text_of(answers, each["type"]) == "twice*"}
    sizes = {answers["facts"][str(answers["facts"][str(each)]["target"])]["size"] for each in two}
    assert sizes == {16, 56}
    for name in ("Mixed", "Side", "hidden", "node", "Colour"):
        assert answers["facts"][str(answers["by_name"][name])]["name"] == name
    # complete in the library alone, wherever it is reached from
    assert len([each for each in answers["facts"].values() if each["name"] == "hidden"]) == 1


@KINDS
def test_thread_locals(typed: Typed, kind: str) -> None:
    """Of each thread's own variables, which module has them and where they lie in its block."""
    answers = typed.answers[kind]
    found = {(each["name"], text_of(answers, each["type"])) for each in answers["thread_locals"]}
    expected = {(each.name, each.rest[2]) for each in typed.truth["thread"]}
    assert expected
    assert expected <= found


@OF_PROCESSES
@KINDS
def test_locals(typed: Typed, kind: str) -> None:
    answers = typed.answers[kind]
    found = {
        (
            each["name"],
            each["address"],
            each["tid"],
            text_of(answers, each["type"]),
            re.sub(r"\(.*", "", each["function"]),
        )
        for each in answers["locals"]
    }
    expected = {
        (each.name, each.address, int(each.rest[1]), each.rest[2], each.rest[3]) for each in typed.truth["local"]
    }
    assert len(expected) == 4
    assert expected <= found
    arguments = [each for each in answers["locals"] if each["name"] == "argument"]
    assert {text_of(answers, each["type"]) for each in arguments} == {"Mixed*"}


@OF_PROCESSES
@KINDS
def test_references(typed: Typed, kind: str) -> None:
    answers = typed.answers[kind]
    found = {(each["name"], each["tid"]): each for each in answers["locals"] if each["name"] == "referred"}
    assert len(typed.truth["reference"]) == 2
    for row in typed.truth["reference"]:
        local = found.get((row.name, int(row.rest[1])))
        # an optimising compiler has none
        assert local is not None or typed.build.inlines
        if local is not None:
            assert text_of(answers, local["type"]) == row.rest[2]
            assert local["address"] != row.address
            assert local["data"] in (None, row.address.to_bytes(8, "little").hex())
            assert typed.build.inlines or (local["data"] is None) != (local["address"] is None)


@KINDS
def test_modules_without_debug_information(typed: Typed, kind: str) -> None:
    names = {Path(each).name.partition(".so")[0] for each in typed.answers[kind]["without"]}
    assert not names & {"program", "liblibrary"}
    assert "libstdc++" in names


# of one build: to list all takes long
@pytest.mark.parametrize("typed", BUILDS[:1], ids=lambda build: build.name, indirect=True)
def test_all_structs(typed: Typed) -> None:
    structs = typed.answers["core"]["structs"]
    assert len(structs) == len({tuple(each) for each in structs})
    # a bag is a struct without a name, which only a typedef has
    expected = {(row.name, int(row.rest[0])) for row in typed.truth["type"] if row.name != "bag"}
    assert expected <= {(name, size) for name, size in structs}
    assert sorted(size for name, size in structs if name == "twice") == [16, 56]


def test_a_file_of_another_build(door: Door, tmp_path: Path) -> None:
    """What it says of variables and types is said of another library than the one in memory."""
    files = build_replaced(tmp_path)
    core = Core(files.core(tmp_path), files.program)
    said = subprocess.run(["nm", "-D", files.right], capture_output=True, text=True, check=True).stdout
    place = next(int(line.split()[0], 16) for line in said.splitlines() if line.endswith(" right_owner"))
    regions = CoreImage(str(core.path)).regions()
    address = place + next(each.start for each in regions if each.path == str(files.library))
    names = ("RightLink", "WrongLink")
    files.put(files.wrong)
    wrong = ask(door, core, [address], tmp_path, names=names)
    assert wrong["variables"] == {}
    assert wrong["by_name"] == {"RightLink": None, "WrongLink": None}
    assert "rong" not in json.dumps({each: wrong[each] for each in ("facts", "locals", "thread_locals")})
    assert str(files.library) in wrong["without"]
    files.put(files.right)
    right = ask(door, core, [address], tmp_path, names=names)
    assert [each["name"] for each in right["variables"].values()] == ["right_owner"]
    assert right["by_name"]["RightLink"] is not None
    assert str(files.library) not in right["without"]


MAPPED_TWICE = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
void *kept;
int main(int argc, char **argv) {
    int file = open("LIBRARY", O_RDONLY), rights = PROT_READ | PROT_EXEC;
    char *room = mmap(0, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int at = 0; at < 2; at++)
        mmap(room + (at << 19), 1 << 16, rights, MAP_PRIVATE | MAP_FIXED, file, 0);
    kept = malloc(100);
    printf("ready %d\\n", (int)getpid());
    fflush(stdout);
    return getchar() == EOF;
}
"""


def test_a_module_that_is_mapped_twice_is_named_once(door: Door, tmp_path: Path) -> None:
    library = tmp_path / "library.so"
    (tmp_path / "library.c").write_text("int twice(void) { return 2; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "library.c"], check=True)
    (tmp_path / "main.c").write_text(MAPPED_TWICE.replace("LIBRARY", str(library)))
    subprocess.run(["gcc", "-g", "-o", tmp_path / "main", tmp_path / "main.c"], check=True)
    with Subject(str(tmp_path / "main")) as subject:
        without = ask(door, Live(subject.pid, subject.program), [], tmp_path)["without"]
    assert without.count(str(library)) == 1
    assert len(without) == len(set(without))
