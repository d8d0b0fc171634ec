"""The list of commands by topic: for `arenascope --help`, and for `heap help` in a debugger."""

from __future__ import annotations

from itertools import groupby
from typing import Iterator, Sequence

from .command import all_commands, command_names, find_command
from .errors import UsageError

GROUP_OF_LOOPS = "again and again, in the shell alone"
HELP_SUMMARY = "List the commands by topic, or show one's help."


def row(name: str, summary: str) -> str:
    return f"  {name:9} {summary}"


def command_lines() -> Iterator[str]:
    for group, commands in groupby(all_commands(), key=lambda command: command.group):
        yield f"{group}:"
        yield from (row(command.name, command.summary) for command in commands)
        yield ""


def help_text(prefix: str, words: Sequence[str] = ()) -> str:
    """What `heap help` and `heap help COMMAND` say in a debugger."""
    for name in words[:1]:
        if name not in command_names():
            raise UsageError(f"there is no command {name!r}", f"{prefix} help lists them")
        return find_command(name).parser(prefix).format_help()
    return (
        "\n".join(
            [
                f"usage: {prefix} COMMAND [options]",
                "",
                *command_lines(),
                f"  {prefix} help COMMAND  what it shows, its options, an example",
                "",
                "arenascope is the word that always works, as in `arenascope report`: another extension may take heap.",
            ]
        )
        + "\n"
    )
