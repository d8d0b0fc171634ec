"""Loading into GDB: from anywhere, twice, beside others, without anything installed; help, completion, scripts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from doors import ARENA_PY, LOAD, ROOT, Gdb, enables_settings
from marks import in_full
from schemas import valid
from shell_door import arenascope
from subjects import Subject

from arenascope.commands.framework.overview import GROUP_OF_LOOPS, help_text

COMMANDS = (
    "arenas",
    "heaps",
    "bins",
    "threads",
    "params",
    "mmapped",
    "mappings",
    "check",
    "trim",
    "chunks",
    "chunk",
    "pins",
    "types",
    "containers",
    "waste",
    "map",
    "refs",
    "owner",
    "leaks",
    "owners",
    "report",
    "save",
    "snapshot",
    "diff",
    "trend",
    "info",
    "stats",
    "version",
)
"""All that every door has, by hand: nothing here asks the doors."""


def groups(overview: str, end: str) -> dict[str, list[str]]:
    """The lines of commands under each heading, which stand between the usage and what a door says for itself."""
    found: dict[str, list[str]] = {}
    for line in overview.partition(end)[0].splitlines()[2:]:
        if line.endswith(":") and not line.startswith(" "):
            lines = found.setdefault(line, [])
        elif line.startswith("   "):
            lines[-1] += f" {line.strip()}"
        elif line.startswith("  "):
            lines.append(line)
    return found


pytestmark = pytest.mark.xdist_group("loading")

ANOTHER = """
import gdb
class Heap(gdb.Command):
    "Theirs."
    def __init__(self): super().__init__("heap", gdb.COMMAND_DATA)
    def invoke(self, line, from_tty): print("theirs", line)
Heap()
"""


def attach(subject: Subject) -> list[str]:
    return ["-p", str(subject.pid)]


def typed(command: str, folder: Path) -> str:
    """A command with what it cannot do without."""
    words = {
        "chunk": "$sp",
        "refs": "$sp",
        "owner": "$sp",
        "snapshot": str(folder / "saved"),
        "save": str(folder / "saved.core"),
        "diff": str(folder / "saved"),
        "trend": str(folder),
    }
    return f"{command} {words[command]}" if command in words else command


def run(*commands: str) -> list[str]:
    return [word for command in commands for word in ("-ex", command)]


# loading


def test_loading_prints_nothing(gdb: Gdb) -> None:
    finished = gdb.start(LOAD)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "how",
    [
        "path from elsewhere",
        "symlink",
        "from a Python script",
        *in_full("relative path", "relative symlink", "twice", "from a command file", "-x"),
    ],
)
def test_loads_from_anywhere(gdb: Gdb, subject: Subject, tmp_path: Path, how: str) -> None:
    link = tmp_path / "link.py"
    link.symlink_to(ARENA_PY)
    cwd, load = (
        tmp_path,
        {
            "path from elsewhere": run(f"source {ARENA_PY}"),
            "relative path": run("source gdb/arena.py"),
            "symlink": run(f"source {link}"),
            "relative symlink": run("source link.py"),
            "twice": run(f"source {ARENA_PY}", f"source {link}"),
            "-x": ["-x", str(ARENA_PY)],
            "from a Python script": ["-x", str(tmp_path / "init.py")],
            "from a command file": ["-x", str(tmp_path / "init.gdb")],
        }[how],
    )
    (tmp_path / "init.py").write_text(f"import gdb\ngdb.execute('source {ARENA_PY}')\n")
    (tmp_path / "init.gdb").write_text(f"source {ARENA_PY}\n")
    finished = gdb.start([*attach(subject), *load, *run("heap info")], cwd=ROOT if how == "relative path" else cwd)
    assert subject.info_xml in finished.stdout
    assert "arenascope" not in finished.stdout + finished.stderr


def test_sourced_again_it_forgets_the_old_code(gdb: Gdb) -> None:
    check = "python import arenascope; print('stale' if hasattr(arenascope, 'mark') else 'fresh')"
    finished = gdb.start([*LOAD, *run("python import arenascope; arenascope.mark = 1"), *LOAD, *run(check)])
    assert finished.stdout == "fresh\n"


def test_the_debuggers_own_module_stays(gdb: Gdb) -> None:
    check = "python import sys, gdb; print(gdb.__name__, [p for p in sys.path if p.rstrip('/') in ('{0}', '{0}/gdb')])"
    assert gdb.start([*LOAD, *run(check.format(ROOT))]).stdout == "gdb []\n"


def test_beside_another_extension(gdb: Gdb, subject: Subject, tmp_path: Path) -> None:
    (tmp_path / "another.py").write_text(ANOTHER)
    finished = gdb.start(
        [
            *attach(subject),
            "-x",
            str(tmp_path / "another.py"),
            *run("echo before\\n"),
            *LOAD,
            *run("echo after\\n", "heap arenas", "arenascope info", "help arenascope"),
        ]
    )
    said, rest = finished.stdout.partition("before\n")[2].split("after\n")
    assert len(said.splitlines()) == 1
    assert "`heap`" in said
    assert "`arenascope`" in said
    assert rest.startswith("theirs arenas\n" + subject.info_xml)
    assert "arenascope arenas -- " in rest


ANOTHER_PREFIX = """
import gdb
class Heap(gdb.Command):
    "Theirs."
    def __init__(self): super().__init__("heap", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)
