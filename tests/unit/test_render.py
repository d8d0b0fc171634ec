"""Sizes, tables and documents as they are written."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Optional

import pytest
from fake_door import FakeDoor, run_json, run_text
from heap_mixtures import everything
from heapbuilder import HeapImage
from schemas import ENVELOPE, OWN_KEYS, ROW_KEYS

from arenascope.base import optional_libraries
from arenascope.base.errors import UsageError
from arenascope.base.model import SHELL_CALLS_INTO
from arenascope.cli.shell_control import PROCESSORS
from arenascope.commands.all_commands import COMMAND_NAMES, find_command
from arenascope.commands.framework.command import execute
from arenascope.commands.info import highlighted
from arenascope.present.json_documents.record import address
from arenascope.present.shared_text.text import (
    ENOUGH,
    Style,
    count,
    cut,
    folded,
    left_out,
    next_lines,
    number,
    safe_lines,
    table,
)


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


def test_counts() -> None:
    assert [count(n, "arena") for n in (0, 1, 2, 1234, None)] == [
        "0 arenas",
        "1 arena",
        "2 arenas",
        "1,234 arenas",
        "? arenas",
    ]
    assert count(2, "entry", "entries") == "2 entries"
    assert (number(12345), number(None)) == ("12,345", "?")
    assert (address(0x7F00), address(None)) == ("0x7f00", None)


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


def test_an_error_is_folded_between_words() -> None:
    """As it stands on the terminal, with what the debugger puts in front of it."""
    said = "heap chunk: there is no symbol of that name (an address is 0x7f0000000010)"
    assert folded(said, 0) == said
    for before in ("", "error: "):
        lines = (before + folded(said, 40, before)).split("\n")
        assert len(lines) > 1
        assert all(len(line) <= 40 for line in lines)
        assert " ".join(lines) == before + said


def test_hints_stay_whole_commands() -> None:
    """Broken between two of them on a terminal, and nowhere else."""
    hints = [f"arenascope {name} 4711" for name in ("report --full", "mappings --sort address", "arenas")]
    assert list(next_lines(Style(width=0), *hints)) == [f"next: {', '.join(hints)}"]
    # a pipe's reader has a terminal at last
    many = list(next_lines(Style(width=0), *hints * 9))
    assert len(many) > 1
    assert max(map(len, many)) <= 200 < sum(map(len, many))
    narrow = list(next_lines(Style(width=40), *hints))
    assert [line[len("next: ") :].rstrip(",") for line in narrow] == hints


def test_columns_go_where_the_terminal_is_narrow() -> None:
    rows = [["0", "0x5555", "0x6666"]]
    lines = list(table(Style(width=14), ("arena", "from", "to"), rows, expendable=("to", "from")))
    assert lines[0].split() == ["arena", "from"]
    assert "to" in lines[-1]
    assert "14 columns" in lines[-1]
    assert len(list(table(Style(width=80), ("arena", "from", "to"), rows, expendable=("to",)))) == 3


def test_names_are_cut_in_the_middle_and_addresses_never() -> None:
    """Each other column that can go goes first, but not for more of a name than enough."""
    long = "std::map<std::string, std::vector<std::pair<int, double>>> node"
    rows = [["int[]", "1", "2", "0x5555deadbee0"], [long, "3", "4", "0x5555deadbef0"]]
    headers = ("type", "blocks", "bytes", "example")
    for width in range(40, 100):
        lines = list(table(Style(width=width), headers, rows, left=(0, 3), names=(0,), expendable=("bytes",)))
        assert max(map(len, lines[:4])) <= width
        assert [line.split()[-1] for line in lines[2:4]] == [each[-1] for each in rows]
        assert lines[3].startswith("std::map")
        assert " node " in lines[3] or width < 60
        assert ("bytes" in lines[0].split()) == (width >= 2 + ENOUGH + 8 + 7 + 14)
    # what is no address is cut as ever
    rows[0][-1] = "of no block"
    assert "0x5555deadbee0" not in list(table(Style(width=30), headers, rows, left=(0, 3)))[2]


@pytest.mark.parametrize("width", range(50, 130, 10))
def test_an_address_in_front_of_a_text_stays_whole(width: int) -> None:
    """Where there is no room for it its column goes."""
    place, name = "0x7f9554000b70", "`libstdc++.so.6.0.30+0x2162e8`"
    rows = [[name, "71.0 KiB", "1,234", f"{place} {'a way to it ' * 4}", name]]
    headers = ("whose", "holds", "blocks", "at", "with")
    lines = list(table(Style(width=width), headers, rows, left=(0, 3, 4), names=(0, 4)))
    assert all(len(each) <= width for each in lines[:3])
    assert ("at" in lines[0].split()) == (place in lines[2])
    assert (place in lines[2]) == (width >= 60)


def test_a_cut_list_says_so() -> None:
    rows = [[str(n)] for n in range(50)]
    assert cut(rows, 40) == (rows[:40], 10)
    for limit in (None, 0, -1, 50, 60):
        assert cut(rows, limit) == (rows, 0)
    assert list(left_out(Style(), 10, "bin")) == ["… 10 more bins; --limit 0 shows all"]
    assert list(left_out(Style(), 1, "bin")) == ["… 1 more bin; --limit 0 shows all"]
    assert list(left_out(Style(), 0, "bin")) == []


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


def test_a_library_that_is_nowhere() -> None:
    assert optional_libraries.load("no_such_module_anywhere") is None


# whole documents


@pytest.mark.parametrize("command", OWN_KEYS)
def test_keys_are_in_the_contracts_order(command: str) -> None:
    safe_lines = run_text(everything("2.36-64").target(), command, "--json")
    assert safe_lines.count("\n") == 1
    assert safe_lines.endswith("}\n")
    assert list(json.loads(safe_lines)) == [*ENVELOPE, *OWN_KEYS[command]]


@pytest.mark.parametrize(("command", "key"), ROW_KEYS)
def test_keys_of_a_row(command: str, key: str) -> None:
    document = run_json(everything("2.36-64").target(), command)
    assert document[key]
    for row in document[key]:
        assert list(row) == ROW_KEYS[command, key].split(), "ROW_KEYS of schemas.py says which keys there are, in order"


def test_why_a_trim_leaves_something_is_said_once() -> None:
    """On screen as in JSON, in which each has its id."""
    target = everything("2.36-64").target()
    found = run_json(target, "trim")["reasons"]
    assert {each["id"] for each in found} >= {"tops-untouched", "pages-shared", "cached-by-threads"}
    shown = run_text(target, "trim").splitlines()
    assert [each["text"] for each in found] == [
        each["text"] for line in shown for each in found if line.startswith(each["text"])
    ]


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


@pytest.mark.parametrize("command", COMMAND_NAMES)
def test_every_command_has_help(command: str) -> None:
    help_text = run_text(HeapImage("2.36-64").target(), command, "--help")
    assert f"heap {command}" in help_text
    assert "--json" in help_text


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


def test_a_format_is_whole_and_plain() -> None:
    class Terminal(FakeDoor):
        def style(self) -> Style:
            return Style(width=20, colour=True)

    door = Terminal(everything("2.36-64").target())
    execute(find_command("heaps"), ["--table", "github"], door)
    safe_lines = "".join(door.written)
    assert "\033" not in safe_lines
    assert "accessible" in safe_lines
    assert "--limit" not in safe_lines


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


def test_folded_lines_keep_their_colours() -> None:
    style = Style(colour=True)
    assert safe_lines(style.dim("one two three"), 8) == ["\033[2mone two\033[0m", "\033[2mthree\033[0m"]
    assert safe_lines(style.bold("one") + " two three", 8) == ["\033[1mone\033[0m two", "three"]
