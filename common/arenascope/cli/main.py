"""The shell's entry point: arenascope COMMAND PID|CORE [options]. No debugger needed.

The command line is one argparse tree: the table of commands, and what only the shell has. Parsing, help, completion,
docs/commands.md and the man page are made from it.
"""

from __future__ import annotations

import argparse
import os
import pkgutil
import runpy
import sys
from contextlib import suppress
from functools import partial
from importlib import import_module
from shlex import join
from typing import Callable, Mapping, NamedTuple, Optional, Sequence

from ..base import optional_libraries
from ..base.about import INTERRUPTED, PROGRAM, STOPPED, __version__
from ..base.argv import pid_in, with_suggestion
from ..base.errors import ArenascopeError, TargetError, UsageError
from ..base.printable import make_streams_safe, one_line
from ..commands.framework.arguments import (
    HELP,
    ArgumentGroup,
    HelpRequested,
    OneLine,
    Outline,
    Parser,
    Settle,
    argument,
    full_names,
    names_of,
    options_of,
)
from ..commands.framework.command import Command, answer
from ..commands.framework.find_command import COMMAND_NAMES, all_commands, find_command
from ..commands.framework.overview import ALL, GROUP_OF_LOOPS, HELP_SUMMARY, command_lines, meaning, row, start_text
from ..present.json_documents.record import failed
from ..present.shared_text.lines_and_tables import Style, fitted, folded, table
from .shell import (
    HOLD_AT_MOST_OPTION,
    TRIES,
    How,
    ShellDoor,
    check_how,
    door_for,
    seconds_to_hold,
    terminal_width,
    unbroken,
)
from .subjects import (
    CORE_OPTION,
    PID_OPTION,
    SUBJECTS,
    SeveralProcesses,
    find_named,
    find_pids,
    find_subjects,
    is_process_name,
    may_be_file_or_pid,
    process_names,
)

AFTER = 29
"""The column of explanations in the overview."""
COMMAND = "COMMAND"
HELP_NAME = "help"
SCHEMA = "--schema"
LOOPS = ("top", "watch", "metrics", "mcp", "fleet")
"""Commands that only the shell has: each runs for longer, or reads more, than one look."""

IN_THE_SHELL = ArgumentGroup(
    "in the shell, also",
    (
        SUBJECTS,
        PID_OPTION,
        CORE_OPTION,
        argument(
            "--stop",
            choices=("ptrace", "signal"),
            default="ptrace",
            help="how a live process is stopped while it is read (ptrace)",
        ),
        HOLD_AT_MOST_OPTION,
        argument("--no-stop", action="store_true", help="do not stop it: read it again until two readings agree"),
        argument(
            "--no-symbols",
            action="store_true",
            help="use no symbols: find everything in memory, as with a stripped libc",
        ),
        argument(
            "--declared",
            action="store_const",
            const=True,
            help="read types from the files' debug information, however much there is (the default: up to 64 MiB)",
        ),
        argument(
            "--no-declared",
            action="store_const",
            const=False,
            dest="declared",
            help="do not read types from debug information",
        ),
        argument("--jsonl", action="store_true", help="one JSON document a line; several PID|CORE may be named"),
        argument(
            "--debug-dir",
            action="append",
            default=[],
            metavar="DIR",
            help="also look for debug symbols under DIR/.build-id",
        ),
        argument(
            "--sysroot",
            metavar="DIR",
            help="look below DIR for the files that a core names, and under DIR/usr/lib/debug for debug "
            "symbols: for a core from another host or a container",
        ),
    ),
)
IGNORED = ArgumentGroup("ignored", (argument("--jobs", help=argparse.SUPPRESS),))
"""Options of earlier versions, which scripts may still give."""
INSTEAD = ArgumentGroup(
    "instead of a command",
    (
        HELP,
        argument("-V", "--version", action="store_true", help="arenascope's own version"),
        argument(
            "--gdb-path", action="store_true", help='the file for GDB to source: gdb -x "$(arenascope --gdb-path)"'
        ),
        argument("--lldb-path", action="store_true", help="the file for LLDB: command script import"),
        argument("--gdbinit", action="store_true", help="the line that loads it in each GDB: add it to ~/.gdbinit"),
        argument("--lldbinit", action="store_true", help="the same for LLDB: add it to ~/.lldbinit"),
        argument(
            "--completion",
            choices=("bash", "zsh", "fish"),
            metavar="SHELL",
            help="print the completion script for bash, zsh or fish",
        ),
        argument(
            SCHEMA,
            choices=(*COMMAND_NAMES, "top", "failed", "snapshot-file"),
            metavar="NAME",
            help="print the JSON Schema of a command's --json, of errors (failed), or of a snapshot-file",
        ),
    ),
)
SUBCOMMAND = argument(
    "topic",
    metavar=COMMAND,
    nargs="*",
    help="a command, an option, or a word from a screen; `all` lists all commands, `words` all words",
)
HELP_OUTLINE = Outline(
    HELP_SUMMARY,
    "",
    "help all\nhelp report\nhelp trim --tops\nhelp stranded\nhelp words",
    (ArgumentGroup("options", (SUBCOMMAND, HELP)),),
)


