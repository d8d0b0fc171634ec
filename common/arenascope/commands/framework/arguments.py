"""Describes a command line once, as data, for all doors: argparse's parsers and LLDB's options are made from it."""

from __future__ import annotations

import argparse
import math
import textwrap
from typing import Any, Callable, Iterator, Mapping, NamedTuple, NoReturn, Optional, Sequence

from ...base.argv import with_suggestion
from ...base.errors import UsageError
from ...present.shared_text.lines_and_tables import HELP_WIDTH


class Argument(NamedTuple):
    """One argument, as the parameters of argparse's add_argument."""

    names: tuple[str, ...]
    help: str
    options: Mapping[str, Any]

    @property
    def is_option(self) -> bool:
        return self.names[0].startswith("-")

    @property
    def takes_value(self) -> bool:
        return self.is_option and self.options.get("action") in (None, "append")

    @property
    def long_names(self) -> list[str]:
        return [name for name in self.names if name.startswith("--")]

    @property
    def choices(self) -> Sequence[str]:
        return list(self.options.get("choices", ()))

    @property
    def value(self) -> str:
        """How help writes its value: N, FILE, {ptrace,signal}."""
        either = "{" + ",".join(self.choices) + "}" if self.choices else None
        return str(self.options.get("metavar") or either or self.names[-1].lstrip("-").upper())

    @property
    def spelt(self) -> str:
        """The argument as it is typed."""
        if self.is_option:
            return f"{', '.join(self.names)} {self.value}" if self.takes_value else ", ".join(self.names)
        return {"?": f"[{self.value}]", "*": f"[{self.value} ...]", "+": f"{self.value} [{self.value} ...]"}.get(
            self.options.get("nargs") or "", self.value
        )


def argument(*names: str, help: str, **options: Any) -> Argument:
    return Argument(names, help, options)


UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str, bare: str = "s") -> float:
    """Parses a time: 300ms, 1.5s, 2m. A number alone is in `bare` units."""
    number = text.rstrip("hms")
    try:
        found = float(number) * UNITS[text[len(number) :] or bare]
    except (ValueError, KeyError):
        found = math.nan
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: 300ms, 1.5s and 2m are")
    return found


class HelpRequested(Exception):
    """Raised when help is asked for; its text is the help."""


class _Help(argparse.Action):
    """Replaces argparse's action, which writes to standard output, where a debugger shows nothing, and exits."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: Optional[str] = None) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        raise HelpRequested(parser.format_help())


RULES = argument(
    "--rules",
    metavar="FILE",
    help="rules that say what untyped pointers lead to (docs/types.md); none: only debug information. The default is "
    "PROGRAM.rules in ~/.config/arenascope/rules, or as it comes with arenascope",
)
HELP = argument("-h", "--help", action=_Help, help="show this help")


class ArgumentGroup(NamedTuple):
    """Arguments under one heading of the help."""

    title: str
    arguments: Sequence[Argument]


class Outline(NamedTuple):
    """The description of a command line. `also`: arguments that a door adds to the command's own."""

    summary: str
    description: str
    example: str
    groups: Sequence[ArgumentGroup]
    also: Sequence[ArgumentGroup] = ()
    names_pids: str = ""
    """The option that names pids, for a command without positional arguments."""

    @property
    def all_groups(self) -> Sequence[ArgumentGroup]:
        return (*self.groups, *self.also)


def help_in(function: Callable[..., object]) -> tuple[str, str]:
    """The summary and the description that a function's docstring has."""
    summary, _, description = (function.__doc__ or "").partition("\n\n")
    return " ".join(summary.split()), " ".join(description.split())


def outline_of(summary: str, description: str, example: str, *arguments: Argument, names_pids: str = "") -> Outline:
    """Describes a command that only the shell has."""
    groups = (ArgumentGroup("options", (*arguments, HELP)),)
    return Outline(summary, description, example, groups, names_pids=names_pids)


def options_of(groups: Sequence[ArgumentGroup]) -> Iterator[Argument]:
    return (each for group in groups for each in group.arguments if each.is_option)


def places_of(groups: Sequence[ArgumentGroup]) -> Iterator[Argument]:
    """The positional arguments."""
    return (each for group in groups for each in group.arguments if not each.is_option)


def names_of(groups: Sequence[ArgumentGroup]) -> list[str]:
    return [name for each in options_of(groups) for name in each.names]


def completions(arguments: Sequence[Argument], before: str, start: str) -> list[str]:
    """Completions of a word, for a door that has none of its own: option names, or an option's values."""
    for each in arguments:
        if before in each.names and each.takes_value:
            return [choice for choice in each.choices if choice.startswith(start)]
    names = sorted(name for each in arguments for name in each.long_names)
    return [name for name in names if name.startswith(start)] if start[:1] == "-" else []


