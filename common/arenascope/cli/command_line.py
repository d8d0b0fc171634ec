"""The shell's command line as one tree of argparse's: the table of commands, and what only the shell has; and
which of its words names the process or core to look at.

Parsing, help, completion, docs/commands.md and the man page come from it.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import Callable, Optional, Sequence

from ..base.about import PROGRAM
from ..base.argv import full_names, is_elf
from ..base.hold_limits import HOLD, HOLD_AT_MOST
from ..base.records import NamedTuple
from ..commands.all_commands import COMMAND_NAMES, all_commands, find_command
from ..commands.framework.arguments import HELP, Group, OneLine, Outline, Parser, Settle, argument, places_of
from ..commands.framework.command import Command
from ..commands.framework.overview import GROUP_OF_LOOPS, command_lines, row

PAIR = 2
"""A subject, and the name of a type."""

AFTER = 29
"""Where the overview says what follows the program's name does."""
COMMAND = "COMMAND"
HELP_NAME = "help"
LOOPS = ("watch", "metrics", "fleet")
"""What only the shell can do: each runs longer, or covers more, than one look."""

SUBJECTS = argument(
    "subjects",
    metavar="PID|CORE",
    nargs="*",
    default=[],
    help="the process or core file to read, at any position",
)
IN_THE_SHELL = Group(
    "in the shell, also",
    (
        SUBJECTS,
        argument(
            "--stop",
            choices=("ptrace", "signal"),
            default="ptrace",
            help="how a live process is stopped while it is read (ptrace)",
        ),
        argument(
            "--hold-at-most",
            type=float,
            metavar="MS",
            help="let it run on after MS milliseconds, and show what was read by then, marked as incomplete (an "
            f"unfinished copy is discarded). The default, {HOLD * 1000:,.0f}, is less than three health checks 10 s "
            f"apart; a trim that is applied has {HOLD_AT_MOST * 1000:,.0f}",
        ),
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
INSTEAD = Group(
    "instead of a command",
    (
        HELP,
        argument("-V", "--version", action="store_true", help="arenascope's own version"),
        argument(
            "--gdb-path", action="store_true", help='the file for GDB to source: gdb -x "$(arenascope --gdb-path)"'
        ),
        argument("--lldb-path", action="store_true", help="the file for LLDB: command script import"),
        argument(
            "--completion",
            choices=("bash", "zsh", "fish"),
            metavar="SHELL",
            help="print the completion script for bash, zsh or fish",
        ),
    ),
)
SUBCOMMAND = argument(
    "topic", metavar=COMMAND, nargs="*", help="a command, or a word from a screen; `words` lists all words"
)
HELP_OUTLINE = Outline(
    "List the commands by topic, show one's help, or say what a word on the screens means.",
    "",
    "help report\nhelp stranded\nhelp words",
    (Group("options", (SUBCOMMAND, HELP)),),
)


class Loop(NamedTuple):
    """A command that only the shell has: a module with OUTLINE and run()."""

    name: str
    outline: Outline
    run: Callable[[argparse.Namespace], int]


def find_loop(name: str) -> Loop:
    if name == "watch":
        from .watch import OUTLINE, run
    elif name == "metrics":
        from .metrics import OUTLINE, run
    else:
        from .engines.fleet import OUTLINE, run
    return Loop(name, OUTLINE, run)


def _find_subject(command: Command, parser: Parser, options: argparse.Namespace) -> None:
    """Where a command takes other words besides options, one word is the subject: the one most like it."""
    places = list(places_of(command.outline().groups))
    if not places:
        return
    several = places[-1].options.get("nargs") == "+"
    given = [getattr(options, place.names[0]) for place in places]
    words: list[str] = []
    for value in given:
        words += value if isinstance(value, list) else [value] if value is not None else []
    words += options.subjects
    if getattr(options, "values", True) is False:
        # of types: without --values each word is a subject, but for one that cannot be, beside one
        unlikely = [each for each in words if likeness(each) <= UNLIKELY and os.sep not in each]
        options.name = unlikely[0] if len(words) == PAIR and len(unlikely) == 1 else None
        options.subjects = [each for each in words if each != options.name]
        return
    # a command that needs no subject, or cannot tell its own words apart, is given no unlikely one
    needed = MAYBE if command.optional_subject or len(words) <= len(places) else UNLIKELY if several else NOT
    index = likeliest(words, needed)
    options.subjects = [] if index is None else [words.pop(index)]
    for place in places:
        if not words and place.options.get("nargs") != "?":
            parser.error(f"the following arguments are required: {place.value}")
        if place is places[-1] and several:
            setattr(options, place.names[0], words[:])
            words.clear()
        else:
            setattr(options, place.names[0], words.pop(0) if words else None)
    if words:
        parser.error(f"unrecognized arguments: {' '.join(words)}")


class Tree(OneLine):
    """The whole tree, or as much as is needed: the branches of these names."""

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
        lines = [f"usage: {PROGRAM} {COMMAND} PID|CORE [options]", "", *command_lines(all_commands())]
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
        return find_loop(name).outline, None
    command = find_command(name)
    return command.outline([IN_THE_SHELL]), partial(_find_subject, command)


def branch_names() -> list[str]:
    return [*COMMAND_NAMES, *LOOPS, HELP_NAME]


NOT, UNLIKELY, MAYBE, SURELY = range(4)
"""How much a word looks like a process or core: an address least, then a word, a file or number, a live or ELF one."""


def likeness(word: str) -> int:
    """One of these four."""
    if word.isascii() and word.isdigit() and not os.path.exists(word):
        return SURELY if os.path.exists(f"/proc/{word}") else MAYBE
    if not os.path.isfile(word):
        # a device or FIFO is not opened: that may block, or have an effect
        return NOT if word[:2].lower() == "0x" else UNLIKELY
    if is_elf(word):
        return SURELY
    from ..commands.steps.snapshot_file import looks_like_one  # few words are files of another kind

    return NOT if looks_like_one(word) else MAYBE


def likeliest(words: Sequence[str], at_least: int) -> Optional[int]:
    """Which of the words most looks like a process or core, the first of equals."""
    best = max(range(len(words)), key=lambda index: likeness(words[index]), default=None)
    return None if best is None or likeness(words[best]) < at_least else best
