"""The shell's command line: one tree, of which no more is built than is asked for; and what stands where on a line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from arenascope.base.errors import ArenascopeError, UsageError
from arenascope.cli import main as cli
from arenascope.cli.main import IN_THE_SHELL, LOOPS, SUBJECTS, CommandTree, branch_names, with_command
from arenascope.commands.framework.arguments import completions
from arenascope.commands.framework.find_command import COMMAND_NAMES, all_commands, find_command
from arenascope.commands.framework.overview import help_text
from arenascope.sources.live import processes_by_name
from arenascope.sources.live.processes_by_name import NamedProcess

ME = "1"
"""A process that is there; the same one in every worker, as tests are named by it."""
SUBJECT = f"PID|CORE {SUBJECTS.help} "


def test_every_branch_is_there() -> None:
    """And no option of a command's is also one of the shell's: argparse would refuse it."""
    assert list(CommandTree(branch_names()).branches) == [
        *COMMAND_NAMES,
        "top",
        "watch",
        "metrics",
        "mcp",
        "fleet",
        "help",
    ]


def test_only_what_is_asked_for_is_built() -> None:
    assert list(CommandTree(["arenas"]).branches) == ["arenas"]
    assert CommandTree([]).branches == {}


def in_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", COMMAND_NAMES)
def test_help_is_the_same_in_all_doors(name: str) -> None:
    """In the shell it also tells what only the shell has."""
    heap = in_one_line(find_command(name).parser("heap").format_help())
    shell = in_one_line(CommandTree([name]).branches[name].format_help())
    more = re.search(f"{IN_THE_SHELL.title}: (.*?) examples?:", shell)
    assert more
    own = {option for each in find_command(name).arguments for option in each.names}
    assert [each for each in re.findall(r"--[\w-]+", more[1]) if each != "--debug"] == [
        each.long_names[0] for each in IN_THE_SHELL.arguments if each.is_option and own.isdisjoint(each.names)
    ]
    shell = shell.replace(f"{IN_THE_SHELL.title}: {more[1]} ", "").replace(" [PID|CORE ...]", "")
    # what only the shell does is called so in every door
    shell, heap = (each.replace(SUBJECT, "").replace("arenascope ", "heap ") for each in (shell, heap))
    shell, heap = (re.sub(" examples?: .*", "", each) for each in (shell, heap))
    assert re.sub("positional arguments: (?=options)", "", shell) == heap


@pytest.mark.parametrize("name", COMMAND_NAMES)
def test_each_example_can_be_typed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the shell it names what is to be read; a debugger has that."""
    monkeypatch.chdir(tmp_path)
    branch = CommandTree([name]).branches[name]
    lines = branch.outline.example.splitlines()
    assert lines
    assert "PID" not in find_command(name).example
    for line in lines:
        found = CommandTree([name]).parse_args(line.replace("PID", ME).split())
        assert found.subjects == ([] if name == "trend" else [ME])
        assert ">" not in line


