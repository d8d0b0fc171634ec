"""Sizes, tables and documents as they are written."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Optional

import pytest
from fake_door import FakeDoor, run_json, run_text
from heap_mixtures import everything

from arenascope.base import optional_libraries
from arenascope.base.errors import UsageError
from arenascope.base.heap_model import SHELL_CALLS_INTO
from arenascope.cli.shell_calls import PROCESSORS
from arenascope.commands.framework.command import execute
from arenascope.commands.framework.find_command import COMMAND_NAMES, find_command
from arenascope.commands.info import highlighted
from arenascope.present.shared_text.lines_and_tables import Style, next_lines, safe_lines, table


@pytest.mark.parametrize(
    ("value", "expected", "exact"),
    [
        (0, "0 B", "0"),
        (1, "1 B", "1"),
        (1023, "1023 B", "1,023"),
        (1024, "1.0 KiB", "1,024"),
        (1536, "1.5 KiB", "1,536"),
        (-4096, "-4.0 KiB", "-4,096"),
        ((1 << 20) - 1, "1.0 MiB", "1,048,575"),
        (1048000, "1023.4 KiB", "1,048,000"),
        (1288490188, "1.2 GiB", "1,288,490,188"),
        (1 << 40, "1.0 TiB", "1,099,511,627,776"),
        (5000 << 50, "5000.0 PiB", "5,629,499,534,213,120,000"),
        (None, "?", "?"),
    ],
)
def test_sizes(value: Optional[int], expected: str, exact: str) -> None:
    assert Style().size(value) == expected
    assert Style(exact=True).size(value) == exact


def test_colour_only_where_wanted() -> None:
    for paint in ("bold", "dim", "warn"):
        assert safe_lines(getattr(Style(), paint)("x"), 0) == ["x"]
        (line,) = safe_lines(getattr(Style(colour=True), paint)("x"), 0)
        assert line.startswith("\033[")


def test_a_table_by_hand() -> None:
    lines = list(
        table(
            Style(width=0),
            ("arena", "system"),
            [["0 main", "1.5 KiB"], ["1", "132.0 KiB"]],
            footer=["all", "133.5 KiB"],
        )
    )
    assert lines == [
        "arena      system",
        "------  ---------",
        "0 main    1.5 KiB",
        "1       132.0 KiB",
        "------  ---------",
        "all     133.5 KiB",
    ]
    assert list(table(Style(), ("arena", "system"), [])) == []


def test_highlighting_needs_pygments(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygments")
    xml = '<a b="1">\n  <c/>\n</a>'
    lines = highlighted(xml)
    assert "\n".join(lines) == xml
    assert all("\033[" in "".join(safe_lines(each, 80)) for each in lines)
    monkeypatch.setattr(optional_libraries, "load", lambda name: None)
    assert highlighted(xml) == xml.split("\n")


def test_where_a_library_is_without_loading_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tqdm").mkdir()
    (tmp_path / "tqdm" / "__init__.py").write_text("raise ZeroDivisionError")
    (tmp_path / "tqdm-7.1.dist-info").mkdir()
    monkeypatch.delitem(sys.modules, "tqdm", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert optional_libraries.where("tqdm") == f"tqdm 7.1 ({tmp_path})"
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert "(" not in optional_libraries.where("tqdm")


# whole documents


def test_the_envelope() -> None:
    image = everything("2.35-i386")
    document = run_json(image.target(), "heaps")
    assert document["schema"] == 1
    assert document["command"] == "heaps"
    assert document["target"] == {"kind": "core", "pid": 4000, "pointer_bytes": 4, "page_bytes": 4096}
    assert document["glibc"]["main_arena"] == f"{image.main.address:#x}"


# `version` names the libraries; snapshot and diff work on files (tests/debuggers/test_snapshot.py)
@pytest.mark.parametrize(
    "command", [name for name in COMMAND_NAMES if name not in ("version", "snapshot", "save", "diff", "trend")]
)
def test_text_is_the_same_without_libraries(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = everything("2.36-64").target()
    with_them = run_text(target, command)
    monkeypatch.setattr(optional_libraries, "load", lambda name: None)
    assert run_text(target, command) == with_them


def test_exact_bytes_and_limits() -> None:
    target = everything("2.36-64").target()
    assert "KiB" not in run_text(target, "heaps", "--bytes")
    assert "135,168" in run_text(target, "heaps", "--bytes")
    assert "3 more heaps; --limit 0 shows all" in run_text(target, "heaps", "--limit", "2")
    assert "more heap" not in run_text(target, "heaps", "--limit", "0")
    assert len(run_json(target, "heaps", "--limit", "2")["heaps"]) == 5, "JSON is never cut"


@pytest.mark.parametrize("words", [("--no-such",), ("--arena", "x"), ("--arena",), ("--arena", "9"), ("stray",)])
def test_wrong_words_are_usage_errors(words: tuple[str, ...]) -> None:
    door = FakeDoor(everything("2.36-64").target())
    with pytest.raises(UsageError):
        execute(find_command("bins"), list(words), door)
    assert door.written == []


WITH_TABLES = ("arenas", "heaps", "bins", "threads", "params", "mmapped", "trim", "chunks", "pins", "map", "types")


@pytest.mark.parametrize("command", WITH_TABLES)
def test_every_table_takes_a_format(command: str) -> None:
    target = everything("2.36-64").target()
    safe_lines = run_text(target, command, "--table", "html", *(["--own"] if command == "pins" else []))
    assert "<table>" in safe_lines
    assert "---" not in safe_lines


def test_cells_do_not_break_a_format() -> None:
    rows = [["operator|", ""], ["b", "2"]]
    assert list(table(Style(width=0, form="tsv"), ("name", "last"), rows, left=(0, 1))) == [
        "name\tlast",
        "operator|\t",
        "b\t2",
    ]
    assert (
        next(line for line in table(Style(width=0, form="github"), ("name", "last"), rows) if "operator" in line).count(
            "|"
        )
        == 4
    )


def test_without_tabulate_a_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_libraries, "load", lambda name: None)
    with pytest.raises(UsageError) as refused:
        run_text(everything("2.36-64").target(), "heaps", "--table", "html")
    assert "arenascope[table]" in str(refused.value)
    assert "python3-tabulate" in str(refused.value)


@pytest.mark.parametrize("machine", [*(each.machine for each in PROCESSORS), "riscv64"])
def test_to_apply_it_where_the_shell_can(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=machine))
    here = Style(program="arenascope", subject="1234").applied("trim --apply")
    assert here.startswith("arenascope trim 1234 --apply" if machine != "riscv64" else "gdb -p 1234 ")
    assert (machine in SHELL_CALLS_INTO) is (machine != "riscv64")


def test_colours_are_our_own_alone() -> None:
    """A code in a name is none of them, and a line is no two lines, wherever the name came from."""
    style = Style(colour=True)
    name = "node\033[8m\nnothing is lost"
    seen = "node\ufffd[8m\ufffdnothing is lost"
    assert safe_lines(f"{name} leads to it", 0) == [f"{seen} leads to it"]
    assert safe_lines(style.bold(name), 0) == [f"\033[1m{seen}\033[0m"]
    assert safe_lines(style.bold(name) + ": " + name, 0) == [f"\033[1m{seen}\033[0m: {seen}"]
    assert safe_lines("  " + style.warn("no") + f" {name}", 0) == [f"  \033[33mno\033[0m {seen}"]
    # an f-string forgets the colour, never to clean
    assert safe_lines(f"{style.bold(name)}: {name}", 0) == [f"{seen}: {seen}"]
    assert safe_lines(next(next_lines(style, name)), 0) == [f"\033[2mnext: {seen}\033[0m"]
