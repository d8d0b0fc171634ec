"""The GDB that the shell asks for types: whatever it meets costs the names alone, and it runs nothing of the files'."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Iterator, Optional

import pytest
from looks import give_up
from partial import look
from subjects import Subject

import arenascope
from arenascope.base import process_limits
from arenascope.base.model import OTHER_FILES
from arenascope.base.optional_libraries import find_program
from arenascope.cli.shell import How, ShellDoor
from arenascope.sources import gdb_child, types_by_gdb
from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.debug_info_types import Local, TypeFacts
from arenascope.sources.elf.elf_file import NT_AUXV, NT_FILE
from arenascope.sources.gdb_child import GdbChild
from arenascope.sources.live.live_target import ProcessTarget
from arenascope.sources.shell_target import ShellTarget
from arenascope.sources.target import Target
from arenascope.sources.types_by_gdb import NOTHING, TypesByGdb, write_stacks

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct thing { long number; struct thing *next; char text[40]; };
struct thing *first;
int main(void) {
    struct thing *volatile own = first = calloc(1, sizeof *first);
    volatile int length = 5;
    volatile long row[length];
    row[0] = own->number;
    printf("ready %d\\n", (int)getpid());
    fflush(stdout);
    return getchar() == EOF && row[0] == 0;
}
"""
SCRIPT = """
asm(".pushsection \\".debug_gdb_scripts\\", \\"MS\\",%%progbits,1\\n"
    ".byte 4\\n.ascii \\"inlined\\\\nimport os; os.mkdir('%s')\\\\n\\"\\n.byte 0\\n.popsection\\n");
"""


@pytest.fixture
def subject(tmp_path: Path) -> Iterator[Subject]:
    if shutil.which("gdb") is None:
        give_up("gdb is not installed")
    (tmp_path / "main.c").write_text(SOURCE + SCRIPT % (tmp_path / "script-was-run"))
    # what a GDB with auto-load would run, by its name
    (tmp_path / "main-gdb.py").write_text(f"import os; os.mkdir({str(tmp_path / 'python-was-run')!r})")
    program = tmp_path / "main"
    subprocess.run(["gcc", "-g", "-O0", "-o", program, tmp_path / "main.c"], check=True)
    with Subject(str(program)) as subject:
        yield subject


TARGETS: list[Target] = []
"""What is asked has to be there."""


def types_of(subject: Subject, **how: Optional[bool]) -> TypesByGdb:
    TARGETS[:] = [ShellDoor(str(subject.pid), How("none", **{"declared": True, **how})).target()]
    types = TARGETS[0].types
    assert isinstance(types, TypesByGdb)
    return types


def first_of(subject: Subject) -> int:
    """Where the kernel has put it, by nm."""
    said = subprocess.run(["nm", subject.program], capture_output=True, text=True, check=True).stdout
    place = next(int(line.split()[0], 16) for line in said.splitlines() if line.endswith(" first"))
    maps = Path(f"/proc/{subject.pid}/maps").read_text().splitlines()
    return place + next(int(line.partition("-")[0], 16) for line in maps if line.endswith("/main"))


def test_the_child_gdb_answers_and_runs_nothing(subject: Subject, tmp_path: Path) -> None:
    types = types_of(subject)
    address = first_of(subject)
    (variable,) = types.variables([address]).values()
    target = types.facts(variable.type).target
    assert target is not None
    facts = types.facts(target)
    assert (variable.name, variable.address, facts.name, facts.size) == ("first", address, "thing", 56)
    assert types.facts(types.pointer_to(target)).target == target
    assert not [*tmp_path.glob("*-was-run")]
    # what it must not do, a GDB that trusts the files does
    trusting = ["gdb", "-nx", "-q", "-batch", "-iex", "set auto-load safe-path /", "-ex", "list", str(subject.program)]
    subprocess.run(trusting, capture_output=True, check=True)
    assert len([*tmp_path.glob("*-was-run")]) == 2


