"""What tests look at through a door, and what comes of it: the words that all debuggers' doors share."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Callable, Mapping, NoReturn, Optional, Sequence, TypeVar, Union

import pytest
from lifetimes import lasting_folder
from platforms import not_fetched
from schemas import valid

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TIMEOUT = 120
# scripts/setup.sh's list of what no package gives here
NOT_TO_BE_HAD = ROOT / ".venv" / "absent"
# what no run may print: an exception that nobody caught, or a debugger's own breakdown
BREAKDOWNS = ("Traceback", "Python Exception", "Error occurred in Python", "internal-error: ")


@dataclass(frozen=True)
class Live:
    pid: int
    program: Path
    kind = "live"


@dataclass(frozen=True)
class Core:
    path: Path
    program: Path
    kind = "core"


Image = Union[Live, Core]


@dataclass(frozen=True)
class Outcome:
    """What came of one command: exactly what it wrote, or the debugger's error."""

    command: str
    text: str
    error: Optional[str] = None
    value: Any = None
    seconds: float = 0.0

    def json(self) -> dict[str, Any]:
        assert self.error is None, f"{self.command}: {self.error}"
        return valid(json.loads(self.text))


Asked = tuple[Image, Sequence[str]]
"""What is looked at, and the commands, named without their prefix."""


class Door:
    name: str
    own_words: Mapping[str, Sequence[str]] = {}
    """What the debugger itself says to wrong words, before it asks arenascope."""

    def available(self) -> Optional[str]:
        """Why it cannot be opened here, or None."""
        return None

    def run(self, image: Image, commands: Sequence[str], symbols: bool = True) -> list[Outcome]:
        """Runs the commands, named without their prefix, in one session of the debugger. Without symbols, neither
        libc's nor the program's are there."""
        return self.run_each([(image, commands)], symbols)[0]

    def run_each(self, asked: Sequence[Asked], symbols: bool = True) -> list[list[Outcome]]:
        """The same of several cores of one program: the next is opened where the last one was."""
        raise NotImplementedError


AnyDoor = TypeVar("AnyDoor", bound=Door)


def opened(door: AnyDoor) -> AnyDoor:
    """The door, where it can be opened here."""
    reason = door.available()
    if reason:
        give_up(reason)
    return door


SECONDS = 60
"""No command takes as long on what is wrong, or damaged."""


def complaints(said: str) -> list[str]:
    """The lines of them. The shell says besides for how long a process stood still, and whether that comes again where
    it was long, as it may be on a busy machine."""
    return [line for line in said.strip().splitlines() if not re.match(r"process \d+ stood still for ", line)]


def failure_id(text: str) -> str:
    """Of the document that a command wrote which failed."""
    (problem,) = valid(json.loads(text))["problem_records"]
    return problem["id"]


def one_line(outcome: Outcome) -> str:
    """The error, which is one line and the only thing said."""
    assert outcome.error, f"{outcome.command} said {outcome.text!r}"
    if "--json" in outcome.command.split() and outcome.text:
        # GDB keeps no output of a command that fails
        assert valid(json.loads(outcome.text))["error"]
    else:
        assert outcome.text == ""
    said = complaints(outcome.error)
    assert len(said) == 1, outcome.error
    assert outcome.seconds < SECONDS
    return outcome.error if outcome.error.startswith(said[0]) else said[0]


def completed(*words: object, status: Optional[int] = 0, **how: Any) -> subprocess.CompletedProcess[str]:
    """A program's whole run; any status is right where none is named. `how` is subprocess.run's."""
    how = {"stdin": subprocess.DEVNULL, "timeout": 500, "env": plain_environment(), **how}
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, **how)
    assert status is None or done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def run(
    command: Sequence[str], variables: Optional[dict[str, str]] = None, **how: Any
) -> subprocess.CompletedProcess[str]:
    """A debugger's whole run, or the shell's; fails the test where it breaks down."""
    how = {"timeout": TIMEOUT, "errors": "replace", **how}
    done = completed(*command, status=None, env=plain_environment(variables), **how)
    assert not any(word in done.stdout + done.stderr for word in BREAKDOWNS), done
    return done


