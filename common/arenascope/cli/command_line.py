"""The shell's command line as one argparse tree: the table of commands, and what only the shell has.

Parsing, help, completion, docs/commands.md and the man page are made from it.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from shlex import join
from typing import Callable, NamedTuple, Optional, Sequence

from ..base.about import PROGRAM
from ..base.argv import full_names, with_suggestion
from ..base.errors import UsageError
from ..commands.all_commands import COMMAND_NAMES, all_commands, find_command
from ..commands.framework.arguments import (
    HELP,
    ArgumentGroup,
    OneLine,
    Outline,
    Parser,
    Settle,
    argument,
    names_of,
    options_of,
)
from ..commands.framework.overview import GROUP_OF_LOOPS, HELP_SUMMARY, command_lines, row, start_text
from .shell import HOLD_AT_MOST_OPTION
from .subjects import (
    CORE_OPTION,
    PID_OPTION,
    SUBJECTS,
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
            help="let GDB, where it is installed, read types from the files' debug information, however much there is "
            "(the default: up to 64 MiB)",
        ),
        argument(
            "--no-declared",
            action="store_const",
            const=False,
            dest="declared",
            help="do not start GDB to read types from debug information",
        ),
        argument("--jsonl", action="store_true", help="one JSON document a line; several PID|CORE may be named"),
        argument(
            "--jobs",
            type=int,
            default=0,
            metavar="N",
            help="use N worker processes, for several PID|CORE or for one core's heaps (0: chosen automatically)",
        ),
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
    if name == "top":
        from .top import OUTLINE, run
    elif name == "watch":
        from .watch import OUTLINE, run
    elif name == "metrics":
        from .metrics import OUTLINE, run
    elif name == "mcp":
        from .mcp import OUTLINE, run
    else:
        from .engines.fleet import OUTLINE, run
    return Loop(name, OUTLINE, run)


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
    outline = command.outline([IN_THE_SHELL._replace(arguments=also)])
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