class Loop(NamedTuple):
    """A command that only the shell has, made from a module with OUTLINE and run()."""

    name: str
    outline: Outline
    run: Callable[[argparse.Namespace], int]


def find_loop(name: str) -> Loop:
    module = import_module(f".fleet.{name}" if name == "fleet" else f".{name}", __package__)
    return Loop(name, module.OUTLINE, module.run)


class CommandTree(OneLine):
    """The parser of the command line. It has only the branches named, as building all takes time."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(prog=PROGRAM)
        self.branches: dict[str, Parser] = {}
        for each in INSTEAD.arguments:
            self.add(each)
        if not names:
            return
        shoots = self.add_subparsers(dest="command", metavar=COMMAND, prog=PROGRAM, parser_class=Parser)
        for name in names:
            outline, settle = _branch(name)
            self.branches[name] = shoots.add_parser(name, outline=outline, settle=settle)

    @property
    def usage_hint(self) -> str:
        return f"{PROGRAM} --help lists the commands"

    def parse_known_args(  # type: ignore[override]
        self, args: Optional[Sequence[str]] = None, namespace: Optional[argparse.Namespace] = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = list(args or ())
        first = next((index for index, word in enumerate(words) if word[:1] != "-"), len(words))
        names = [name for each in INSTEAD.arguments for name in each.names]
        words[:first] = full_names(words[:first], names, self.usage_hint)
        return super().parse_known_args(words, namespace)

    def format_help(self) -> str:
        lines = [f"usage: {PROGRAM} [{COMMAND}] PID|CORE [options]", "", *command_lines(all_commands())]
        lines.append(f"{GROUP_OF_LOOPS}:")
        lines += [row(name, find_loop(name).outline.summary) for name in LOOPS]
        lines += ["", row(f"{PROGRAM} {COMMAND} --help", "what it shows, its options, an example", AFTER)]
        lines += [row(f"{PROGRAM} {HELP_NAME} words", "what the words on the screens mean", AFTER)]
        lines += [row(f"{PROGRAM} {each.spelt}", each.help, AFTER) for each in INSTEAD.arguments if each != HELP]
        return "\n".join(lines) + "\n"


def _branch(name: str) -> tuple[Outline, Optional[Settle]]:
    if name == HELP_NAME:
        return HELP_OUTLINE, None
    if name in LOOPS:
        outline = find_loop(name).outline
        named = list(options_of(outline.groups))
        return outline, find_named if CORE_OPTION in named else find_pids if PID_OPTION in named else None
    command = find_command(name)
    own = {each for known in command.arguments for each in known.names}
    # trend has a --pid of its own, and reads no process
    also = [each for each in IN_THE_SHELL.arguments if own.isdisjoint(each.names)]
    outline = command.outline([IN_THE_SHELL._replace(arguments=also), IGNORED])
    if PID_OPTION in also:
        outline = outline._replace(example=_shell_examples(outline.example))
    return outline, partial(find_subjects, command)


def _shell_examples(lines: str) -> str:
    """Examples with a PID added. Those with "->" are left out: the shell would redirect."""
    return "\n".join(f"{line} PID" for line in lines.splitlines() if "->" not in line)


def start() -> str:
    """The start page."""
    return start_text(
        PROGRAM,
        ("PID", "owners PID", "watch PID"),
        "PID may be a process's name, too. But for watch, a core file does as well.\n"
        + row(
            f"{PROGRAM} top",
            "which process holds most free memory",
            len(f"{PROGRAM} COMMAND --help") + 1,
        ),
    )


def branch_names() -> list[str]:
    return [*COMMAND_NAMES, *LOOPS, HELP_NAME]


USUAL = "report"
"""The command for a process or core without a command."""


def with_command(words: Sequence[str]) -> list[str]:
    """Puts the command first. It may follow -p PID or -c CORE, and may be left out after these or before a process or
    core. An option that replaces a command may follow its name."""
    if not words or words[0] in branch_names():
        return [SCHEMA, words[0]] if [*words[1:]] == [SCHEMA] else [*words]
    first, after = words[0], _after_targets(words)
    if after:
        known = words[after] if after < len(words) else ""
        if known in branch_names():
            return [known, *words[:after], *words[after + 1 :]]
        return [USUAL, *words]
    if first[:1] == "-":
        return _by_option(words)
    if may_be_file_or_pid(first) or is_process_name(first):
        second = words[1] if words[1:] else ""
        if second in branch_names() and not os.path.exists(second):
            raise UsageError(f"the command comes first: {join([PROGRAM, second, first, *words[2:]])}")
        return [USUAL, *words]
    hint = with_suggestion(first, [*branch_names(), *process_names()], CommandTree(()).usage_hint)
    raise UsageError(f"there is no command, file or process {first!r}", hint)


def _after_targets(words: Sequence[str]) -> int:
    """The index of the first word after the options that name processes or cores."""
    names = (*PID_OPTION.names, *CORE_OPTION.names)
    at = 0
    while at < len(words):
        name, sign, _ = words[at].partition("=")
        if name in names:
            at += 1 if sign else 2
        elif words[at][:2] in names and words[at][2:].isdigit():
            at += 1
        else:
            break
    return min(at, len(words))


def _by_option(words: Sequence[str]) -> list[str]:
    """For a line that begins with an option: one that replaces a command, or one of `report`."""
    alone, name = names_of([INSTEAD]), words[0].partition("=")[0]
    if name in alone or (name[:2] == "--" and any(each.startswith(name) for each in alone)):
        return list(words)
    outline, _ = _branch(USUAL)
    full_names(words[:1], names_of(outline.groups), CommandTree(()).usage_hint, [*names_of(outline.also), *alone])
    return [USUAL, *words]


DONE, FAILED = 0, 2
MOST_LISTED = 20
"""The most processes of one name that are listed."""
LONG = 1.0
"""From so many seconds of holding on, a note says that each further look takes as long."""


def main(arguments: Optional[Sequence[str]] = None, loaded: Callable[[], None] = lambda: None) -> int:
    """Runs a command line and returns the exit status. `loaded` is called once the command's modules are loaded."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    make_streams_safe()
    try:
        words = with_command(words)
        status = _run(words, loaded)
        sys.stdout.flush()
        return status
    except ArenascopeError as error:
        _tell_failure(words, error.id, str(error))
        said = " ".join(["arenascope", *[word for word in words[:1] if word in branch_names()]])
        sys.stderr.write(folded(f"{said}: {one_line(str(error))}", terminal_width(sys.stderr)) + "\n")
        if isinstance(error, SeveralProcesses):
            _list(error)
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write(STOPPED)
        return INTERRUPTED
    except BrokenPipeError:
        # the pipe's reader has seen enough; avoid Python's complaint at exit
        _write_no_more()
        return DONE
    except OSError as error:
        with suppress(OSError):
            _tell_failure(words, "system", str(error.strerror or error))
        _write_no_more()
        sys.stderr.write(f"arenascope: {one_line(str(error.strerror or error))}\n")
        return FAILED
    except Exception as error:
        return _fault(error, words)