class Debugger(Door):
    """A debugger in batch mode, without the user's own settings and without the network."""

    load: Sequence[str]
    """The words that load arenascope."""
    driver: Sequence[str]
    """The words that run its drive_*.py."""
    calculates: Sequence[str]
    """The words that have its Python print 42."""
    start: Callable[..., subprocess.CompletedProcess[str]]
    look_at: Callable[..., list[str]]
    """The arguments that make it look at an image, with symbols or without."""
    following: Callable[[Core], list[str]]
    """The commands that open another core instead."""

    def available(self) -> Optional[str]:
        return why_not(self)

    def run_each(self, asked: Sequence[Asked], symbols: bool = True) -> list[list[Outcome]]:
        openings = [[], *(self.following(core) for core, _ in asked[1:])]
        words = []
        for opening, (_, commands) in zip(openings, asked):
            words += [*opening, *(f"heap {command}" for command in commands)]
        outcomes = iter(self.do(asked[0][0], words, symbols))
        said = []
        for opening, (_, commands) in zip(openings, asked):
            for outcome in islice(outcomes, len(opening)):
                assert outcome.error is None, outcome
            said.append(list(islice(outcomes, len(commands))))
        return said

    def do(self, image: Image, words: Sequence[str], symbols: bool = True, **how: Any) -> list[Outcome]:
        """The debugger's own commands among arenascope's, as they are typed."""
        return self.drive(self.look_at(image, symbols), [{"do": word} for word in words], **how)

    def drive(
        self,
        arguments: Sequence[str],
        steps: Sequence[dict[str, Any]],
        load: Optional[Sequence[str]] = None,
        variables: Optional[dict[str, str]] = None,
        **how: Any,
    ) -> list[Outcome]:
        """The steps of the driver, in one debugger that has arenascope loaded."""
        with tempfile.TemporaryDirectory(prefix="arenascope-steps-") as folder:
            results = Path(folder) / "results"
            task = {"ARENASCOPE_STEPS": json.dumps(list(steps)), "ARENASCOPE_RESULTS": str(results)}
            words = [*arguments, *(self.load if load is None else load), *self.driver]
            finished = self.start(words, variables={**task, **(variables or {})}, **how)
            lines = results.read_text().splitlines() if results.exists() else []
        assert len(lines) == len(steps), f"stopped at step {len(lines)}: {finished}"
        outcomes = [
            Outcome(str(next(iter(step.values()))), **{"text": "", **json.loads(line)})
            for step, line in zip(steps, lines)
        ]
        for outcome in outcomes:
            assert not any(word in (outcome.error or "") + outcome.text for word in BREAKDOWNS), outcome
        return outcomes


@cache
def why_not(debugger: Debugger) -> Optional[str]:
    if not shutil.which(debugger.name):
        return f"{debugger.name} is not installed"
    if not debugger.start(debugger.calculates).stdout.endswith("42\n"):
        return f"{debugger.name} has no Python in it, or does not find it"
    return None


def give_up(reason: str) -> NoReturn:
    """Skips the test for want of something; in CI (CI=true) that is a failure, unless no such thing can be had here."""
    known = NOT_TO_BE_HAD.read_text().split() if NOT_TO_BE_HAD.exists() else []
    had = not any(name in reason.lower() for name in known) and not any(each in reason for each in not_fetched())
    if os.environ.get("CI") == "true" and had:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def needs(*programs: str) -> None:
    """Skips the test where one of these is not installed, also in CI: not all are what `make setup` installs."""
    for each in programs:
        if not shutil.which(each):
            pytest.skip(f"{each} is not installed")


def plain_environment(variables: Optional[dict[str, str]] = None) -> dict[str, str]:
    """Without the network and without anybody's Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DEBUGINFOD", "PYTHON"))}
    # a debugger takes the first python3 for its own: of a virtual environment that is active, too
    path = [each for each in os.get_exec_path() if not Path(each).with_name("pyvenv.cfg").exists()]
    return {**kept, "PATH": os.pathsep.join(path), "LC_ALL": "C.UTF-8", **(variables or {})}


@cache
def indexes(*there: object) -> Path:
    """Where debuggers keep what they made of debug information: to read libc's is a third of each one's start.

    LLDB keeps all names of a file together, and goes by that where there is less: a folder for what makes a difference.
    """
    return lasting_folder("arenascope-indexes-")


@cache
def stripped(program: Path, strip: str = "strip") -> Path:
    """A copy without symbols; its build-id is the same, so debuggers take it for the program."""
    copy = lasting_folder("arenascope-stripped-") / program.name
    subprocess.run([strip, "-o", str(copy), str(program)], check=True)
    return copy
