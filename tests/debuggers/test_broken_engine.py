"""Every function of the engine panics in turn: each command that meets it ends with one line that can be sent, the
process runs on, and a debugger's session goes on.

The engine is built with the feature `broken`, and ARENASCOPE_BROKEN tells which function panics: see
engine/src/broken.rs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Union

import pytest
from doors import GDB, ROOT, Gdb, Live
from lldb_door import NEWEST_LLDB, Lldb
from looks import Outcome, complaints, failure_id, give_up, one_line, opened, plain_environment, run
from subjects import Started, Subject

from arenascope.engine import BUILT

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("broken_engine")]

STATUS = 3
FUNCTION = re.compile(r'extern "C" fn arenascope_(\w+)\(.*?\{\n(.*?)^\}', re.DOTALL | re.MULTILINE)
GUARD = re.compile(r"\b(?:guarded|gives|answered|close)\(")
UNGUARDED = {"interface"}
"""It returns a constant."""
DIRECT = {"graph": "made()", "graph_deepen": "made().deepen(array('I', [0]))"}
"""What no command asks for here: unit tests alone make graphs of given edges, and only PostgreSQL's are deepened. So
these are called from Python."""
COPYING = {"room", "copy"}
"""The shell alone copies a live process."""
CALL = """
import sys
sys.path.insert(0, sys.argv[1])
from array import array
from arenascope.engine import EdgeTable, EngineError
made = lambda: EdgeTable.of(array("I", [0, 0]), array("I"))
try:
    {call}
    print("nothing")
except EngineError as error:
    print(error)
"""
PYTHON = "kept = [{'a': each, 'b': [each]} for each in range(20000)]; print('ready'); input()"


class Look(NamedTuple):
    """A command about a program; LOST in it is the address of a block that may be lost, SESSION that of a Session."""

    program: str
    command: str


LOOKS = [
    *(
        Look("kinds", command)
        for command in (
            "types",
            "types Session --values",
            "types --where Session:body_size>=0",
            "chunk SESSION",
            "leaks",
            "owners",
            "containers",
            "pins",
            "chunks",
            "check",
            "map",
            "trim",
            "report --types --owners",
            "arenas",
        )
    ),
    # encoded pointers are looked for where something is lost
    Look("leaky", "leaks"),
    Look("leaky", "owners"),
    Look("leaky", "refs LOST"),
    # a pointer to the inside is judged
    Look("insides", "refs LOST"),
    # words that hold no pointer, by members' names
    Look("stale", "leaks"),
    # objects of one type by their addresses
    Look("python", "types"),
    # what modules lead to
    Look("python", "containers"),
]
RECORD = """
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
from arenascope import engine
from arenascope.cli.main import main

found, library = set(), engine._library


class Recording:
    def __getattr__(self, name):
        found.add(name)
        return getattr(library(), name)


recording = Recording()
engine._library = lambda: recording
said = io.StringIO()
with contextlib.redirect_stdout(said):
    status = main(sys.argv[2:])