@pytest.mark.parametrize("name", branch_names())
def test_help_before_and_after(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for words in (["help", name], [name, "--help"], [name, "-h"], [name, "--he"]):
        assert cli.main(words) == 0
        texts.append(capsys.readouterr())
    assert texts[0].out.startswith(f"usage: arenascope {name} [options]")
    assert texts == [texts[0]] * 4


def test_the_overview_names_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for words in (["--help"], ["-h"], ["help", "all"]):
        assert cli.main(words) == 0
        texts.append(capsys.readouterr().out)
    assert texts == [texts[0]] * 3
    assert max(map(len, [*texts[0].splitlines(), *help_text("heap", all_commands(), ["all"]).splitlines()])) < 80
    assert set(re.findall(r"^  ([a-z]+) ", texts[0], re.MULTILINE)) == {*COMMAND_NAMES, *LOOPS, "arenascope"}


@pytest.mark.parametrize(
    ("line", "subjects", "own"),
    [
        ("arenas -p 4711 1", ["4711", "1"], {"limit": 40}),
        ("arenas -p4711 --pid=1,2", ["4711", "1", "2"], {}),
        ("arenas -c 4711", ["./4711"], {}),
        (f"chunk -p {ME} 4711", [ME], {"address": ["4711"]}),
        (f"chunk 1 {ME} -c a.core", ["a.core"], {"address": ["1", ME]}),
        (f"diff {ME} -p {ME}", [ME], {"before": ME, "after": None}),
        (f"types {ME} -p {ME}", [ME], {"name": ME}),
        ("leaks --p 4711", ["4711"], {"possible": True}),
        (f"trend moments --pid {ME}", [], {"pid": int(ME), "folder": "moments"}),
        ("arenas 1 --limit 5 2", ["1", "2"], {"limit": 5}),
        ("arenas --lim 5 1", ["1"], {"limit": 5}),
        ("arenas -limit=5 1", ["1"], {"limit": 5}),
        ("arenas --limit -5 1", ["1"], {"limit": -5}),
        ("arenas --libc 1 4711", ["4711"], {"libc": 1}),
        ("arenas --debug-dir a 1 --debug-dir b", ["1"], {"debug_dir": ["a", "b"]}),
        ("arenas -- 1 --limit", ["1", "--limit"], {"limit": 40}),
        ("arenas", [], {}),
        (f"chunk 0x10 {ME}", [ME], {"address": ["0x10"]}),
        (f"chunk {ME} 0x10", [ME], {"address": ["0x10"]}),
        (f"chunk {ME} -- -0x10", [ME], {"address": ["-0x10"]}),
        (f"chunk {ME} -0x10", [ME], {"address": ["-0x10"]}),
        ("chunk 0x10", [], {"address": ["0x10"]}),
        (f"chunk 0x10 {ME} 0x20 --words 3 p+1", [ME], {"address": ["0x10", "0x20", "p+1"], "words": 3}),
        ("chunk 0x10 0x20", [], {"address": ["0x10", "0x20"]}),
        (f"snapshot new.json --sizes {ME}", [ME], {"file": "new.json", "sizes": True}),
        ("diff a.json b.json", [], {"before": "a.json", "after": "b.json"}),
        (f"diff a.json --limit 3 {ME}", [ME], {"before": "a.json", "after": None, "limit": 3}),
        (f"diff {ME} a.json", [ME], {"before": "a.json", "after": None}),
    ],
)
def test_what_stands_where(
    line: str, subjects: list[str], own: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = line.split()
    found = CommandTree(words[:1]).parse_args(words)
    assert found.subjects == subjects
    assert {name: getattr(found, name) for name in own} == own


def elf(type: int) -> bytes:
    return b"\x7fELF\2\1\1" + bytes(9) + type.to_bytes(2, "little") + bytes(46)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a program, its core and a library. One process is called as the program is, another as no file is."""
    for name, type in (("served", 3), ("static", 2), ("served.core", 4)):
        (tmp_path / name).write_bytes(elf(type))
    (tmp_path / "big").write_bytes(b"\x7fELF\1\2\1" + bytes(10) + b"\2")
    running = {"served": [4711], "alone": [4712], "twice": [4713, 4714]}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        processes_by_name, "processes_called", lambda name: [NamedProcess(pid, 0, "") for pid in running.get(name, ())]
    )
    return tmp_path


@pytest.mark.parametrize(
    ("line", "file", "subjects"),
    [
        ("save new.core 4711", "new.core", ["4711"]),
        ("save 4711 new.core", "new.core", ["4711"]),
        ("save 4711 served.core", "served.core", ["4711"]),
        ("save served.core alone", "served.core", ["4712"]),
        ("save alone new.core", "new.core", ["4712"]),
        ("save new.core served.core", "new.core", ["served.core"]),
        ("save served.core new.core", "new.core", ["served.core"]),
        ("save served.core ./new", "./new", ["served.core"]),
        ("save -p alone served.core", "served.core", ["4712"]),
        ("save served.core served", "served.core", ["4711"]),
        ("save served.core", "served.core", []),
        ("snapshot served.core alone", "served.core", ["4712"]),
    ],
)
def test_what_is_written_comes_first(line: str, file: str, subjects: list[str], folder: Path) -> None:
    """Whatever is there: of two files neither is more likely to be what is read."""
    words = line.split()
    found = CommandTree(words[:1]).parse_args(words)
    assert (found.file, found.subjects) == (file, subjects)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("save served.core nosuch", "'nosuch'"),
        ("save alone served.core", "FILE"),
        ("snapshot served.core nosuch", "'nosuch'"),
        ("types served served.core", "arenascope types served.core"),
        ("report static served.core", "arenascope report served.core"),
        ("trim twice", "2 processes"),
        ("trim sreved.core", "mean served.core?"),
        ("watch served.core", "file"),
    ],
)
def test_no_other_file_is_read_than_was_meant(line: str, said: str, folder: Path) -> None:
    words = line.split()
    with pytest.raises(ArenascopeError) as raised:
        CommandTree(words[:1]).parse_args(words)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("word", "subject"),
    [
        ("served", "4711"),
        ("./served", "./served"),
        ("static", "static"),
        ("big", "big"),
        ("served.core", "served.core"),
    ],
)
def test_a_program_in_this_folder_names_its_process(word: str, subject: str, folder: Path) -> None:
    """As in any other folder: a program cannot be looked at. Where none runs, that is said of the file."""
    assert CommandTree(["trim"]).parse_args(["trim", word]).subjects == [subject]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"chunk {ME}", "required: ADDRESS"),
        (f"snapshot {ME}", "required: FILE"),
        (f"diff {ME}", "required: A"),
        ("arenas --limit", "--limit"),
        ("arenas --stop sit", "'sit'"),
        ("watch", "required: PID"),
        ("arenas --sort fre", "mean free?"),
        ("arenas --srot free", "mean --sort"),
        ("metrics", "required: PID"),
        ("mcp", "required: PID|CORE"),
    ],
)
def test_what_is_refused(line: str, said: str) -> None:
    words = line.split()
    with pytest.raises(UsageError, match=re.escape(said)) as raised:
        CommandTree(words[:1]).parse_args(words)
    assert f"arenascope {words[0]} --help" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("4711", "report 4711"),
        ("4711 --full", "report 4711 --full"),
        ("/no/such.core", "report /no/such.core"),
        ("--full 4711", "report --full 4711"),
        ("-p 4711", "report -p 4711"),
        ("-p 4711 arenas --limit 3", "arenas -p 4711 --limit 3"),
        ("-p4711 --core=a.core trim", "trim -p4711 --core=a.core"),
        ("-c report report", "report -c report"),
        ("-p", "report -p"),
        ("arenas report", "arenas report"),
        *((line, line) for line in ("", "--help", "-V", "--vers", "--completion bash", "--comp bash")),
    ],
)
def test_the_command_may_be_left_out(line: str, whole: str) -> None:
    """Then it is the report; and what is to be read may stand before it, named by its option."""
    assert with_command(line.split()) == whole.split()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("reprot 1", "mean report"),
        ("1 trim", ": arenascope trim 1"),
        ("./a.core owners --json", ": arenascope owners ./a.core --json"),
        ("--versoin", "mean --version?"),
        ("--fulll 1", "mean --full?"),
    ],
)
def test_a_line_that_begins_with_nothing_known(line: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)) as raised:
        with_command(line.split())
    assert raised.value.hint is None or "arenascope --help" in raised.value.hint


def test_an_abbreviation_means_the_same_in_all_doors() -> None:
    """The command's go before what the shell adds: --s is --sort beside --stop, and --js --json beside --jsonl."""
    for words in (["--s", "free", "--js"], ["-so=free", "-j"]):
        typed = find_command("arenas").parser("heap").parse_args(words)
        found = CommandTree(["arenas"]).parse_args(["arenas", *words])
        assert (typed.sort, typed.json) == (found.sort, found.json) == ("free", True)
        assert not found.jsonl


def test_what_a_door_completes_by_itself() -> None:
    arguments = find_command("arenas").all_arguments()
    assert completions(arguments, "", "--li") == ["--libc", "--limit"]
    assert completions(arguments, "--sort", "") == ["free", "index", "resident", "system", "top", "used"]
    assert completions(arguments, "--sort", "f") == ["free"]
    assert completions(arguments, "--limit", "") == completions(arguments, "", "x") == []