Settle = Callable[["Parser", argparse.Namespace], None]
"""Completes a door's parsed options, or refuses them."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Has the same width everywhere; argparse would ask for the terminal's width at each argument."""

    def __init__(self, prog: str, **standard: Any) -> None:
        super().__init__(prog, **{**standard, "width": HELP_WIDTH - 1})


class OneLine(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def __init__(self, **standard: Any) -> None:
        super().__init__(**{**standard, "formatter_class": HelpFormatter, "add_help": False, "allow_abbrev": False})
        # Python 3.14 colours help on a terminal, but this text is also shown elsewhere
        self.color = False

    @property
    def usage_hint(self) -> str:
        return f"{self.prog} --help shows how it is used"

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.usage_hint)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            meant = with_suggestion(str(value), map(str, action.choices or ()))
            error.message += f"; {meant}" if meant else ""
            raise

    def add(self, each: Argument, where: Optional[Any] = None) -> None:
        """Adds the arguments. `where`: a group of this parser, or the parser."""
        options = {**each.options, "help": each.help}
        if not each.is_option:
            options["metavar"] = each.value
        (where or self).add_argument(*each.names, **options)


class Parser(OneLine):
    """The parser of one command. Options may stand anywhere, and may be abbreviated."""

    def __init__(self, outline: Outline, prog: str, settle: Optional[Settle] = None, **standard: Any) -> None:
        super().__init__(**{**standard, "prog": prog})
        self.outline = outline
        self._settle = settle
        self._places = list(places_of(outline.all_groups))
        for group in outline.all_groups:
            shown = self.add_argument_group(group.title)
            for each in options_of([group]):
                self.add(each, shown)

    def parse_known_args(  # type: ignore[override]
        self, args: Optional[Sequence[str]] = None, namespace: Optional[argparse.Namespace] = None
    ) -> tuple[argparse.Namespace, list[str]]:
        known, also = names_of(self.outline.groups), names_of(self.outline.also)
        words = full_names(args or (), known, self.usage_hint, also)
        end = words.index("--") if "--" in words else len(words)
        # parse options first: argparse fills a list of positional words only if they stand side by side
        options, plain = super().parse_known_args(words[:end], namespace)
        plain += words[end + 1 :]
        self._add_places()
        options, rest = super().parse_known_args(["--", *plain] if plain else [], options)
        if rest:
            self._refuse([word for word in rest if word != "--"])
        if self._settle is not None:
            self._settle(self, options)
        return options, []

    def _refuse(self, words: Sequence[str]) -> NoReturn:
        """Refuses words that the command does not take."""
        wanted = next((each for each in options_of(self.outline.all_groups) if words[0] in each.choices), None)
        line = " ".join(words)
        if wanted is not None:
            meant = f"did you mean {wanted.long_names[0]} {words[0]}? {self.usage_hint}"
            raise UsageError(f"unrecognized arguments: {line}", meant)
        if self.outline.names_pids:
            raise UsageError(f"takes no pid: {self.outline.names_pids} {line}", self.usage_hint)
        self.error(f"unrecognized arguments: {line}")

    def _add_places(self) -> None:
        while self._places:
            self.add(self._places.pop(0))

    def format_help(self) -> str:
        self._add_places()
        program = self.prog.partition(" ")[0]
        summary, description, example = self.outline[:3]
        examples = [f"  {program} {line}" for line in example.splitlines()]
        places = [each.spelt for each in places_of(self.outline.all_groups)]
        self.usage = " ".join([self.prog, "[options]", *places])
        self.description = f"{textwrap.fill(summary, HELP_WIDTH)}\n\n{textwrap.fill(description, HELP_WIDTH)}".strip()
        self.epilog = "\n".join([f"example{'s' if examples[1:] else ''}:", *examples])
        return super().format_help()


def full_names(words: Sequence[str], names: Sequence[str], usage: str, also: Sequence[str] = ()) -> list[str]:
    """Completes abbreviated options that are unambiguous: --lim is --limit, and so is -limit, as GDB's users write it.
    `also` are options of the door's own, which come after those of the command."""
    whole: list[str] = []
    for word in words:
        whole.append(word if "--" in whole else _full_name(word, (names, also), usage))
    return whole


def _full_name(word: str, known: Sequence[Sequence[str]], usage: str) -> str:
    name, sign, value = word.partition("=")
    start = name.lstrip("-")
    if name[:1] != "-" or not start[:1].isalpha():
        # not an option: a word, a negative number, an expression
        return word
    every = [each for names in known for each in names]
    if name in every or (name[:2] in every and name[2:].isdigit()):
        # whole, or with its value behind it: -p1234
        return word
    for names in known:
        matches = [each for each in names if each.startswith(f"--{start}")]
        if f"--{start}" in matches:
            matches = [f"--{start}"]
        if len(matches) > 1:
            raise UsageError(f"{name} could be {' or '.join(sorted(matches))}", usage)
        if matches:
            return f"{matches[0]}{sign}{value}"
    raise UsageError(f"there is no option {name}", with_suggestion(name, every, usage))
