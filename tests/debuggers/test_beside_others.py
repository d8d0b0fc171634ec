"""Beside other extensions of GDB that have a `heap`, loaded before arenascope or after it, and under another word."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Sequence

import pytest
from doors import ARENA_PY, LOAD, ROOT, Gdb, GdbTerminal
from lldb_door import LLDB_LOAD, Lldb
from looks import give_up
from marks import full_after
from subjects import Subject

from arenascope.commands.framework.debugger_doors import SETTING, SUMMARY, taken

FETCHED = ROOT / "build" / "extensions"
# Before they register anything, both look for a heap in `help all`, and end GDB as pwndbg does. "by-word" reads the
# first word of a line, as pwndbg; "by-name" reads aliases, too, as a fork of GEF. The heap of the one is a command,
# that of the other a prefix.
LOOKS_FIRST = """
import gdb, os
listed = gdb.execute("help all", to_string=True).splitlines()
if {refuses}:
    os._exit(1)
class Heap(gdb.Command):
    "Theirs."
    def __init__(self): super().__init__("heap", gdb.COMMAND_USER, gdb.COMPLETE_NONE, {prefix})
    def invoke(self, line, from_tty): print("their heap")
Heap()
"""
STAND_INS = {
    "by-word": LOOKS_FIRST.format(
        refuses='"heap" in {line.split()[0] for line in listed if line.strip()}', prefix=False
    ),
    "by-name": LOOKS_FIRST.format(
        refuses='any("heap" in line.split(" -- ")[0].split(", ") for line in listed)', prefix=True
    ),
}


@dataclass(frozen=True)
class Extension:
    name: str
    file: Path
    """What is sourced."""
    variables: dict[str, str] = field(default_factory=dict)


def stand_in(name: str, folder: Path) -> Extension:
    file = folder / "theirs.py"
    file.write_text(STAND_INS[name])
    return Extension(name, file)


def real(name: str, folder: Path, gdb: Gdb) -> Extension:
    """`folder`: for what it writes."""
    usual = {"gef": FETCHED / "gef.py", "pwndbg": FETCHED / "pwndbg" / "gdbinit.py"}[name]
    file = Path(os.environ.get(f"ARENASCOPE_{name.upper()}") or usual)
    if not file.exists():
        give_up(f"{name} is not here: {file}")
    extension = Extension(
        name, file, {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
    )
    alone = gdb.start(["-ex", f"source {file}", "-ex", "echo loaded\\n"], extension.variables)
    if "loaded" not in alone.stdout:
        give_up(f"{name} does not load in this GDB: {alone.stderr.strip()[-200:]}")
    return extension


pytestmark = pytest.mark.xdist_group("loading")

OURS_FIRST = pytest.mark.parametrize("ours_first", [True, False], ids=["ours-first", "theirs-first"])
# -ix: while GDB still reads what configures it, as ~/.gdbinit
WAYS = ("-ix", "-x", "-ex")
# pwndbg, alone too, has exceptions of its own where GDB attaches to threads
QUIET = ("-iex", "set python print-stack none")


def sourced(way: str, files: Sequence[Path], folder: Path) -> list[str]:
    if way == "-ex":
        return [word for file in files for word in ("-ex", f"source {file}")]
    script = folder / "both.gdb"
    script.write_text("".join(f"source {file}\n" for file in files))
    return [way, str(script)]


def both_work(gdb: Gdb, subject: Subject, theirs: Extension, ours_first: bool, way: str, folder: Path) -> None:
    """Both load, `heap` is theirs, and `arenascope` says the same as ever."""
    files = [ARENA_PY, theirs.file] if ours_first else [theirs.file, ARENA_PY]
    words = ("help heap", "echo @\\n", "arenascope info", "echo @\\n", "arenascope help all", "echo @\\n")
    finished = gdb.start(
        [*QUIET, "-p", str(subject.pid), *sourced(way, files, folder), "-ex", "echo @\\n"]
        + [word for each in words for word in ("-ex", each)],
        theirs.variables,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    _, heap, info, overview, _ = finished.stdout.split("@\n")
    assert heap.strip()
    assert SUMMARY not in heap
    assert info == subject.info_xml
    assert "`arenascope report`" in overview


@OURS_FIRST
@pytest.mark.parametrize("way", full_after(1, WAYS))
@pytest.mark.parametrize("name", full_after(1, STAND_INS))
def test_one_that_takes_only_what_is_free(
    gdb: Gdb, subject: Subject, tmp_path: Path, name: str, way: str, ours_first: bool
) -> None:
    both_work(gdb, subject, stand_in(name, tmp_path), ours_first, way, tmp_path)


@pytest.mark.full
@OURS_FIRST
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["gef", "pwndbg"])
def test_a_real_one(gdb: Gdb, subject: Subject, tmp_path: Path, name: str, way: str, ours_first: bool) -> None:
    both_work(gdb, subject, real(name, tmp_path, gdb), ours_first, way, tmp_path)


@pytest.mark.parametrize("name", full_after(1, STAND_INS))
def test_at_a_prompt(subject: Subject, tmp_path: Path, name: str) -> None:
    """`heap` is ours at the first prompt; an extension that is loaded hours later does not end the session either."""
    theirs = stand_in(name, tmp_path)
    with GdbTerminal("-p", subject.pid) as terminal:
        assert "<malloc " in terminal.ask("heap info")
        # GDB replaces it without a word; we say so once
        assert taken("heap") in terminal.ask(f"source {theirs.file}")
        theirs_now = terminal.ask("heap")
        assert "their heap" in theirs_now
        assert taken("heap") not in theirs_now
        assert "<malloc " in terminal.ask("arenascope info")


DEFINED = "define heap\necho their heap\\n\nend\n"


def test_a_define_of_the_users_after_it(subject: Subject, tmp_path: Path) -> None:
    """It leaves our subcommands below a `heap` that is theirs: said, too."""
    script = tmp_path / "theirs.gdb"
    script.write_text(DEFINED)
    with GdbTerminal("-p", subject.pid) as terminal:
        assert taken("heap") in terminal.ask(f"source {script}")
        assert "their heap" in terminal.ask("heap")
        # what it took over is still there
        assert "\nUsage: heap info " in terminal.ask("help heap info")
        assert terminal.ask(f"source {ARENA_PY}").count(taken("heap")) == 1
        shown = terminal.ask("arenascope info")
        assert "<malloc " in shown
        assert taken("heap") not in shown


def test_a_word_that_is_not_listed_is_whole(gdb: Gdb, subject: Subject) -> None:
    """It is used without a warning, the first time too, and completed, explained and found as any other."""
    use = ["-ex", "echo @\\n", "-ex", "heap info"]
    finished = gdb.start(["-p", str(subject.pid), *LOAD, *use, *LOAD, *use, "-ex", "echo @\\n"])
    assert [each == subject.info_xml for each in finished.stdout.split("@\n")[1:3]] == [True, True]
    completed, explained, found, listed = gdb.drive(
        [], [{"do": each} for each in ("complete hea", "help heap", "apropos arenas, bins", "help data")]
    )
    assert completed.text == "heap\n"
    assert explained.text.startswith(SUMMARY)
    assert {line.split()[0] for line in found.text.splitlines()} >= {"heap", "arenascope"}
    assert not [line for line in listed.text.splitlines() if line.startswith("heap")]
    assert [line for line in listed.text.splitlines() if line.startswith("arenascope -- ")]


# another word, or none


def test_another_word(gdb: Gdb, subject: Subject) -> None:
    words = ("mheap info", "arenascope info", "mheap help", "heap info")
    finished = gdb.drive(["-p", str(subject.pid)], [{"do": each} for each in words], variables={SETTING: "mheap"})
    mine, always, overview, usual = finished
    assert mine.text == always.text == subject.info_xml
    assert "mheap help " in overview.text
    assert usual.error


def test_another_word_in_lldb(lldb: Lldb) -> None:
    words = [word for each in ("m-heap help", "arenascope help", "help heap") for word in ("-o", each)]
    finished = lldb.start([*LLDB_LOAD, *words], variables={SETTING: "m-heap"})
    assert "m-heap help " in finished.stdout
    assert "arenascope help " in finished.stdout
    assert "error: 'heap' " in finished.stdout + finished.stderr
