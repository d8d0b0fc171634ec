"""The shell door: arenascope COMMAND PID|CORE [options]. No debugger needed."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import Optional, Sequence

from . import __version__, completion
from .apply import Controller
from .commands import Command, execute
from .commands.table import NAMES, all_commands, find_command
from .errors import ArenascopeError, TargetError, UsageError
from .render import optional
from .render.text import Style
from .sources.freeze import Freeze, PtraceFreeze, SignalFreeze
from .sources.shell_target import CoreTarget, ProcessTarget, ShellTarget
from .target import Target

DONE, NOTHING, FAILED, INTERRUPTED = 0, 1, 2, 130
TRIES = 10


class ShellDoor:
    """Holds a live process only while it is read; what is printed waits until it was let go."""

    name = "shell"

    def __init__(self, subject: Optional[str], stop: str, folders: Sequence[str], symbols: bool = True) -> None:
        self.subject = subject
        self.stop = stop
        self.symbols = symbols
        self.folders = folders
        self.written: list[str] = []
        self.freeze: Optional[Freeze] = None

    def target(self) -> Target:
        if self.subject is None:
            raise TargetError("there is nothing to look at", "name a pid or a core file")
        if self.subject.isdigit() and not os.path.exists(self.subject):
            return self._process(int(self.subject))
        core = CoreTarget(self.subject, self.folders)
        core.use_symbols = self.symbols
        return core

    def _process(self, pid: int) -> ShellTarget:
        # all that can be had beforehand is: symbols, modules, and what the kernel refuses
        running = ProcessTarget(pid, None, self.folders)
        running.use_symbols = self.symbols
        running.symbol("main_arena")
        optional.load("tabulate")
        if self.stop == "ptrace":
            self.freeze = PtraceFreeze(pid)
        elif self.stop == "signal":
            self.freeze = SignalFreeze(pid)
        return running.held_by(self.freeze)

    def release(self) -> None:
        if self.freeze is not None:
            held = self.freeze.release()
            if held:
                self.notice(f"process {self.subject} was held for {held * 1000:.1f} ms\n")

    def controller(self) -> Optional[Controller]:
        return None

    def confirm(self, question: str) -> bool:
        raise UsageError("the shell only looks")

    def style(self) -> Style:
        terminal = sys.stdout.isatty()
        return Style(
            width=shutil.get_terminal_size().columns if terminal else 0,
            colour=terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb",
            program="arenascope",
        )

    def write(self, text: str) -> None:
        self.written.append(text)

    def notice(self, text: str) -> None:
        sys.stderr.write(text)

    def describe(self) -> Sequence[str]:
        return ["no debugger: the shell"]


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The console script; its result is the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(words)
    except ArenascopeError as error:
        said = " ".join(["arenascope", *[word for word in words[:1] if word in NAMES]])
        sys.stderr.write(f"{said}: {error}\n")
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write("arenascope: stopped\n")
        return INTERRUPTED
    except BrokenPipeError:
        # the reader of a pipe has seen enough; Python would complain once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def _run(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(overview())
        return DONE if words else FAILED
    if words[0] in ("--version", "-V"):
        sys.stdout.write(f"arenascope {__version__}\n")
        return DONE
    if words[0] in ("--gdb-path", "--lldb-path"):
        sys.stdout.write(door_path(words[0].strip("-").partition("-")[0]) + "\n")
        return DONE
    if words[0] == "--completion":
        sys.stdout.write(completion.script("".join(words[1:2]), all_commands()))
        return DONE
    if words[0] not in NAMES:
        raise UsageError(f"there is no command {words[0]!r}", "arenascope --help lists them")
    command = find_command(words[0])
    if {"-h", "--help"} & set(words[1:]):
        sys.stdout.write(command.parser("arenascope").format_help() + SHELL_OPTIONS)
        return DONE
    own, rest = _shell_parser().parse_known_args(words[1:])
    subject, rest = take_subject(command, rest)
    if own.no_stop:
        return _run_unstopped(command, rest, subject, own)
    door = ShellDoor(subject, own.stop, own.debug_dir, not own.no_symbols)
    return _execute(command, rest, door)


def _execute(command: Command, words: Sequence[str], door: ShellDoor) -> int:
    try:
        status = execute(command, words, door)
    finally:
        door.release()
    sys.stdout.write("".join(door.written))
    sys.stdout.flush()
    return status


def _run_unstopped(command: Command, words: Sequence[str], subject: Optional[str], own: argparse.Namespace) -> int:
    """Reads until two readings agree: a process that runs on can change under the reader."""
    before: Optional[list[str]] = None
    for _ in range(TRIES):
        door = ShellDoor(subject, "none", own.debug_dir, not own.no_symbols)
        status = execute(command, words, door)
        if door.written == before:
            door.notice("read without stopping the process; two readings agreed\n")
            sys.stdout.write("".join(door.written))
            return status
        before = door.written
    raise TargetError(f"process {subject} changes too fast: no two of {TRIES} readings agreed",
                      "leave out --no-stop, or use arenas --quick")  # fmt: skip


def take_subject(command: Command, words: Sequence[str]) -> tuple[Optional[str], list[str]]:
    """The pid or core among the words: the first that is neither an option nor an option's value."""
    takes_value = {name for each in command.arguments for name in each.names
                   if name.startswith("-") and "action" not in each.options}  # fmt: skip
    skip = False
    for index, word in enumerate(words):
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in takes_value
        else:
            return word, [*words[:index], *words[index + 1 :]]
    return None, list(words)


def _shell_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--stop", choices=("ptrace", "signal"), default="ptrace")
    parser.add_argument("--no-stop", action="store_true")
    parser.add_argument("--no-symbols", action="store_true")
    parser.add_argument("--debug-dir", action="append", default=[], metavar="DIR")
    return parser


SHELL_OPTIONS = """
in the shell, also:
  PID|CORE              the process or core file to look at, anywhere among the words
  --stop {ptrace,signal}  how a live process is held while it is read (ptrace)
  --no-stop             do not hold it: read until two readings agree
  --no-symbols          find all by what memory looks like, as with a stripped libc
  --debug-dir DIR       also look for libc's debug symbols under DIR/.build-id
"""


def overview() -> str:
    lines = ["usage: arenascope COMMAND PID|CORE [options]", ""]
    lines += [f"  {command.name:9} {command.summary}" for command in all_commands()]
    lines += [
        "",
        "  arenascope COMMAND --help     what it shows, its options, an example",
        '  arenascope --gdb-path         the file for GDB to source: gdb -x "$(arenascope --gdb-path)"',
        "  arenascope --lldb-path        the file for LLDB: command script import",
        "  arenascope --completion bash  completion for bash, zsh or fish, to be evaluated by it",
    ]
    return "\n".join(lines) + "\n"


def door_path(debugger: str) -> str:
    """Where a debugger's door lies: inside the installed package, or in the checkout."""
    here = os.path.dirname(os.path.realpath(__file__))
    for path in (os.path.join(here, "doors", debugger, "arena.py"),
                 os.path.join(here, "..", "..", debugger, "arena.py")):  # fmt: skip
        if os.path.isfile(path):
            return os.path.realpath(path)
    raise UsageError(f"the door for {debugger} is not beside this package", "install the wheel, or use a checkout")
