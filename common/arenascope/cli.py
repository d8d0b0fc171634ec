"""The shell door: arenascope COMMAND PID|CORE [options]. No debugger needed."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import Any, Optional, Sequence

from . import __version__
from .command import (
    INTERRUPTED,
    Command,
    HelpFormatter,
    Parser,
    all_commands,
    command_names,
    execute,
    find_command,
)
from .errors import ArenascopeError, TargetError, UsageError
from .overview import command_lines, row
from .printable import make_streams_safe, one_line
from .render import optional
from .shell import ShellDoor, unbroken
from .words import MAYBE, NOT, full_names, likeness

DONE, NOTHING, FAILED = 0, 1, 2
TRIES = 10
OTHERS = ("watch", "metrics")
"""What only the shell can do: each runs for longer, or over more, than one look. Modules, loaded when asked for."""


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The shell's door; its result is the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    optional.in_a_hurry = True
    make_streams_safe()
    try:
        status = _run(words)
        sys.stdout.flush()
        return status
    except ArenascopeError as error:
        said = " ".join(["arenascope", *[word for word in words[:1] if word in command_names()]])
        sys.stderr.write(f"{said}: {one_line(str(error))}\n")
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write("arenascope: stopped\n")
        return INTERRUPTED
    except BrokenPipeError:
        # the reader of a pipe has seen enough; Python would complain once more at exit
        _write_no_more()
        return DONE
    except OSError as error:
        _write_no_more()
        sys.stderr.write(f"arenascope: {one_line(str(error.strerror or error))}\n")
        return FAILED
    except Exception as error:
        return _fault(error, words)


def _fault(error: Exception, words: Sequence[str]) -> int:
    from . import fault

    sys.stderr.write(f"arenascope: {fault.fault_line(error, ''.join(words[:1]), 'shell')}\n")
    return FAILED if isinstance(error, MemoryError) else fault.STATUS


def _write_no_more() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: Sequence[str]) -> int:
    if words[:1] == ["help"] and words[1:2]:
        words = [words[1], "--help"]
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
        sys.stdout.write(_other("completion").script("".join(words[1:2]), all_commands()))
        return DONE
    if words[0] in OTHERS:
        return int(_other(words[0]).run(words[1:]))
    if words[0] not in command_names():
        raise UsageError(f"there is no command {words[0]!r}", "arenascope --help lists them")
    command = find_command(words[0])
    usage = f"arenascope {command.name} --help shows how it is used"
    words = full_names(words[1:], command.all_names(), usage, OWN)
    if {"-h", "--help"} & set(words):
        sys.stdout.write(command.parser("arenascope").format_help() + SHELL_OPTIONS)
        return DONE
    own, rest = _shell_parser(command).parse_known_args(words)
    subjects, rest = take_subjects(command, rest)
    if own.jsonl or len(subjects) > 1:
        from . import fleet  # the machinery of several processes, which one look does without

        words = [*rest, "--json"] if own.jsonl else rest
        looks = [
            fleet.Look(each, command.name, words, own.debug_dir, own.stop, not own.no_symbols) for each in subjects
        ]
        return fleet.run(looks, own.jobs, own.jsonl)
    subject = subjects[0] if subjects else None
    if own.no_stop:
        return _run_unstopped(command, rest, subject, own)
    return unbroken(lambda: _run_held(command, rest, subject, own))


def _run_held(command: Command, words: Sequence[str], subject: Optional[str], own: argparse.Namespace) -> int:
    door = ShellDoor(subject, own.stop, own.debug_dir, not own.no_symbols)
    try:
        status = execute(command, words, door)
        door.release()
    finally:
        door.drop()
    sys.stdout.flush()
    return status


def _run_unstopped(command: Command, words: Sequence[str], subject: Optional[str], own: argparse.Namespace) -> int:
    """Reads until two readings agree: a process that runs on can change under the reader."""
    before: Optional[list[str]] = None
    for _ in range(TRIES):
        door = ShellDoor(subject, "none", own.debug_dir, not own.no_symbols)
        status = execute(command, words, door)
        if status == INTERRUPTED:
            sys.stdout.write("".join(door.written))
            return status
        if door.written == before:
            door.notice("read without stopping the process; two readings agreed\n")
            sys.stdout.write("".join(door.written))
            return status
        before = door.written
    raise TargetError(
        f"process {subject} changes too fast: no two of {TRIES} readings agreed",
        "leave out --no-stop, or use arenas --quick",
    )


def take_subjects(command: Command, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The pids and cores among the words, and the rest: what is neither an option nor an option's value.

    Where a command has words of its own beside options, one word is the subject: the one that most looks like it.
    """
    takes_value = {
        name
        for each in command.all_arguments()
        for name in each.names
        if name.startswith("-") and "action" not in each.options
    }
    plain = [
        index
        for index, (before, word) in enumerate(zip(["", *words], words))
        if not word.startswith("-") and before not in takes_value
    ]
    own = [each for each in command.arguments if not each.names[0].startswith("-")]
    if own:
        likely = [(likeness(words[index]), -index) for index in plain]
        # what may go without a subject, or without anything else to tell its own words by, has none that is unlikely
        needed = MAYBE if command.optional_subject or len(plain) <= len(own) else NOT
        plain = [-index for how, index in sorted(likely, reverse=True)[:1] if how >= needed]
    return [words[index] for index in plain], [word for index, word in enumerate(words) if index not in plain]


def _shell_parser(command: Command) -> argparse.ArgumentParser:
    prog = f"arenascope {command.name}"
    parser = Parser(prog=prog, add_help=False, allow_abbrev=False, formatter_class=HelpFormatter)
    parser.add_argument("--stop", choices=("ptrace", "signal"), default="ptrace")
    parser.add_argument("--no-stop", action="store_true")
    parser.add_argument("--no-symbols", action="store_true")
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--jsonl", action="store_true")
    parser.add_argument("--debug-dir", action="append", default=[], metavar="DIR")
    return parser


OWN = ("--stop", "--no-stop", "--no-symbols", "--jobs", "--jsonl", "--debug-dir")
SHELL_OPTIONS = """
in the shell, also:
  PID|CORE              the process or core file to look at, anywhere among the words
  --stop {ptrace,signal}  how a live process is held while it is read (ptrace)
  --no-stop             do not hold it: read until two readings agree
  --no-symbols          find all by what memory looks like, as with a stripped libc
  --jsonl               one JSON document a line; several PID|CORE may be named
  --jobs N              so many of them at a time (as many as there are processors)
  --debug-dir DIR       also look for libc's debug symbols under DIR/.build-id
"""


def _other(name: str) -> Any:
    return import_module(f"{__package__}.{name}")


def overview() -> str:
    lines = [
        "usage: arenascope COMMAND PID|CORE [options]",
        "",
        *command_lines(),
        "again and again, in the shell alone:",
        *(row(name, _other(name).SUMMARY) for name in OTHERS),
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
    for path in (
        os.path.join(here, "doors", debugger, "arena.py"),
        os.path.join(here, "..", "..", debugger, "arena.py"),
    ):
        if os.path.isfile(path):
            return os.path.realpath(path)
    raise UsageError(f"the door for {debugger} is not beside this package", "install the wheel, or use a checkout")
