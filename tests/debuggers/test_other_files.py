"""A debugger that has loaded another file than the process runs on: no owner, type or variable is named by it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional

import pytest
from doors import DOORS, NEWEST, Core, Image, Live
from lldb_door import EVERY_LLDB
from looks import completed, opened
from platforms import ELSEWHERE, HOST
from subjects import Subject

from arenascope.sources.core.core_image import CoreImage

WITHOUT_RTTI = """
#include <cstdlib>
#include <cstring>
struct RightLink { virtual ~RightLink(); long id; char *right_text; };
RightLink::~RightLink() {}
extern "C" { char *right_owner; RightLink *right_links[100]; __thread char *right_thread; }
static char *right_static[4000] __attribute__((used));
static char *full(size_t size) { return (char *)memset(malloc(size), 1, size); }
extern "C" void fill() {
    right_owner = full(72 << 10);
    right_static[3900] = full(9000);
    right_thread = full(7000);
    for (auto &each : right_links) {
        each = new RightLink;
        each->right_text = full(300);
    }
}
"""
WITH_RTTI = """
#include <cstdlib>
struct Kept { virtual ~Kept(); long id; char *right_member; };
Kept::~Kept() {}
Kept *kept_objects[50];
extern "C" void keep() {
    for (auto &each : kept_objects) {
        each = new Kept;
        each->right_member = (char *)malloc(500);
        each->right_member[0] = 1;
    }
}
"""
PROGRAM = """
#include <stdio.h>
#include <unistd.h>
void fill(void);
void keep(void);
int main(void) {
    fill();
    keep();
    printf("ready %d\\n", (int)getpid());
    fflush(stdout);
    return getchar() == EOF;
}
"""
NAMES = ("right_owner", "right_links", "right_static", "right_thread", "RightLink", "right_member")
OTHER_FILES = "other-files"


class Replaced(NamedTuple):
    """The program, its library as it is loaded, and the two that may lie there."""

    program: Path
    library: Path
    right: Path
    wrong: Path

    def put(self, file: Path) -> None:
        """A new file under the name; who has the old one mapped keeps that."""
        beside = self.library.with_suffix(".new")
        shutil.copy(file, beside)
        os.replace(beside, self.library)

    def core(self, folder: Path, coredump_filter: int = 0x33) -> Path:
        """Of the program with the right library."""
        self.put(self.right)
        with Subject(str(self.program), coredump_filter=coredump_filter) as subject:
            return Path(shutil.move(subject.kernel_core(), folder / f"core.{coredump_filter:x}"))


def build(folder: Path) -> Replaced:
    loaded = folder / "app" / "libheld.so"
    for name in ("right", "wrong", "app"):
        place = folder / name
        place.mkdir()
        for source, text in (("link.cc", WITHOUT_RTTI), ("kept.cc", WITH_RTTI)):
            text = text.replace("right", "wrong").replace("Right", "Wrong") if name == "wrong" else text
            (place / source).write_text(text)
        flags = ["-O1", "-g", "-fPIC", "-w"]
        completed("g++", *flags, "-fno-rtti", "-c", "-o", place / "link.o", place / "link.cc")
        completed("g++", *flags, "-c", "-o", place / "kept.o", place / "kept.cc")
        completed("g++", "-shared", "-Wl,--build-id", "-o", place / loaded.name, place / "link.o", place / "kept.o")
    (folder / "main.c").write_text(PROGRAM)
    program = loaded.with_name("main")
    completed("gcc", "-O1", "-g", "-o", program, folder / "main.c", loaded, f"-Wl,-rpath,{loaded.parent}")
    return Replaced(program, loaded, folder / "right" / loaded.name, folder / "wrong" / loaded.name)


def with_another_build_id(file: Path, copy: Path) -> Path:
    """The same but for that."""
    shown = subprocess.run(["readelf", "-n", str(file)], capture_output=True, text=True, check=True).stdout
    own = bytes.fromhex(shown.partition("Build ID: ")[2].split()[0])
    data = file.read_bytes()
    assert data.count(own) == 1
    copy.write_bytes(data.replace(own, own[::-1]))
    return copy


pytestmark = pytest.mark.xdist_group("other_files")
OLDER = [pytest.param(door.name, marks=pytest.mark.full) for door in EVERY_LLDB if door.name not in NEWEST]
EVERY_DOOR = [*NEWEST, *OLDER]
DEBUGGERS = [each for each in EVERY_DOOR if each != "shell"]
OPEN = {**DOORS, **{door.name: door for door in EVERY_LLDB}}
LOOKS = ("owners --json --limit 0", "types --json --limit 0", "types --quick --json --limit 0", "arenas --json")
ALL_OF_FILES = 0x3F


class Cores(NamedTuple):
    files: Replaced
    usual: Core
    full: Core
    """With what the files have that nobody wrote to: classes are named by it."""


@pytest.fixture(scope="module")
def cores(tmp_path_factory: pytest.TempPathFactory) -> Cores:
    folder = tmp_path_factory.mktemp("replaced")
    files = build(folder)
    usual, full = (Core(files.core(folder, each), files.program) for each in (0x33, ALL_OF_FILES))
    return Cores(files, usual, full)


def strange(document: Mapping[str, Any]) -> list[tuple[int, str]]:
    """What it says of files."""
    said = [each for each in document["problem_records"] if each["id"] == OTHER_FILES]
    return [(each["figures"]["modules"], each["names"]["named"]) for each in said]


def looked(name: str, image: Image) -> dict[str, dict[str, Any]]:
    outcomes = opened(OPEN[name]).run(image, LOOKS)
    return {each.command.removeprefix("heap "): each.json() for each in outcomes}


@pytest.mark.full
@pytest.mark.parametrize("name", EVERY_DOOR)
def test_names_of_another_file_in_a_core(name: str, cores: Cores) -> None:
    cores.files.put(cores.files.right)
    right = looked(name, cores.usual)
    cores.files.put(cores.files.wrong)
    found = looked(name, cores.usual)
    for command, document in right.items():
        assert strange(document) == [], command
    whole = json.dumps(right)
    assert all(each in whole for each in NAMES if each not in ("right_static", "right_member")), whole
    assert "rong" not in json.dumps(found)
    for command, document in found.items():
        # figures need no names
        assert strange(document) == ([] if command.startswith("arenas") else [(1, "libheld.so")]), command
    assert found["arenas --json"]["totals"] == right["arenas --json"]["totals"]
    owners = "owners --json --limit 0"
    assert found[owners]["live_bytes"] == right[owners]["live_bytes"]


@pytest.mark.full
@pytest.mark.parametrize("name", EVERY_DOOR)
def test_members_by_debug_information_of_another_file(name: str, cores: Cores) -> None:
    """The class's name is in memory, and the same in both files."""
    cores.files.put(cores.files.right)
    types = looked(name, cores.full)["types --json --limit 0"]["types"]
    # by the class's own words, or by its declared member
    (body,) = [each["samples"][0] for each in types if re.search(r"^Kept\+| of Kept\.", each["type"])]
    ask = f"refs {body} --json"
    told = {}
    for file in (cores.files.right, cores.files.wrong):
        cores.files.put(file)
        (outcome,) = opened(OPEN[name]).run(cores.full, [ask])
        told[file] = outcome.text
        assert "Kept" in outcome.text
    assert "right_member" in told[cores.files.right]
    assert "rong" not in told[cores.files.wrong]