def _fault(error: Exception, words: Sequence[str]) -> int:
    from ..base import internal_error as fault

    said = fault.fault_line(error, "".join(words[:1]), "shell")
    _tell_failure(words, fault.fault_id(error), said)
    sys.stderr.write(f"arenascope: {said}\n")
    return FAILED if isinstance(error, MemoryError) else fault.STATUS


def _tell_failure(words: Sequence[str], id: str, said: str) -> None:
    if words and words[0] in COMMAND_NAMES:
        sys.stdout.write(failed(words[0], words[1:], id, said))
        sys.stdout.flush()


def _list(error: SeveralProcesses) -> None:
    """Lists the processes of a name, the largest first."""
    style = Style(width=terminal_width(sys.stderr))
    rows = [(str(each.pid), style.size(each.resident), each.command) for each in error.found]
    lines = table(style, ("pid", "resident", "command"), rows, left=(2,), names=(2,), limit=MOST_LISTED)
    sys.stderr.write("".join(f"{line}\n" for line in lines))


def _write_no_more() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: Sequence[str], loaded: Callable[[], None]) -> int:
    if not words:
        _tell(start())
        return FAILED
    first = words[0]
    if first == HELP_NAME and not any(known.startswith(word) for word in words[1:] for known in HELP.names):
        # words after `help` may be options that are asked about
        words = [first, "--", *(word for word in words[1:] if word != "--")]
    try:
        options = CommandTree([] if first[:1] == "-" else [first]).parse_args(words)
        return _obey(options, loaded)
    except HelpRequested as asked:
        _tell(str(asked))
        return DONE