def test_its_death_costs_the_names_alone(subject: Subject) -> None:
    types = types_of(subject)
    number = types.by_name("thing")
    assert number is not None
    assert types._gdb is not None
    types._gdb._process.kill()
    types._gdb._process.wait()
    assert types.variables([first_of(subject)]) == {}
    assert types.facts(number) == NOTHING
    assert types.by_name("other") is None
    assert types.facts(types.pointer_to(number)) == NOTHING
    assert [*types.structs()] == []


def test_ctrl_c_ends_it(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its answer would be taken for that of the next question."""
    types = types_of(subject)
    assert types.by_name("thing") is not None
    child = types._gdb
    assert child is not None

    def interrupted() -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(child, "_line", interrupted)
    with pytest.raises(KeyboardInterrupt):
        types.by_name("other")
    assert child._process.poll() is not None


def of_core(core: Path) -> TypesByGdb:
    TARGETS[:] = [ShellDoor(str(core), How("none", declared=True)).target()]
    types = TARGETS[0].types
    assert isinstance(types, TypesByGdb)
    return types


def locals_of_main(types: TypesByGdb) -> dict[str, tuple[Local, TypeFacts]]:
    return {each.name: (each, types.facts(each.type)) for each in types.locals() if each.function == "main()"}


def test_locals_of_frames(subject: Subject) -> None:
    """Where they are, and of which type: also of an array that is as long as a variable tells."""
    place = first_of(subject)
    core = subject.kernel_core()
    types = of_core(core)
    found = locals_of_main(types)
    own, pointer = found["own"]
    assert pointer.target is not None
    assert types.facts(pointer.target).name == "thing"
    assert own.address is not None
    image = CoreImage(str(core))
    (variable,) = types.variables([place]).values()
    assert image.read(own.address, 8) == image.read(variable.address, 8) != bytes(8)
    assert (own.tid, own.frame > 0) == (subject.pid, True)
    array = found["row"][1]
    assert array.target is not None
    assert (array.form, array.length, array.size, types.facts(array.target).name) == ("array", 5, 40, "long")


def test_what_ends_it_at_frames_costs_locals_alone(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    place = first_of(subject)
    types = of_core(subject.kernel_core())
    number = types.by_name("thing")
    (variable,) = types.variables([place + 4]).values()
    ask = GdbChild.ask

    def ends(child: GdbChild, kind: str, about: object) -> object:
        if kind == "frames":
            child._process.kill()
        return ask(child, kind, about)

    monkeypatch.setattr(GdbChild, "ask", ends)
    assert types.locals() == []
    assert number is not None
    # a second one gives the same numbers
    assert types.pointer_to(number) == variable.type
    assert types.facts(types.pointer_to(variable.type)).target == variable.type


def test_the_child_gdb_opens_nothing_that_a_core_names(subject: Subject, tmp_path: Path) -> None:
    """Of a core it has stacks and registers, and no more."""
    core = CoreImage(str(subject.kernel_core()))
    with (tmp_path / "stacks").open("wb") as file:
        assert write_stacks(file.fileno(), core, 200)
    small = CoreImage(str(tmp_path / "stacks"))
    assert [each._replace(name=None) for each in core.threads()] == [*small.threads()]
    assert {each.type for each in small.all_notes()}.isdisjoint({NT_FILE, NT_AUXV})
    (pointer,) = [each.stack_pointer for each in core.threads()]
    (region,) = small.regions()
    assert pointer is not None
    (stack,) = [each for each in core.regions() if each.start <= pointer < each.end]
    assert region.start <= pointer - 128 < region.end == stack.end
    assert small.read(region.start, region.size) == core.read(region.start, region.size)


def test_no_more_is_copied_than_is_allowed(subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types_by_gdb, "MOST_OF_ONE", 4096)
    core = CoreImage(str(subject.kernel_core()))
    with (tmp_path / "stacks").open("wb") as file:
        assert write_stacks(file.fileno(), core, 200)
        assert not write_stacks(file.fileno(), core, 0)
    assert [each.size for each in CoreImage(str(tmp_path / "stacks")).regions()] == [4096]


def debuggers() -> set[int]:
    """Children of this process."""
    found = set()
    for each in Path("/proc/self/task").glob("*/children"):
        for pid in each.read_text().split():
            # others' may have ended
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/exe").endswith("gdb"):
                    found.add(int(pid))
    return found


def test_the_child_gdb_ends_with_the_look(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that uses the API goes on; nothing waits until garbage is collected."""
    started = []
    monkeypatch.setattr(TypesByGdb, "_start", lambda self, start=TypesByGdb._start: started.append(1) or start(self))
    before = debuggers()
    gc.disable()
    try:
        rows = arenascope.open(subject.pid, declared=True).types()["types"]
    finally:
        gc.enable()
    assert started
    assert "thing" in {row["type"] for row in rows}
    assert debuggers() == before


def test_damaged_debug_information(subject: Subject, tmp_path: Path) -> None:
    """The same build-id, and DWARF of noise: GDB refuses it or dies."""
    address = first_of(subject)
    kernels = subject.kernel_core()
    core = tmp_path / "core"
    shutil.move(kernels, core)
    data = bytearray(subject.program.read_bytes())
    said = subprocess.run(["readelf", "-SW", subject.program], capture_output=True, text=True, check=True).stdout
    for name in (".debug_info", ".debug_abbrev"):
        row = next(line for line in said.splitlines() if f" {name} " in line).partition("]")[2].split()
        offset, size = int(row[3], 16), int(row[4], 16)
        data[offset + 12 : offset + size] = bytes(7 * index & 0xFF for index in range(size - 12))
    subject.end()
    beside = tmp_path / "damaged"
    beside.write_bytes(data)
    os.replace(beside, subject.program)
    target = ShellDoor(str(core), How("none", declared=True)).target()
    assert target.types is not None
    assert target.types.variables([address]) == {}


def test_debug_information_that_nobody_asked_for(subject: Subject) -> None:
    target = ShellDoor(str(subject.pid), How("none", declared=True)).target()
    types = TypesByGdb(target, most=1000)
    assert types.unread
    assert types.by_name("thing") is None
    assert types_of(subject, declared=True).by_name("thing") is not None
    assert ShellDoor(str(subject.pid), How("none", declared=False)).target().types is None
    assert ShellDoor(str(subject.pid), How("none", symbols=False)).target().types is None


def test_what_is_missing_is_told(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where types are not read, and where there are none."""
    monkeypatch.setattr(types_by_gdb, "DEFAULT_BYTES", 1000)
    pid = Path(str(subject.pid))
    (note,) = notes(pid)
    assert note["id"] == "debug-information-not-read"
    assert note["figures"]["bytes"] == types_of(subject, declared=None).unread > 1000
    assert notes(pid, "--declared") == notes(pid, "--no-declared") == []
    with Subject("kinds.stripped") as stripped:
        (note,) = notes(Path(str(stripped.pid)), "--declared")
        version = json.loads(look(stripped.kernel_core(), "version --json")[1])
    assert note["id"] == "no-declared-types"
    assert "kinds.stripped" in note["names"]["files"]
    assert str(stripped.program) in version["without_debug_information"]


def test_without_a_gdb_that_is_what_is_missing(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program has debug information, and nothing here reads it."""
    pid = Path(str(subject.pid))
    monkeypatch.setenv("PATH", "/nonexistent")
    (note,) = notes(pid, "--declared")
    assert (note["id"], note["names"]["why"]) == ("no-gdb", "not-found")
    assert [each["id"] for each in json.loads(look(pid, "containers --json", "--declared")[1])["notes"]] == ["no-gdb"]
    monkeypatch.setattr(gdb_child, "find_program", lambda name: "/bin/false")
    (note,) = notes(pid, "--declared")
    assert (note["id"], note["names"]["why"]) == ("no-gdb", "no-answer")


def test_a_program_that_is_not_here_is_what_is_missing(subject: Subject, tmp_path: Path) -> None:
    """It may well have been built with -g."""
    core = tmp_path / "core"
    shutil.move(subject.kernel_core(), core)
    wrong = tmp_path / "root" / subject.program.relative_to("/")
    wrong.parent.mkdir(parents=True)
    wrong.write_bytes(Path(sys.executable).read_bytes())
    for command in ("types --json", "containers --json", "version --json"):
        found = json.loads(look(core, command, "--declared", "--sysroot", str(tmp_path / "root"))[1])
        (problem,) = [each for each in found["problem_records"] if each["id"] == OTHER_FILES]
        assert problem["names"]["unlike"] == str(wrong), command
        told = [each for each in found.get("notes", []) if each["id"] in ("no-declared-types", "no-containers")]
        assert not any(each["figures"]["files"] for each in told), command


def notes(image: Path, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(look(image, "types --json", *options)[1])["notes"]
    return found


def test_no_process_is_held_for_it(subject: Subject) -> None:
    """Of its copy the types are told."""
    with ShellDoor(str(subject.pid), How(declared=True)) as door:
        target = door.target()
        assert isinstance(target, ProcessTarget)
        assert door.freeze is not None
        assert target.types is None
        door.release()
        with ShellTarget(target.image, *target.symbols_from) as copy:
            assert copy.types is not None
            assert copy.types.by_name("thing") is not None


def test_nothing_is_kept_of_one_look_for_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two programs of one build-id: the second is named by its own debug information."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    for name in ("stolen", "honest"):
        source, program = tmp_path / f"{name}.c", tmp_path / name
        source.write_text((SOURCE + SCRIPT % "").replace("struct thing", f"struct {name}"))
        build_id = "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567"
        subprocess.run(["gcc", "-g", "-O0", build_id, "-o", program, source], check=True)
        with Subject(str(program)) as subject:
            rows = json.loads(look(Path(str(subject.pid)), "types --json", "--declared")[1])["types"]
        assert {row["type"] for row in rows} & {"stolen", "honest"} == {name}
    assert not folder.exists()


def test_a_gdb_that_others_may_have_put_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "gdb"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    assert find_program("gdb") == str(program)
    folder.chmod(0o777)
    assert find_program("gdb") is None
    folder.chmod(0o755)
    program.chmod(0o757)
    assert find_program("gdb") is None
    program.chmod(0o755)
    # a link is as good as what it leads to, and the way there
    links = tmp_path / "links"
    links.mkdir()
    (links / "gdb").symlink_to(program)
    monkeypatch.setenv("PATH", str(links))
    assert find_program("gdb") == str(links / "gdb")
    folder.chmod(0o777)
    assert find_program("gdb") is None
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f":.:{links / 'none'}")
    assert find_program("gdb") is None


def in_a_sysroot(subject: Subject, tmp_path: Path) -> tuple[Path, Path]:
    """A core of it, and a folder that has its files: what its debug information names lies outside."""
    root = tmp_path / "root"
    lines = Path(f"/proc/{subject.pid}/maps").read_text().splitlines()
    for path in {Path(line.split()[5]) for line in lines if "/" in line}:
        inside = root / path.relative_to("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, inside)
    core = shutil.move(subject.kernel_core(), tmp_path / "core")
    subject.program.unlink()
    return Path(core), root


def test_below_a_sysroot_types_and_locals_are_told(subject: Subject, tmp_path: Path) -> None:
    core, root = in_a_sysroot(subject, tmp_path)
    TARGETS[:] = [ShellDoor(str(core), How("none", declared=True, sysroot=str(root))).target()]
    types = TARGETS[0].types
    assert isinstance(types, TypesByGdb)
    assert types.files.may_open is not None
    own, pointer = locals_of_main(types)["own"]
    assert own.address is not None
    assert pointer.target is not None
    assert types.facts(pointer.target).name == "thing"


@pytest.mark.parametrize("kind", ["4", "5"])
def test_split_files_of_this_host_are_not_believed_of_another(tmp_path: Path, kind: str) -> None:
    """DW_AT_GNU_dwo_name of DWARF 4, DW_AT_dwo_name of 5: a path of whoever made the file."""
    (tmp_path / "main.c").write_text(SOURCE)
    program = tmp_path / "main"
    subprocess.run(
        ["gcc", "-g", f"-gdwarf-{kind}", "-gsplit-dwarf", "-O0", "-o", program, tmp_path / "main.c"],
        check=True,
        cwd=tmp_path,
    )
    with Subject(str(program)) as subject:
        assert "thing" in type_names(Path(str(subject.pid)))
        os.chown(program, 12345, -1)
        assert "thing" not in type_names(Path(str(subject.pid)))
        core, root = in_a_sysroot(subject, tmp_path)
    assert "thing" not in type_names(core, "--sysroot", str(root))


def type_names(image: Path, *options: str) -> set[str]:
    return {row["type"] for row in json.loads(look(image, "types --json", "--declared", *options)[1])["types"]}


def test_a_fifo_in_place_of_an_alternative_file(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gdb_child, "STUCK_SECONDS", 1.0)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").write_bytes(bytes(tmp_path / "fifo") + b"\0" + bytes(20))
    linked = tmp_path / "linked"
    add = ["objcopy", "--add-section", f".gnu_debugaltlink={tmp_path / 'link'}", subject.program, linked]
    subprocess.run(add, check=True)
    with Subject(str(linked)) as other:
        began = time.monotonic()
        (note,) = notes(Path(str(other.pid)), "--declared")
        # its own file is waited for, another's is not opened
        os.chown(linked, 12345, -1)
        monkeypatch.setattr(gdb_child, "STUCK_SECONDS", 60.0)
        assert "thing" not in type_names(Path(str(other.pid)))
    assert (note["id"], note["names"]["why"]) == ("no-gdb", "no-answer")
    assert time.monotonic() - began < 30


KILLED = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(arenascope.__file__).parents[1])!r})
from arenascope import __main__
from arenascope.sources.gdb_child import GdbChild