@pytest.mark.parametrize("name", EVERY_DOOR)
def test_names_of_another_file_in_a_process(name: str, cores: Cores) -> None:
    """The kernel leads to the file that is mapped: its table of symbols names what it can."""
    cores.files.put(cores.files.right)
    with Subject(str(cores.files.program)) as subject:
        cores.files.put(cores.files.wrong)
        found = looked(name, Live(subject.pid, subject.program))
    assert "rong" not in json.dumps(found)
    if os.geteuid() == 0:
        assert "right_owner" in json.dumps(found)
        # of a debugger's file there are the types besides
        said = [] if name == "shell" else [(1, "libheld.so")]
        assert strange(found["owners --json --limit 0"]) == said


def mapped(pid: object, name: str) -> Path:
    found = re.search(rf"/\S*{name}$", Path(f"/proc/{pid}/maps").read_text(), re.MULTILINE)
    assert found is not None
    return Path(found[0])


def libc_in(pid: object) -> Path:
    return mapped(pid, r"/libc(\.so\.6|-2\.\d+\.so)")


@pytest.mark.parametrize("name", DEBUGGERS)
def test_the_command_that_helps(name: str, cores: Cores, tmp_path: Path) -> None:
    """All files lie below a folder by their own names."""
    files, core = cores.files, cores.usual
    files.put(files.wrong)
    with CoreImage(str(core.path)) as image:
        paths = {region.path for region in image.regions() if region.is_file}
    for path in map(Path, paths):
        place = tmp_path / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            shutil.copy(files.right if path == files.library else path, place)
    # libraries are sought by the names that the linker has for them
    for each in ("lib", "lib64"):
        if Path("/", each).is_symlink() and not (tmp_path / each).exists():
            (tmp_path / each).symlink_to(os.readlink(f"/{each}"))
    program = tmp_path / files.program.relative_to("/")
    gdb = ["-iex", f"set sysroot {tmp_path}", str(program), str(core.path)]
    lldb = ["-O", f"platform select --sysroot {tmp_path} remote-linux", "-c", str(core.path), str(program)]
    door = opened(OPEN[name])
    (outcome,) = door.drive(gdb if name == "gdb" else lldb, [{"do": "heap owners --json --limit 0"}])
    assert "right_owner" in outcome.text
    assert strange(outcome.json()) == []