print(json.dumps([status, sorted(each.partition("_")[2] for each in found)]))
"""
"""Tells which functions a command meets."""


def places() -> dict[str, Optional[str]]:
    """Where each function for C has its work guarded, as FILE:LINE."""
    found: dict[str, Optional[str]] = {}
    for path in sorted((ROOT / "engine" / "src").rglob("*.rs")):
        text = path.read_text()
        for function in FUNCTION.finditer(text):
            guard = GUARD.search(text, function.start(2), function.end(2))
            line = text.count("\n", 0, guard.start()) + 1 if guard else 0
            found[function[1]] = f"{path.relative_to(ROOT / 'engine')}:{line}" if guard else None
    return found


PLACES = places()
ENDING = {each for each in PLACES if each == "free" or each.split("_")[-1] == "close"}
"""They return nothing."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with such an engine."""
    asked = subprocess.run([ROOT / "scripts" / "engine.sh", "cargo"], capture_output=True, text=True)
    if asked.returncode:
        give_up("no cargo here that is new enough: make engine says which")
    cargo, target = Path(asked.stdout.strip()), tmp_path_factory.mktemp("target")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CARGO_BUILD_TARGET")}
    subprocess.run(
        [cargo, "build", "--release", "--locked", "--quiet", "--features", "broken"],
        cwd=ROOT / "engine",
        env={**kept, "PATH": f"{cargo.parent}:{os.environ['PATH']}", "CARGO_TARGET_DIR": str(target)},
        check=True,
        timeout=600,
    )
    root = tmp_path_factory.mktemp("root")
    for name in ("bin", "common", "gdb", "lldb"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    (root / BUILT).parent.mkdir(parents=True)
    shutil.copy(target / "release" / Path(BUILT).name, root / BUILT)
    return root


@pytest.fixture(scope="module")
def pid_of() -> Iterator[Callable[[str], int]]:
    """Starts each program once."""
    pids: dict[str, int] = {}
    with ExitStack() as stack:

        def pid_of(program: str) -> int:
            if program == "python" and program not in pids:
                pids[program] = stack.enter_context(Started(sys.executable, "-c", PYTHON)).pid
            elif program not in pids:
                pids[program] = stack.enter_context(Subject(program)).pid
            return pids[program]

        yield pid_of


@pytest.fixture(scope="module")
def words_of(root: Path, pid_of: Callable[[str], int]) -> Callable[[Look], list[str]]:
    """Makes the words of a command line."""

    def words_of(look: Look) -> list[str]:
        pid, (name, *words) = pid_of(look.program), look.command.split()
        if "LOST" in words:
            said = run([str(root / "bin" / "arenascope"), "leaks", str(pid), "--json"]).stdout
            words = [json.loads(said)["leaks"][0]["samples"][0]]
        if "SESSION" in words:
            said = run([str(root / "bin" / "arenascope"), "types", str(pid), "Session", "--json"]).stdout
            words = [json.loads(said)["types"][0]["samples"][0]]
        return [name, str(pid), *words]

    return words_of


Met = Mapping[Look, tuple[int, list[str]]]


@pytest.fixture(scope="module")
def met(root: Path, words_of: Callable[[Look], list[str]]) -> Met:
    """Each command's status where nothing is broken, and the functions that it meets."""
    found = {}
    for look in LOOKS:
        done = run([sys.executable, "-c", RECORD, str(root / "common"), *words_of(look)])
        status, functions = json.loads(done.stdout)
        assert not complaints(done.stderr)
        found[look] = (status, [each for each in functions if each not in UNGUARDED])
    return found


def is_left_alone(pid: int) -> bool:
    """Whether the process runs and nobody traces it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(re.search(r"^State:\s+[SR] ", status, re.MULTILINE) and re.search(r"^TracerPid:\s+0$", status, re.M))


def broken(function: str) -> dict[str, str]:
    """The environment in which it panics."""
    return plain_environment({"ARENASCOPE_BROKEN": PLACES[function] or ""})


def test_every_function_is_met(met: Met) -> None:
    assert {name for name, place in PLACES.items() if place is None} == UNGUARDED
    assert set(PLACES) - {each for _, functions in met.values() for each in functions} == UNGUARDED | set(DIRECT)


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: f"{look.command} of {look.program}")
def test_in_the_shell(
    root: Path, pid_of: Callable[[str], int], words_of: Callable[[Look], list[str]], met: Met, look: Look
) -> None:
    (usual, functions), words = met[look], words_of(look)
    if look.program != "kinds":
        # of other programs what that one does not meet
        spared = {each for other, (_, those) in met.items() if other.program == "kinds" for each in those}
        functions = [each for each in functions if each not in spared]
    assert functions
    for function in functions:
        done = run([str(root / "bin" / "arenascope"), *words], broken(function))
        said = complaints(done.stderr)
        if function in ENDING:
            assert (done.returncode, said, bool(done.stdout)) == (usual, [], True), f"{function}: {done}"
        else:
            assert (done.returncode, len(said), done.stdout) == (STATUS, 1, ""), f"{function}: {done}"
            assert "a fault of arenascope's own: EngineError: code 4 [" in said[0]
        assert is_left_alone(pid_of(look.program)), function


def test_in_json(root: Path, words_of: Callable[[Look], list[str]]) -> None:
    command = [str(root / "bin" / "arenascope"), *words_of(Look("kinds", "types")), "--json"]
    done = run(command, broken("trace"))
    assert (done.returncode, len(complaints(done.stderr)), failure_id(done.stdout)) == (STATUS, 1, "internal-error")


@pytest.mark.parametrize("function", DIRECT)
def test_from_python(root: Path, function: str) -> None:
    command = [sys.executable, "-c", CALL.format(call=DIRECT[function]), str(root / "common")]
    assert run(command, broken(function)).stdout == "code 4\n"
    assert run(command).stdout == "nothing\n"


@pytest.mark.parametrize("door", [GDB, NEWEST_LLDB], ids=lambda door: door.name)
def test_a_session_goes_on(root: Path, pid_of: Callable[[str], int], met: Met, door: Union[Gdb, Lldb]) -> None:
    """A function panics once, then the next: after each another command works, and at the end all show what a session
    without any error shows."""
    pid = pid_of("kinds")
    image = Live(pid, Path(os.readlink(f"/proc/{pid}/exe")))
    if opened(door) is GDB:
        python, load = "python", ("-ex", f"source {root / 'gdb' / 'arena.py'}")
    else:
        python, load = "script", ("-o", f"command script import {root / 'lldb' / 'arena.py'}")
    commands: dict[str, str] = {}
    for look, (_, functions) in met.items():
        if look.program == "kinds":
            commands.update((each, f"heap {look.command}") for each in functions if each not in commands)
    turns = [(each, commands[each]) for each in commands if each not in ENDING | COPYING]

    def broken_at(place: Optional[str]) -> str:
        return f"{python} import os; os.environ['ARENASCOPE_BROKEN'] = '{place or ''}'"

    asked = list(dict.fromkeys(command for _, command in turns))
    steps = [
        step
        for function, command in turns
        for step in (broken_at(PLACES[function]), command, broken_at(None), "heap check")
    ]
    sound = dict(zip(["heap check", *asked], do(door, image, ["heap check", *asked], load)))
    outcomes = do(door, image, [*steps, *asked], load)
    assert all(each.error is None for each in sound.values())
    for at, (function, _) in enumerate(turns):
        _, failed, _, next_one = outcomes[4 * at : 4 * at + 4]
        assert "a fault of arenascope's own: EngineError: code 4 [" in one_line(failed), function
        assert (next_one.error, next_one.text) == (None, sound["heap check"].text), function
    assert [each.text for each in outcomes[len(steps) :]] == [sound[command].text for command in asked]
    assert {"sweep", "types_read", "trace", "edges", "graph_mark"} <= {function for function, _ in turns}
    assert is_left_alone(pid)


def do(door: Union[Gdb, Lldb], image: Live, words: list[str], load: tuple[str, str]) -> list[Outcome]:
    """What came of the debugger's commands in one session."""
    return door.drive(door.look_at(image), [{"do": word} for word in words], load=load)