def _obey(options: argparse.Namespace, loaded: Callable[[], None]) -> int:
    if getattr(options, "command", None) is None:
        sys.stdout.write(_said_instead(options))
        return DONE
    if options.command == HELP_NAME:
        return _help(" ".join(options.topic), loaded)
    # the parser has loaded the command's module
    loaded()
    if options.command in LOOPS:
        return find_loop(options.command).run(options)
    return _look(find_command(options.command), options)


def _help(topic: str, loaded: Callable[[], None]) -> int:
    """Shows the start page, the help of one or all commands, or the meaning of a word."""
    if topic == ALL or topic in branch_names():
        return _run(["--help"] if topic == ALL else [topic, "--help"], loaded)

    def outlines() -> Mapping[str, Outline]:
        return {name: branch.outline for name, branch in CommandTree(branch_names()).branches.items()}

    _tell(meaning(PROGRAM, topic, branch_names(), outlines) if topic else start())
    return DONE


def _tell(text: str) -> None:
    """Prints help. It is laid out for HELP_WIDTH, and wrapped for a narrower terminal."""
    width = terminal_width(sys.stdout)
    sys.stdout.write("".join(f"{piece}\n" for line in text.splitlines() for piece in fitted(line, width)))


def _said_instead(options: argparse.Namespace) -> str:
    """The text for an option that replaces a command."""
    if options.version:
        return f"arenascope {__version__}\n"
    if options.completion:
        return _completion(options.completion)
    if options.schema:
        from .json_schemas import as_text, schemas

        return as_text(schemas()[options.schema])
    door = door_path("gdb" if options.gdb_path or options.gdbinit else "lldb")
    if options.gdbinit:
        return f"source {door}\n"
    return f'command script import "{door}"\n' if options.lldbinit else f"{door}\n"


