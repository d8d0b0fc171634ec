"""What is LLDB's own: loading, help, completion, and thread pointers before LLDB 18."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from doors import GDB
from lldb_door import LLDB_ARENA_PY, LLDB_LOAD, LLDBS, Lldb, empty_folder
from looks import ROOT, failure_id, give_up
from marks import in_full
from platforms import ELSEWHERE
from shell_door import arenascope
from subjects import Subject
from test_loading import COMMANDS, groups

from arenascope.commands.framework.overview import GROUP_OF_LOOPS, help_text

pytestmark = pytest.mark.xdist_group("lldb")

# what a command cannot do without
WORDS = {
    "chunk": "chunk 0x1000",
    "refs": "refs 0x1000",
    "owner": "owner 0x1000",
    "snapshot": "snapshot /nonexistent/file",
    "save": "save /nonexistent/file",
}
PARSED = 19
"""The first version that is told a command's options."""


def attach(subject: Subject) -> list[str]:
    return ["-p", str(subject.pid)]


def run(*commands: str) -> list[str]:
    return [word for command in commands for word in ("-o", command)]


# loading


def test_loading_prints_nothing(lldb: Lldb) -> None:
    finished = lldb.start(LLDB_LOAD)
    assert finished.returncode == 0
    # beside what was typed
    assert [line for line in (finished.stdout + finished.stderr).splitlines() if not line.startswith("(lldb) ")] == []


def test_nothing_of_the_working_directory_is_run(lldb: Lldb, tmp_path: Path) -> None:
    """LLDB has it on Python's path."""
    mark = tmp_path / "mark"
    folder = tmp_path / "hostile"
    (folder / "arenascope").mkdir(parents=True)
    for name in ("tabulate", "pygments", "tqdm", "arenascope/__init__", "argparse"):
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write(__name__)\n")
    (version,) = lldb.drive([], [{"do": "heap version"}], cwd=folder)
    assert "tabulate" in version.text
    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize("how", ["symlink", *in_full("path from elsewhere", "relative path", "twice", "installed")])
def test_loads_from_anywhere(lldb: Lldb, subject: Subject, tmp_path: Path, how: str) -> None:
    link = tmp_path / "of_another_name.py"
    link.symlink_to(LLDB_ARENA_PY)
    wheel = tmp_path / "site-packages" / "arenascope"
    if how == "installed":
        shutil.copytree(ROOT / "common" / "arenascope", wheel)
        shutil.copytree(ROOT / "lldb", wheel / "doors" / "lldb")
    paths = {
        "path from elsewhere": [LLDB_ARENA_PY],
        "relative path": ["lldb/arena.py"],
        "symlink": [link],
        "twice": [LLDB_ARENA_PY, link],
        "installed": [wheel / "doors" / "lldb" / "arena.py"],
    }[how]
    load = run(*(f"command script import {path}" for path in paths))
    cwd = ROOT if how == "relative path" else tmp_path
    (outcome,) = lldb.drive(attach(subject), [{"do": "heap info"}], load=load, cwd=cwd)
    assert (outcome.error, outcome.text) == (None, subject.info_xml)


def test_loaded_again_it_forgets_the_old_code(lldb: Lldb) -> None:
    mark = run("script import arenascope; arenascope.mark = 1")
    finished = lldb.start(
        [
            *LLDB_LOAD,
            *mark,
            *LLDB_LOAD,
            *run(
                "script print(hasattr(arenascope, 'mark'))",
                "script import arenascope; print(arenascope.__name__)",
                "script print(hasattr(arenascope, 'mark'))",
            ),
        ]
    )
    assert finished.stdout.splitlines()[-1] == "False"