class Chunks(gdb.Command):
    "Theirs."
    def __init__(self): super().__init__("heap chunks", gdb.COMMAND_DATA)
    def invoke(self, line, from_tty): print("their chunks")
Heap(), Chunks()
"""


@pytest.mark.parametrize("theirs", [ANOTHER, *in_full(ANOTHER_PREFIX)], ids=["a command", "a prefix"])
def test_another_extension_comes_later(gdb: Gdb, subject: Subject, tmp_path: Path, theirs: str) -> None:
    """Then `heap` is theirs, and ours is left whole under `arenascope`; sourced again we still let them have it."""
    (tmp_path / "another.py").write_text(theirs)
    words = run("echo @\\n", "heap chunks", "echo @\\n", "arenascope info", "echo @\\n", "arenascope help all")
    for again in ([], LOAD):
        finished = gdb.start([*attach(subject), *LOAD, "-x", str(tmp_path / "another.py"), *again, *words])
        _, heap, info, overview = finished.stdout.split("@\n")
        assert heap == ("their chunks\n" if theirs == ANOTHER_PREFIX else "theirs chunks\n")
        assert info == subject.info_xml
        assert "`arenascope report`" in overview


def test_without_any_third_party_module(gdb: Gdb, subject: Subject, tmp_path: Path) -> None:
    names = ("tabulate", "pygments", "tqdm", "prometheus_client")
    hide = run(*(f"python import sys; sys.modules[{name!r}] = None" for name in names))
    steps = [{"do": f"heap {typed(command, tmp_path)}{option}"} for command in COMMANDS for option in ("", " --json")]
    outcomes = gdb.drive(attach(subject), steps, load=[*hide, *LOAD])
    assert [outcome.error for outcome in outcomes] == [None] * len(steps)
    by_command = {outcome.command: outcome.text for outcome in outcomes}
    assert by_command["heap info"] == subject.info_xml
    libraries = valid(json.loads(by_command["heap version --json"]))["libraries"]
    assert libraries == {name: f"{name}: not found" for name in names}
    arenas = valid(json.loads(by_command["heap arenas --json"]))["arenas"]
    assert all(each["address"] for each in arenas)
    assert "main" in by_command["heap arenas"]


def test_loading_loads_no_library(gdb: Gdb) -> None:
    before = "python import sys; before = set(sys.modules)"
    after = "python import json; print(json.dumps(sorted(set(sys.modules) - before)))"
    loaded = json.loads(gdb.start([*run(before), *LOAD, *run(after)]).stdout)
    assert not {"prometheus_client", "pygments", "tabulate", "tqdm"} & set(loaded)


def test_loading_leaves_settings_alone(gdb: Gdb) -> None:
    shown = ("confirm", "pagination", "width", "height", "style enabled", "print pretty", "language")
    show = run(*(f"show {name}" for name in shown))
    assert gdb.start(show).stdout == gdb.start([*LOAD, *show]).stdout


# help and completion


OVERVIEW = ("help all", "--help", "-h")


@pytest.mark.parametrize("prefix", ["heap", "arenascope"])
def test_the_overview_is_the_shells(gdb: Gdb, prefix: str) -> None:
    steps = [
        {"do": f"{prefix} {words}".strip()}
        for words in (*OVERVIEW, "", "help", "help bins", "bins --help", "help main arena", "help nonsense", "arenass")
    ]
    overview, *others, alone, start, asked, same, word, wrong, mistyped = gdb.drive([], steps)
    shown = groups(overview.text, f"  {prefix} help COMMAND")
    assert shown == groups(arenascope("--help").stdout, GROUP_OF_LOOPS)
    assert sorted(line.split()[0] for lines in shown.values() for line in lines) == sorted(COMMANDS)
    assert "`arenascope report`" in overview.text
    assert [each.text for each in others] == [overview.text] * len(others)
    assert alone.text == start.text == help_text(prefix, [])
    assert "mean arenas" in mistyped.error
    assert asked.text == same.text
    assert re.fullmatch(rf"{prefix} help: .*'nonsense' \({prefix} help .*{prefix} help words .*\)", wrong.error)
    assert word.text.startswith("main arena (main, main_arena)\n    ")


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("heap ar", ["heap arenas"]),
        ("heap arenas --bytes --j", ["heap arenas --bytes --json"]),
        ("heap arenas --limit fr", []),
        pytest.param(
            "heap arenas -",
            [f"heap arenas --{name}" for name in ("bytes", "help", "json", "libc", "limit", "quick", "sort", "table")],
            marks=pytest.mark.full,
        ),
    ],
)
def test_completion(gdb: Gdb, start: str, expected: list[str]) -> None:
    (found,) = gdb.drive([], [{"do": f"complete {start}"}])
    assert found.text.splitlines() == expected


# scripts


def test_gdbs_way_of_writing_options(gdb: Gdb, subject: Subject) -> None:
    steps = [
        {"do": f"heap {words}"}
        for words in (
            "arenas --json",
            "arenas -json",
            "bins -json -arena 1",
            "bins --json --arena=1",
            "bins -json -arena=1",
            "bins -js --ar 1",
        )
    ]
    found = [outcome.json() for outcome in gdb.drive(attach(subject), steps)]
    assert found[0] == found[1]
    assert found[2] == found[3] == found[4] == found[5]
    assert {row["arena"] for row in found[2]["bins"] if row["kind"] != "tcache"} == {1}


def test_output_goes_where_gdb_sends_it(gdb: Gdb, subject: Subject, tmp_path: Path) -> None:
    log = tmp_path / "log"
    on, off = ("enabled on", "enabled off") if enables_settings() else ("on", "off")
    finished = gdb.start(
        [
            *attach(subject),
            *LOAD,
            *run(
                f"set logging file {log}",
                "set logging redirect on",
                f"set logging {on}",
                "heap info",
                f"set logging {off}",
                "pipe heap info | wc -c",
            ),
        ]
    )
    assert log.read_text() == subject.info_xml
    assert str(len(subject.info_xml)) in finished.stdout.splitlines()
    assert "<malloc" not in finished.stdout


def test_never_stale(gdb: Gdb, subject: Subject) -> None:
    """Each command reads anew: what changed between two is seen."""
    steps = [
        {"do": "heap arenas --json"},
        {"do": "set var main_arena.max_system_mem += 4096"},
        {"do": "heap arenas --json"},
        {"do": "set var main_arena.max_system_mem -= 4096"},
    ]
    before, _, after, _ = gdb.drive(attach(subject), steps)
    assert after.json()["arenas"][0]["max_system_bytes"] == before.json()["arenas"][0]["max_system_bytes"] + 4096
