"""Every screen fits the terminal that it is on: commands run in a pseudo-terminal of so many columns."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from typing import Iterator, Sequence

import pytest
from doors import DOORS, NEWEST
from looks import ROOT, give_up, plain_environment
from marks import full_after, in_full
from shell_door import ARENASCOPE
from subjects import Subject
from terminal import Terminal

COMMANDS = (
    "report",
    "report --full",
    "arenas",
    "arenas --quick",
    "bins",
    "trim",
    "trim --ranges --limit 3",
    "heaps",
    "threads",
    "params",
    "mmapped",
    "mappings",
    "chunks --summary",
    "chunks --exact --limit 3",
    "chunks --limit 5",
    "check",
    "pins",
    "types",
    "map",
    "stats",
)
# between saving and restoring where the cursor is LLDB 22 writes its status line
ESCAPES = re.compile(r"\x1b7[^\n]*?\x1b8|\x1b(?:\[[0-9;?]*[a-zA-Z]|[=>])")
MARK = "columns-begin"


def on_terminal(columns: int, argv: Sequence[str], status: int = 0) -> list[str]:
    """What the program writes to a terminal of that width, line by line, without colours; with its errors where it is
    to fail."""
    errors = {} if status else {"stderr": subprocess.DEVNULL}
    path = f"{ROOT / 'bin'}:{plain_environment()['PATH']}"
    with Terminal(argv, columns, {"TERM": "xterm", "PATH": path, "COLUMNS": "", "NO_COLOR": ""}, **errors) as terminal:
        said = terminal.rest()
        assert terminal.process.returncode == status
    # what a line was overwritten with is what stands there
    return [line.rstrip("\r").rpartition("\r")[2] for line in ESCAPES.sub("", said).split("\n")]


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    """Of many arenas with names, all of their lists, and more than a terminal is wide to say."""
    with Subject("hoard", "12", "3") as running:
        yield running


def too_wide(lines: Sequence[str], columns: int) -> list[str]:
    """A setting to be pasted is never broken, however narrow the terminal."""
    return [line for line in lines if len(line) > columns and len(line.split()) > 1]


@pytest.mark.parametrize("columns", [40, *in_full(80, 120)])
def test_in_the_shell(subject: Subject, columns: int) -> None:
    wide = {}
    for command in COMMANDS:
        name, *words = command.split()
        argv = (*ARENASCOPE, name, str(subject.pid), *words)
        lines = on_terminal(columns, argv)
        assert lines
        wide[command] = too_wide(lines, columns)
    for name, *words in (("watch", str(subject.pid), "--count", "1"), ("top", "--once", "--exact", str(subject.pid))):
        argv = (*ARENASCOPE, name, *words)
        wide[name] = too_wide(on_terminal(columns, argv), columns)
    assert not {command: lines for command, lines in wide.items() if lines}


RULE = re.compile(r"-+(?:  -+)*")
NUMBER = re.compile(r"≤? ?[-+]?[\d,.]+(?:e[-+]\d+)? ?(?:[KMGTP]?i?B|%)?|0x[0-9a-f]+")
PRIORITIES = {"arenas": ("system", "used"), "types": ("bytes", "example"), "owners": ("whose", "holds")}
"""What stays at 80 columns."""


def is_row(line: str, spans: Sequence[tuple[int, int]]) -> bool:
    """Nothing stands between its columns, nor behind them."""
    between = [line[end:start] for (_, end), (start, _) in zip(spans, [*spans[1:], (len(line), 0)])]
    return bool(line.strip()) and not any(map(str.strip, between)) and not line.startswith(("(", "…", "? ", "next:"))


def columns_of(lines: Sequence[str]) -> Iterator[dict[str, list[str]]]:
    """Each table's cells by the titles of its columns, where these have one."""
    at = 0
    while at + 1 < len(lines):
        at += 1
        if not RULE.fullmatch(lines[at]):
            continue
        spans = [match.span() for match in re.finditer("-+", lines[at])]
        rows = [lines[at - 1]]
        while at + 1 < len(lines) and is_row(lines[at + 1], spans):
            at += 1
            rows.append(lines[at])
        rows = [row for row in rows if not RULE.fullmatch(row)]
        cells = [[row[start:end].strip() for row in rows] for start, end in spans]
        yield {title: each for title, *each in cells if title}