def test_another_heap_command_is_left_alone(lldb: Lldb, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.py"
    theirs.write_text("def heap(debugger, line, result, names): print('theirs')\n")
    finished = lldb.start(
        run(
            f"command script import {theirs}",
            "command script add -f theirs.heap heap",
            LLDB_LOAD[1],
            "heap",
            "arenascope version",
        )
    )
    assert "`heap`" in finished.stdout + finished.stderr
    assert "theirs" in finished.stdout
    assert "glibc" not in finished.stdout
    assert "\narenascope " in finished.stdout


# help and completion


@pytest.mark.parametrize("prefix", ["heap", "arenascope"])
def test_the_overview_is_the_shells(lldb: Lldb, prefix: str) -> None:
    """Alone the prefix says where to begin; LLDB puts its own list below."""
    asked_for = ("help all", "--help", "", "help", "help bins", "bins --help", "help main arena", "help nonsense")
    steps = [{"do": f"{prefix} {words}".strip()} for words in asked_for]
    overview, option, alone, start, asked, same, word, wrong = lldb.drive([], steps)
    assert start.text == help_text(prefix, [])
    assert start.text in alone.text
    assert groups(overview.text, f"  {prefix} help COMMAND") == groups(arenascope("--help").stdout, GROUP_OF_LOOPS)
    assert "`arenascope report`" in overview.text
    assert option.text == overview.text
    assert asked.text == same.text
    assert wrong.error is not None
    assert word.text.lstrip().startswith("main arena (main, main_arena)\n    ")
    assert re.match(rf"{prefix} help: .*'nonsense' \({prefix} help ", wrong.error)


def test_completion(lldb: Lldb) -> None:
    lines = ["heap ", "arenascope ", "heap ar", "heap arenas --", "heap arenas --sort ", "heap trim --ap"]
    names, others, one, options, values, apply = (
        each.value for each in lldb.drive([], [{"complete": line} for line in lines])
    )
    assert names == others == sorted([*COMMANDS, "help", "--help"])
    assert one == ["arenas"]
    if lldb.version >= PARSED:
        assert sorted(options) == ["--bytes", "--help", "--json", "--libc", "--limit", "--quick", "--sort", "--table"]
        assert sorted(values) == ["free", "index", "resident", "system", "top", "used"]
        assert apply == ["--apply"]
    else:
        assert options == values == apply == []


def test_no_process(lldb: Lldb) -> None:
    asked = [WORDS.get(command, command) for command in COMMANDS if command not in ("version", "diff", "trend")]
    for outcome in lldb.drive([], [{"do": f"heap {command}"} for command in asked]):
        assert "no process" in outcome.error
        assert "process attach" in outcome.error
        assert len(outcome.error.splitlines()) == 1


def test_an_error_ends_a_batch_as_lldbs_own_do(lldb: Lldb, subject: Subject) -> None:
    finished = lldb.start([*attach(subject), *LLDB_LOAD, *run("heap bins --arena 999 --json", "version")])
    assert "no arena 999" in finished.stderr
    (line,) = [line for line in finished.stdout.splitlines() if line.startswith("{")]
    assert failure_id(line) == "usage"
    assert "lldb version" not in finished.stdout


# what LLDB is asked


def test_addresses(lldb: Lldb, subject: Subject) -> None:
    """Numbers and expressions; a mere number or register leaves nothing behind in the process."""
    statements = """
from arenascope.commands.framework.overview import GROUP_OF_LOOPS
from arenascope.commands.framework.debugger_doors import load_from_folder
seen = load_from_folder("lldb", "heap_target", FOLDER).LldbTarget(target, debugger)
def ask(words):
    try: return seen.evaluate(words)
    except Exception as error: return [type(error).__name__, str(error)]
def mappings(): return len(open(f"/proc/{process.id}/maps").readlines())
before = mappings()
value = [ask("0x1000"), ask("4096"), ask("$sp") == process.GetSelectedThread().frame[0].sp, mappings() - before,
         ask("0x1000 + 16"), ask("nonsense"), ask("")]
""".replace("FOLDER", repr(str(LLDB_ARENA_PY.parent)))
    (outcome,) = lldb.drive(attach(subject), [{"python": statements}])
    *numbers, wrong, empty = outcome.value
    assert numbers == [4096, 4096, True, 0, 4112]
    assert wrong[0] == empty[0] == "UsageError"
    assert "nonsense" in wrong[1]


def test_thread_pointers_are_those_that_gdb_reads(lldb: Lldb) -> None:
    """Before LLDB 18 from libc's own lists, and in a static program from what control blocks look like."""
    if GDB.available():
        give_up(GDB.available())
    for fixture in ("bins", "bins.static", "dlmopen"):
        with Subject(fixture) as subject:
            steps = [{"each_thread": {"fs_base": "$fs_base"}}]
            (expected,) = GDB.drive(["-p", str(subject.pid)], steps, load=())
            statements = f"""
from arenascope.commands.framework.debugger_doors import load_from_folder
from arenascope.session.session import Session
seen = load_from_folder("lldb", "heap_target", {str(LLDB_ARENA_PY.parent)!r})
session = Session(seen.LldbTarget(target, debugger))
value = {{words.thread.tid: words.thread.thread_pointer for words in session.thread_words}}
"""
            (found,) = lldb.drive(attach(subject), [{"python": statements}])
            assert found.value == {tid: words["fs_base"] for tid, words in expected.value.items()}, fixture


# what LLDB takes for something else


@pytest.mark.full
@pytest.mark.parametrize("lldb", LLDBS, ids=lambda door: door.name, indirect=True)
def test_a_32_bit_program_that_lldb_cannot_open(lldb: Lldb) -> None:
    """As from another mount namespace: LLDB then takes it for a program of 64 bits (14 loses its own server)."""
    platform = next(each for each in ELSEWHERE if each.id == "i386")
    with Subject("bins", platform=platform) as subject:
        info, threads = lldb.drive(
            attach(subject),
            [{"do": "heap info"}, {"do": "heap threads --json"}],
            hide={subject.program.parent: empty_folder()},
        )
        assert info.text == subject.info_xml
        assert {each["name"] for each in threads.json()["threads"]} == set(subject.thread_names().values())
