"""The start page and the list of commands by group, for `arenascope help` and for `heap help` in a debugger."""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import Callable, Iterator, Mapping, Sequence

from ...base.argv import with_suggestion
from ...base.errors import UsageError
from ...present.shared_text.lines_and_tables import HELP_WIDTH
from .arguments import Outline, options_of
from .command import Command

GROUP_OF_LOOPS = "repeatedly, or for many processes (shell only)"
HELP_SUMMARY = "Say where to begin, list all commands, show one's help, or say what a word on the screens means."
ALL = "all"
"""Typed after `help` for the list of all commands."""
WHAT = (
    "arenascope shows what glibc's malloc holds in a process or core: whose memory it is, what of it is free, why that "
    "stays, and what would give it back."
)
QUESTIONS = ("Why is RSS so large, what helps?", "It is in use. Who holds it?", "What grows?")
"""The questions that most users have, with the command that answers each."""


def row(name: str, summary: str, column: int = 10) -> str:
    """A row as wide as each command's help."""
    return textwrap.fill(
        summary,
        HELP_WIDTH,
        initial_indent=f"  {name:{column}} ",
        subsequent_indent=" " * (column + 3),
        break_on_hyphens=False,
    )


def command_lines(known: Sequence[Command]) -> Iterator[str]:
    """A line for each command, by group in their order."""
    for group, commands in groupby(known, key=lambda command: command.group):
        yield f"{group}:"
        yield from (row(command.name, command.summary) for command in commands)
        yield ""


def start_text(program: str, answers: Sequence[str], note: str) -> str:
    """About ten lines: what this is, an example for each of QUESTIONS, and where to read more."""
    column = len(f"{program} COMMAND --help") + 1
    longest = max(map(len, QUESTIONS))
    lines = [
        textwrap.fill(WHAT, HELP_WIDTH),
        "",
        *(f"  {question:{longest}}  {program} {answer}" for question, answer in zip(QUESTIONS, answers)),
        "",
        note,
        row(f"{program} help {ALL}", "all commands", column),
        row(f"{program} COMMAND --help", "what it shows, its options, an example", column),
        row(f"{program} help words", "what the words on the screens mean", column),
    ]
    return "\n".join(lines) + "\n"


def start_in_debugger(prefix: str) -> str:
    """The text of `heap` alone."""
    answers = ("report", "owners", "snapshot FILE, later diff FILE")
    return start_text(prefix, answers, "Only trim --apply changes anything in the process.")


Outlines = Callable[[], Mapping[str, Outline]]
"""Gives the outlines of all commands by name. It is a function, as few helps need them."""


def meaning(prefix: str, name: str, commands: Sequence[str], outlines: Outlines) -> str:
    """The meaning of a word on the screens, of all such words, or of an option; UsageError if it is none of these."""
    from ...present import glossary  # imported here: few ask for this help

    if name == glossary.TOPIC:
        return glossary.words_text(glossary.words(), prefix)
    word = glossary.find_word(name)
    option = _option_text(name.split(), outlines()) if word is None or name[:1] == "-" else ""
    if word is None:
        if option:
            return option
        known = (ALL, glossary.TOPIC, *commands, *(each for word in glossary.words() for each in word.names))
        hint = f"{prefix} help {ALL} lists the commands, {prefix} help {glossary.TOPIC} the words"
        raise UsageError(f"there is no command or word {name!r}", with_suggestion(name, known, hint))
    return glossary.words_text([word], prefix) + option


def _option_text(words: Sequence[str], outlines: Mapping[str, Outline]) -> str:
    """Says for one command or all what an option does, and which commands have it; "" if none has."""
    *command, name = words or [""]
    if command and (command[1:] or command[0] not in outlines):
        return ""
    found: dict[tuple[str, str], list[str]] = {}
    for each, outline in outlines.items():
        for option in options_of(outline.all_groups):
            if name.lstrip("-") in (known.lstrip("-") for known in option.names) and command in ([], [each]):
                found.setdefault((option.spelt, option.help), []).append(each)
    lines: list[str] = []
    for (spelt, said), having in found.items():
        told = [line for text in (said, f"of: {', '.join(having)}") for line in textwrap.wrap(text, HELP_WIDTH - 4)]
        lines += [spelt, *(f"    {line}" for line in told)]
    return "".join(f"{line}\n" for line in lines)


def help_text(prefix: str, known: Sequence[Command], words: Sequence[str] = ()) -> str:
    """The text of `heap help` in a debugger: alone, or with `all`, a command, `words` or a word."""
    name = " ".join(words)
    if not name:
        return start_in_debugger(prefix)
    if name == ALL:
        return _all_commands(prefix, known)
    found = next((each for each in known if each.name == name), None)
    if found:
        return found.parser(prefix).format_help()
    return meaning(prefix, name, [each.name for each in known], lambda: {each.name: each.outline() for each in known})


def _all_commands(prefix: str, known: Sequence[Command]) -> str:
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