def _completion(shell: str) -> str:
    """The completion script. Packages contain it; a checkout makes it if shtab is installed."""
    with suppress(OSError):
        return (pkgutil.get_data(__package__, f"completion/arenascope.{shell}") or b"").decode()
    root = optional_libraries.checkout()
    if root is not None and optional_libraries.load("shtab") is not None:
        made = runpy.run_path(os.path.join(root, "scripts", "completion.py"))
        if shell in made["known_shells"]():
            return str(made["completion"](shell))
    hint = "an installed arenascope has it" if root is None else "pip install shtab"
    raise UsageError(f"this copy has no completion for {shell}", hint)


def _look(command: Command, options: argparse.Namespace) -> int:
    options.json |= options.jsonl
    subjects = options.subjects
    how = _how(options)
    check_how(how, seconds_to_hold(options))
    if (options.jsonl and subjects) or len(subjects) > 1:
        from . import several_subjects  # imported only for several subjects

        looks = [several_subjects.SubjectRequest(each, command.name, options, how) for each in subjects]
        return several_subjects.run(looks, options.jsonl)
    subject = subjects[0] if subjects else None
    if options.no_stop:
        return _run_unstopped(command, subject, options)
    pauses: list[float] = []
    try:
        return unbroken(lambda: _run_held(command, subject, options, pauses))
    finally:
        _tell_pauses(subject or "", list(filter(None, pauses)))


def _how(options: argparse.Namespace) -> How:
    return How(
        options.stop,
        options.debug_dir,
        not options.no_symbols,
        sysroot=options.sysroot,
        declared=options.declared,
    )


def _run_held(command: Command, subject: Optional[str], options: argparse.Namespace, pauses: list[float]) -> int:
    """Runs one look. `pauses`: seconds for which earlier looks held the process; this look adds its own."""
    with door_for(ShellDoor, command, subject, how=_how(options), options=options) as door:
        door.pauses = pauses
        status = answer(command, options, door)
        door.release()
    sys.stdout.flush()
    return status


def _tell_pauses(subject: str, pauses: Sequence[float]) -> None:
    """Says for how long the process was held in all. Called once, after the answer, even if there were several
    looks."""
    if pauses:
        stops = f" ({len(pauses)} stops)" if len(pauses) > 1 else ""
        again = "; each further look of this kind takes about as long" if max(pauses) >= LONG else ""
        sys.stderr.write(f"process {pid_in(subject)} stood still for {sum(pauses) * 1000:.1f} ms{stops}{again}\n")


def _run_unstopped(command: Command, subject: Optional[str], options: argparse.Namespace) -> int:
    """Reads until two readings agree, as the process changes while it is read."""
    before: Optional[list[str]] = None
    for _ in range(TRIES):
        with ShellDoor(subject, _how(options)._replace(stop="none")) as door:
            status = answer(command, options, door)
        if status == INTERRUPTED:
            sys.stdout.write("".join(door.written))
            return status
        if door.written == before:
            sys.stdout.write("".join(door.written))
            sys.stdout.flush()
            door.notice("read without stopping the process; two readings agreed\n")
            return status
        before = door.written
    raise TargetError(
        f"process {subject} changes too fast: no two of {TRIES} readings agreed",
        "leave out --no-stop, or use arenas --quick",
    )


def door_path(debugger: str) -> str:
    """The path of a debugger's door: in the installed package, or in the checkout."""
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    for path in (
        os.path.join(package, "doors", debugger, "arena.py"),
        os.path.join(package, "..", "..", debugger, "arena.py"),
    ):
        if os.path.isfile(path):
            return os.path.realpath(path)
    raise UsageError(f"the door for {debugger} is not beside this package", "install the wheel, or use a checkout")