class OwnLibc(NamedTuple):
    program: Path
    libc: Path
    other: Path


@pytest.fixture(scope="module")
def own_libc(tmp_path_factory: pytest.TempPathFactory) -> OwnLibc:
    """A program that runs on copies of this machine's libc and loader."""
    folder = tmp_path_factory.mktemp("own_libc")
    libc, loader = libc_in("self"), mapped("self", r"/ld-linux[^/]*")
    for each in (libc, loader):
        shutil.copy(each, folder / each.name)
    other = with_another_build_id(libc, folder / "another")
    (folder / "main.c").write_text(
        """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    for (int i = 0; i < 1000; i++) if (!malloc(1000)) return 1;
    printf("ready %d\\n", (int)getpid());
    fflush(stdout);
    return getchar() == EOF;
}"""
    )
    linked = [f"-Wl,--dynamic-linker={folder / loader.name}", f"-Wl,-rpath,{folder}"]
    completed("gcc", "-O1", "-g", "-w", "-o", folder / "main", folder / "main.c", *linked)
    return OwnLibc(folder / "main", folder / libc.name, other)


@pytest.mark.full
@pytest.mark.parametrize("name", DEBUGGERS)
def test_another_libc(name: str, own_libc: OwnLibc) -> None:
    """Memory says where its heap is, and the list of candidates why no symbol did; no call is made on its word."""
    ask = ["version --full --json", "arenas --json", "types --json", "trim --apply -y"]
    seen: dict[bool, list[Any]] = {}
    original = own_libc.libc.read_bytes()
    try:
        with Subject(str(own_libc.program)) as subject:
            image = Live(subject.pid, subject.program)
            for replaced in (False, True):
                if replaced:
                    os.replace(shutil.copy(own_libc.other, own_libc.libc.with_suffix(".new")), own_libc.libc)
                seen[replaced] = opened(OPEN[name]).run(image, ask if replaced else ask[:2])
    finally:
        # for the next debugger, where this one cannot call, too
        own_libc.libc.unlink()
        own_libc.libc.write_bytes(original)
    version, arenas, types, trim = seen[True]
    known, before = (each.json() for each in seen[False])
    if name == "lldb-22":
        assert version.json()["glibc"]["located_by"] == "scan"
    else:
        against = {
            said["id"] for each in version.json()["candidates"]["main_arena"] for said in each["against_records"]
        }
        assert "another-build-id" in against
        assert strange(types.json()) == [(1, "libc.so.6")]
        assert trim.error is not None
    assert version.json()["glibc"]["main_arena"] == known["glibc"]["main_arena"]
    assert arenas.json()["totals"] == before["totals"]


@pytest.mark.full
@pytest.mark.parametrize("name", DEBUGGERS)
def test_the_libc_of_another_release(name: str) -> None:
    """As where a debugger of the host looks into a chroot: this host's own libc lies where the process has another."""
    other = next(each for each in ELSEWHERE if each.machine == HOST.machine and each.release != HOST.release)
    with Subject("owners", platform=other) as subject:
        hide = {libc_in(subject.pid): libc_in("self")}
        core = Core(subject.kernel_core(), subject.program)
        right, found = (answers(name, core, each) for each in (None, hide))
    assert strange(right["owners --json --limit 0"]) == []
    named = strange(found["owners --json --limit 0"])
    assert [modules for modules, _ in named] == [1]
    assert "libc" in named[0][1]
    assert found["arenas --json"]["totals"] == right["arenas --json"]["totals"]
    assert found["arenas --json"]["glibc"]["main_arena"] == right["arenas --json"]["glibc"]["main_arena"]


def answers(name: str, core: Core, hide: Optional[Mapping[Path, Path]]) -> dict[str, dict[str, Any]]:
    """Of a debugger that sees other files in the place of these."""
    door = opened(OPEN[name])
    steps = [{"do": f"heap {command}"} for command in LOOKS]
    outcomes = door.drive(door.look_at(core), steps, **({"hide": hide} if hide else {}))
    return {each.command.removeprefix("heap "): each.json() for each in outcomes}
