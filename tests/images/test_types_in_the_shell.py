"""Types in the shell, from debug information: whatever is wrong with it costs the names alone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator, Optional

import pytest
from shell_door import ask
from subjects import Subject
from waiting import state

import arenascope
from arenascope.base import process_limits
from arenascope.base.heap_model import OTHER_FILES
from arenascope.base.optional_libraries import find_program
from arenascope.cli.shell import How, ShellDoor
from arenascope.sources import types_by_engine
from arenascope.sources.live.live_target import ProcessTarget
from arenascope.sources.shell_target import ShellTarget
from arenascope.sources.target import Target
from arenascope.sources.type_source import StartVariable, TypeFacts
from arenascope.sources.types_by_engine import TypesByEngine

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


@pytest.fixture
def subject(tmp_path: Path) -> Iterator[Subject]:
    (tmp_path / "main.c").write_text(SOURCE)
    program = tmp_path / "main"
    subprocess.run(["gcc", "-g", "-O0", "-o", program, tmp_path / "main.c"], check=True)
    with Subject(str(program)) as subject:
        yield subject


TARGETS: list[Target] = []
"""What is asked has to be there."""


def types_of(subject: Subject, **how: Optional[bool]) -> TypesByEngine:
    TARGETS[:] = [ShellDoor(str(subject.pid), How("none", **{"declared": True, **how})).target()]
    types = TARGETS[0].types
    assert isinstance(types, TypesByEngine)
    return types


def locals_of_main(types: TypesByEngine) -> dict[str, tuple[StartVariable, TypeFacts]]:
    return {each.name: (each, types.facts(each.type)) for each in types.locals() if each.function == "main()"}


def test_debug_information_that_nobody_asked_for(subject: Subject) -> None:
    target = ShellDoor(str(subject.pid), How("none", declared=True)).target()
    assert isinstance(target, ShellTarget)
    types = TypesByEngine(target, (), most=1000)
    assert types.unread
    assert not types.named("thing")
    assert types_of(subject, declared=True).named("thing")
    assert ShellDoor(str(subject.pid), How("none", declared=False)).target().types is None
    assert ShellDoor(str(subject.pid), How("none", symbols=False)).target().types is None


def test_what_is_missing_is_told(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where types are not read, and where there are none."""
    monkeypatch.setattr(types_by_engine, "DEFAULT_BYTES", 1000)
    pid = Path(str(subject.pid))
    (note,) = notes(pid)
    assert note["id"] == "debug-information-not-read"
    assert note["figures"]["bytes"] == types_of(subject, declared=None).unread > 1000
    assert notes(pid, "--declared") == notes(pid, "--no-declared") == []
    with Subject("kinds.stripped") as stripped:
        (note,) = notes(Path(str(stripped.pid)), "--declared")
        version = ask(stripped.kernel_core(), "version")
    assert note["id"] == "no-declared-types"
    assert "kinds.stripped" in note["names"]["files"]
    assert str(stripped.program) in version["without_debug_information"]


def test_a_program_that_is_not_here_is_what_is_missing(subject: Subject, tmp_path: Path) -> None:
    """It may well have been built with -g."""
    core = tmp_path / "core"
    shutil.move(subject.kernel_core(), core)
    wrong = tmp_path / "root" / subject.program.relative_to("/")
    wrong.parent.mkdir(parents=True)
    wrong.write_bytes(Path(sys.executable).read_bytes())
    for command in ("types --json", "containers --json", "version --json"):
        found = ask(core, command, "--declared", "--sysroot", tmp_path / "root")
        (problem,) = [each for each in found["problem_records"] if each["id"] == OTHER_FILES]
        assert problem["names"]["unlike"] == str(wrong), command
        told = [each for each in found.get("notes", []) if each["id"] in ("no-declared-types", "no-containers")]
        assert not any(each["figures"]["files"] for each in told), command


def notes(image: Path, *options: str) -> list[dict[str, Any]]:
    return list(ask(image, "types", *options)["notes"])


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
            assert copy.types.named("thing")


def test_nothing_is_kept_of_one_look_for_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two programs of one build-id: the second is named by its own debug information."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    for name in ("stolen", "honest"):
        source, program = tmp_path / f"{name}.c", tmp_path / name
        source.write_text(SOURCE.replace("struct thing", f"struct {name}"))
        build_id = "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567"
        subprocess.run(["gcc", "-g", "-O0", build_id, "-o", program, source], check=True)
        with Subject(str(program)) as subject:
            rows = ask(subject.pid, "types --declared")["types"]
        assert {row["type"] for row in rows} & {"stolen", "honest"} == {name}
    assert not folder.exists()


def test_a_program_that_others_may_have_put_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "zstd"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    assert find_program("zstd") == str(program)
    folder.chmod(0o777)
    assert find_program("zstd") is None
    folder.chmod(0o755)
    program.chmod(0o757)
    assert find_program("zstd") is None
    program.chmod(0o755)
    # a link is as good as what it leads to, and the way there
    links = tmp_path / "links"
    links.mkdir()
    (links / "zstd").symlink_to(program)
    monkeypatch.setenv("PATH", str(links))
    assert find_program("zstd") == str(links / "zstd")
    folder.chmod(0o777)
    assert find_program("zstd") is None
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f":.:{links / 'none'}")
    assert find_program("zstd") is None


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
    assert isinstance(types, TypesByEngine)
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
    return {row["type"] for row in ask(image, "types --declared", *options)["types"]}


def test_a_fifo_in_place_of_an_alternative_file(subject: Subject, tmp_path: Path) -> None:
    """Nobody waits for who writes to it."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").write_bytes(bytes(tmp_path / "fifo") + b"\0" + bytes(20))
    linked = tmp_path / "linked"
    add = ["objcopy", "--add-section", f".gnu_debugaltlink={tmp_path / 'link'}", subject.program, linked]
    subprocess.run(add, check=True)
    with Subject(str(linked)) as other:
        began = time.monotonic()
        assert "thing" in type_names(Path(str(other.pid)))
    assert time.monotonic() - began < 100


def is_there(pid: int) -> bool:
    """And no zombie, where nobody waits for it."""
    return state(pid) not in ("", "X", "Z")


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
        try:
            children = [int(process.stdout.readline()) for _ in range(2)]
        finally:
            process.kill()
        process.wait()
        until = time.monotonic() + 100
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