def as_whole(cell: str, whole: str) -> bool:
    """A name may lack its middle, and the type in brackets behind it, a text its end, a number nothing."""
    before, cut, after = cell.partition("…")
    name, _, type = whole.rpartition(" (")
    name = name if name and not type.startswith("--") else whole
    if cell in (whole, name):
        return True
    ends = whole.endswith(after) or name.endswith(after)
    return bool(cut) and not NUMBER.fullmatch(whole) and whole.startswith(before) and ends


TABLES = {
    "hoard": ("arenas", "trim", "heaps", "threads", "bins", "pins"),
    "kinds": ("types", "types --owners", "owners", "owners --by type", "mappings", "containers"),
}
NO_LIMIT = 1000


@pytest.mark.parametrize("fixture", full_after(1, TABLES))
@pytest.mark.parametrize("columns", [80, *in_full(40, 120, 200)])
def test_each_cell_is_that_of_a_screen_as_wide_as_it_needs(fixture: str, columns: int) -> None:
    """No number is cut at any width, and of a name the middle alone."""
    with Subject(fixture, *(["12", "3"] if fixture == "hoard" else [])) as running:
        for command in TABLES[fixture]:
            name, *words = command.split()
            argv = (*ARENASCOPE, name, str(running.pid), *words, "--limit", "9")
            shown = on_terminal(columns, argv)
            assert not too_wide(shown, columns), command
            narrow, wide = list(columns_of(shown)), list(columns_of(on_terminal(NO_LIMIT, argv)))
            assert len(narrow) == len(wide) > 0, command
            for some_columns, all_columns in zip(narrow, wide):
                assert some_columns.keys() <= all_columns.keys(), command
                for title, cells in some_columns.items():
                    pairs = list(zip(cells, all_columns[title]))
                    assert len(cells) == len(all_columns[title]), (command, title)
                    assert all(as_whole(*pair) for pair in pairs), (command, title, pairs)
            if columns == 80 and command in PRIORITIES:
                assert set(PRIORITIES[command]) <= narrow[0].keys()
            if columns >= 80 and command == "owners":
                # a name is whole rather than that all columns are there
                assert narrow[0]["whose"] == wide[0]["whose"]


def test_errors_in_the_shell() -> None:
    words = ["report", "./a_core_by_a_name_that_nobody_has_ever_given_to_one"]
    lines = on_terminal(40, (*ARENASCOPE, *words), status=2)
    assert len(lines) > 2
    assert not too_wide(lines, 40)
    assert os.strerror(errno.ENOENT) in " ".join(lines)


@pytest.mark.parametrize("door", ["gdb", *in_full("lldb")])
def test_in_a_debugger(subject: Subject, door: str) -> None:
    wrong = "chunk a_name_that_is_nowhere_to_be_found + another_name_that_is_nowhere_to_be_found_either"
    lines = in_debugger(subject, door, [*COMMANDS, *([wrong] if door == "gdb" else [])])
    assert len(lines) > 100
    assert not too_wide(lines, 80)


def in_debugger(subject: Subject, door: str, commands: Sequence[str]) -> list[str]:
    """What it writes to a terminal of 80 columns, but for what is its own."""
    opened = next(DOORS[name] for name in NEWEST if name.startswith(door))
    if opened.available():
        give_up(opened.available())
    if door == "gdb":
        first = ["gdb", "-nx", "-q", "-iex", "set pagination off"]
        load = ["-p", str(subject.pid), "-ex", f"source {ROOT}/gdb/arena.py", "-ex", f"echo {MARK}\\n"]
        each = [word for command in commands for word in ("-ex", f"heap {command}")]
        argv = [*first, *load, *each, "-ex", "detach", "-ex", "quit"]
    else:
        load = [opened.name, "-x", "-p", str(subject.pid), "-o", f"command script import {ROOT}/lldb/arena.py"]
        each = [word for command in commands for word in ("-o", f"heap {command}")]
        argv = [*load, "-o", f"script print('{MARK}')", *each, "-o", "detach", "-o", "quit"]
    lines = on_terminal(80, argv)
    begin = max(index for index, line in enumerate(lines) if MARK in line)
    # LLDB repeats what it was told, GDB names the program by its whole path
    own = ("(lldb)", "Detaching from program")
    return [line for line in lines[begin + 1 :] if not line.startswith(own)]
