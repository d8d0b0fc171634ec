"""The list of commands by topic: for `arenascope --help`, and for `heap help` in a debugger."""

from __future__ import annotations

from itertools import groupby
from typing import Iterator, Sequence

from ...base.errors import UsageError
from ...present.shared_text.text import HELP_WIDTH
from .command import Command

GROUP_OF_LOOPS = "repeatedly, or for many processes (shell only)"
HELP_SUMMARY = "List the commands by topic, show one's help, or say what a word on the screens means."


def row(name: str, summary: str, column: int = 9) -> str:
    """As wide as each command's own help."""
    import textwrap  # a help that few ask for

    return textwrap.fill(
        summary,
        HELP_WIDTH,
        initial_indent=f"  {name:{column}} ",
        subsequent_indent=" " * (column + 3),
        break_on_hyphens=False,
    )


def command_lines(known: Sequence[Command]) -> Iterator[str]:
    """By group: in the order in which they are."""
    for group, commands in groupby(known, key=lambda command: command.group):
        yield f"{group}:"
        yield from (row(command.name, command.summary) for command in commands)
        yield ""


def meaning(prefix: str, name: str) -> str:
    """What a word on the screens means, or all of them do."""
    from ...present import glossary  # a help that few ask for

    if name == glossary.TOPIC:
        return glossary.words_text(glossary.WORDS, prefix)
    word = glossary.find_word(name)
    if word is None:
        hint = f"{prefix} help lists the commands, {prefix} help {glossary.TOPIC} the words"
        raise UsageError(f"there is no command or word {name!r}", hint)
    return glossary.words_text([word], prefix)


def help_text(prefix: str, known: Sequence[Command], words: Sequence[str] = ()) -> str:
    """What `heap help`, `heap help COMMAND`, `heap help words` and `heap help WORD` say in a debugger."""
    if words:
        name = " ".join(words)
        found = next((each for each in known if each.name == name), None)
        return found.parser(prefix).format_help() if found else meaning(prefix, name)
    column = len(f"{prefix} help stranded") + 1
    return (
        "\n".join(
            [
                f"usage: {prefix} COMMAND [options]",
                "",
                *command_lines(known),
                row(f"{prefix} help COMMAND", "what it shows, its options, an example", column),
                row(f"{prefix} help words", "what the words on the screens mean", column),
                row(f"{prefix} help stranded", "what one of them means", column),
                "",
                "arenascope is the word that always works, as in `arenascope report`:",
                "another extension may take heap.",
            ]
        )
        + "\n"
    )
