"""Cores that were cut or lack pages, through every door; and how the kernel itself cuts them."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping

import pytest
from doors import DOORS, GDB, NEWEST, Core, Door, Live, Outcome
from looks import give_up, opened
from marks import full_after, in_full
from partial import LOOKS, figures, judged, wrong
from schemas import problem_ids
from shell_door import ask
from subjects import Subject

COMMANDS = [f"{name} --json" for name in LOOKS] + ["arenas", "info"]
Documents = dict[str, dict[str, Any]]


@pytest.fixture(params=full_after(1, NEWEST[::-1]))
def door(request: pytest.FixtureRequest) -> Door:
    return opened(DOORS[request.param])


def alive(subject: Subject) -> Documents:
    """What is checked against the core: the process while it lives, which knows what glibc says of itself."""
    outcomes = DOORS["shell"].run(Live(subject.pid, subject.program), COMMANDS[:-2])
    found = {named(each): each.json() for each in outcomes}
    assert found["info --json"]["xml"] == subject.info_xml
    return found


def named(outcome: Outcome) -> str:
    return outcome.command.replace("heap ", "", 1)


def check(door: Door, core: Core, whole: Mapping[str, Mapping[str, Any]], words: str) -> int:
    """Figures of the living process, or null, or an error that names what is missing; how many commands answered."""
    *outcomes, text, info = door.run(core, COMMANDS)
    answered = 0
    for outcome in outcomes:
        if outcome.error is not None:
            assert len(outcome.error.strip().splitlines()) == 1
            # GDB and LLDB take no core that has lost its notes: gcore's come last
            assert words in outcome.error or "no process" in outcome.error
            continue
        answered += 1
        document = judged(outcome, whole[named(outcome)])
        assert not document["complete"]
        assert "core-cut" in problem_ids(document), document["problems"]
    assert "incomplete: " in text.text or text.error
    assert info.text == whole["info --json"]["xml"] or info.error
    return answered


@pytest.mark.xdist_group("cut cores")
@pytest.mark.parametrize("part", [0.97, *in_full(0.6, 0.1)])
@pytest.mark.parametrize("kind", ["kernel", *in_full("gcore")])
def test_cut(door: Door, kind: str, part: float, tmp_path: Path) -> None:
    with Subject("bins.static") as subject:
        whole = alive(subject)
        made = subject.kernel_core() if kind == "kernel" else subject.gcore()
        path = tmp_path / "core"
        subprocess.run(["cp", "--sparse=always", str(made), str(path)], check=True)
        os.truncate(path, int(path.stat().st_size * part))
        check(door, Core(path, subject.program), whole, "truncated")


def test_a_limit(door: Door) -> None:
    """RLIMIT_CORE: the kernel stops in the middle of a heap and says nothing."""
    with Subject("bins.static") as subject:
        whole = alive(subject)
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.prlimit(subject.pid, resource.RLIMIT_CORE, (1 << 20, hard))
        core = subject.kernel_core()
        assert check(door, Core(core, subject.program), whole, "truncated")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.full
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_disk(tmp_path / "disk", "2m") as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        with Subject("bins.static") as subject:
            monkeypatch.setattr(tempfile, "tempdir", None)
            whole = alive(subject)
            core = subject.kernel_core()
            assert check(DOORS["shell"], Core(core, subject.program), whole, "truncated")


# MADV_DONTDUMP, done by GDB in the living process

PAGE = os.sysconf("SC_PAGE_SIZE")
MADV_DONTDUMP = 16


def withhold(subject: Subject, start: int, size: int) -> None:
    done = GDB.start(
        ["-p", str(subject.pid), "-ex", f"print (int)madvise((void*){start:#x}, {size:#x}L, {MADV_DONTDUMP})"]
    )
    assert "$1 = 0" in done.stdout, done.stdout + done.stderr


@pytest.mark.xdist_group("withheld pages")
@pytest.mark.parametrize("kind", ["kernel", *in_full("gcore")])
@pytest.mark.parametrize("where", ["thread heap", *in_full("main heap", "thread heap's end", "mmapped block")])
def test_pages_that_the_program_withholds(door: Door, kind: str, where: str) -> None:
    if GDB.available():
        give_up("gdb is not there to call madvise")
    fixture = "mmapped" if "mmapped" in where else "bins"
    with Subject(fixture) as subject:
        whole = alive(subject)
        start, size = place(whole, where)
        withhold(subject, start, size)
        path = subject.kernel_core() if kind == "kernel" else subject.gcore()
        core = Core(path, subject.program)
        for outcome in door.run(core, COMMANDS[:-2]):
            document = judged(outcome, whole[named(outcome)])
            if named(outcome) == ("mmapped --json" if fixture == "mmapped" else "arenas --json"):
                assert not document["complete"]


def place(whole: Documents, where: str) -> tuple[int, int]:
    """Whole pages in the middle of something, with what glibc needs in front of them left alone."""
    if where == "mmapped block":
        block = max(whole["mmapped --json"]["blocks"], key=lambda row: row["bytes"])
        return int(block["address"], 16) // PAGE * PAGE, block["bytes"] // 2 // PAGE * PAGE
    index = 0 if where == "main heap" else 1
    heap = next(row for row in whole["heaps --json"]["heaps"] if row["arena"] == index)
    start, size = int(heap["address"], 16), heap["bytes"]
    if where.endswith("end"):
        return start + size - 4 * PAGE, 4 * PAGE
    return start + size // 2 // PAGE * PAGE, 64 * PAGE


@pytest.mark.full
def test_all_of_a_heap_is_withheld() -> None:
    """Nothing beside it tells that it was left out, and not just never written: its residency must not become 0."""
    if GDB.available():
        give_up("gdb is not there to call madvise")
    with Subject("many_heaps", "4", "plain") as subject:
        whole = alive(subject)
        row = next(row for row in whole["heaps --json"]["heaps"] if row["arena"] == 1)
        withhold(subject, int(row["address"], 16), row["bytes"])
        core = subject.kernel_core()
        for name in LOOKS:
            document = ask(core, name, status=(0, 2))
            found = list(wrong(figures(document), figures(whole[f"{name} --json"])))
            assert not found, f"{name}: {found} {document['problems']}"
            assert not document["complete"] or name in ("params", "mmapped", "threads"), name