def killed(self, *about, ask=GdbChild.ask):
    ask(self, *about)
    # one that is busy does not see the end of its standard input either
    os.kill(self._process.pid, signal.SIGSTOP)
    print(self._process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

GdbChild.ask = killed
__main__.run()
"""


def test_the_child_gdb_ends_with_a_look_that_is_killed(subject: Subject) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, "types", str(subject.pid)], stdout=subprocess.PIPE, text=True, check=False
    )
    child = int(done.stdout)
    until = time.monotonic() + 10
    try:
        while is_there(child) and time.monotonic() < until:
            time.sleep(0.05)
        assert not is_there(child)
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def is_there(pid: int) -> bool:
    """And no zombie, where nobody waits for it."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


MANY = f"""
import os, signal, sys, time
sys.path.insert(0, {str(Path(arenascope.__file__).parents[1])!r})
from arenascope import __main__
from arenascope.cli import several_subjects

def look(asked):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(600)

several_subjects.look = look
__main__.run()
"""


def test_looks_at_many_end_with_what_started_them(subject: Subject) -> None:
    with (
        Subject(str(subject.program)) as other,
        subprocess.Popen(
            [sys.executable, "-c", MANY, "arenas", str(subject.pid), str(other.pid)],
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            children = [int(process.stdout.readline()) for _ in range(2)]
        finally:
            process.kill()
        process.wait()
        until = time.monotonic() + 10
        while any(map(is_there, children)) and time.monotonic() < until:
            time.sleep(0.05)
        left = [each for each in children if is_there(each)]
        for each in left:
            os.kill(each, signal.SIGKILL)
    assert not left


def test_a_child_whose_parent_has_ended_before_it_said_so(tmp_path: Path) -> None:
    pid = os.fork()
    if not pid:
        process_limits.end_with_parent(lambda: True)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
