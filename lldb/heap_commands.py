"""LLDB's commands: one class for each entry of the command table that all doors share."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any, Iterator, Optional, Sequence, TypeVar, Union, cast

import lldb

from arenascope.base.errors import ArenascopeError, UsageError
from arenascope.base.internal_error import fault_id, fault_line
from arenascope.base.printable import one_line
from arenascope.commands.framework import debugger_doors as doors
from arenascope.commands.framework.arguments import Argument
from arenascope.commands.framework.command import Command, Controller, execute
from arenascope.commands.framework.find_command import all_commands
from arenascope.commands.framework.overview import ALL, HELP_SUMMARY, help_text, start_in_debugger
from arenascope.present.json_documents.record import failed
from arenascope.present.shared_text.lines_and_tables import Style, folded, wants_colour
from arenascope.sources.target import Target

if TYPE_CHECKING:
    # to mypy this folder is a part of LLDB's own package
    from lldb.heap_calls import LldbController
    from lldb.heap_target import LldbTarget

LONGEST_WORD = 65536
OPTION = "--help"
ERROR = "error: "
"""LLDB's prefix of an error message."""


class LldbDoor(doors.DebuggerDoor):
    """The door of one command in LLDB: where it was typed, and where its output goes."""

    name = "lldb"

    def __init__(
        self,
        prefix: str,
        folder: str,
        debugger: lldb.SBDebugger,
        context: lldb.SBExecutionContext,
        result: lldb.SBCommandReturnObject,
    ) -> None:
        super().__init__(prefix, folder)
        self.debugger = debugger
        self.context = context
        self.result = result

    def target(self) -> Target:
        kind: type[LldbTarget] = self.beside("heap_target").LldbTarget
        return self.opened.enter_context(kind(self._selected(), self.debugger))

    def controller(self) -> Optional[Controller]:
        kind: type[LldbController] = self.beside("heap_calls").LldbController
        return kind(self.debugger, self._selected())

    def _selected(self) -> lldb.SBTarget:
        chosen = self.context.GetTarget()
        return chosen if chosen.IsValid() else self.debugger.GetSelectedTarget()

    def style(self) -> Style:
        screen = os.isatty(1)
        colour = screen and self.debugger.GetUseColor() and wants_colour()
        return Style(width=self.debugger.GetTerminalWidth() if screen else 0, colour=colour, program=self.prefix)

    def write(self, text: str) -> None:
        # Print adds nothing to the text; AppendMessage and PutCString add a newline
        self.result.Print(text)

    def describe(self) -> Sequence[str]:
        return [self.debugger.GetVersionString().split("\n")[0].replace("lldb version", "LLDB")]


class _NamedCommand:
    """Base of command classes: LLDB needs a class for each command."""

    prefix: str
    name: str
    may_be_parsed = False
    parsed = False


AnyNamed = TypeVar("AnyNamed", bound=_NamedCommand)


class _LldbSubcommand(_NamedCommand):
    """`heap NAME`, as `command script add -c` needs it.

    Since LLDB 19 a command can declare its options, and LLDB completes them ("parsed"). Older LLDBs pass the line as
    typed ("raw") and complete nothing after the name.
    """

    command: Command
    folder: str
    may_be_parsed = True

    def __init__(self, debugger: lldb.SBDebugger, internal_dict: dict[str, Any]) -> None:
        self._words: list[str] = []

    def __call__(
        self,
        debugger: lldb.SBDebugger,
        given: Union[str, lldb.SBStructuredData],
        context: lldb.SBExecutionContext,
        result: lldb.SBCommandReturnObject,
    ) -> None:
        door = LldbDoor(self.prefix, self.folder, debugger, context, result=result)
        name = f"{self.prefix} {self.command.name}"
        words: list[str] = []
        # catch everything: LLDB would print a traceback and still count the command as successful
        try:
            words = _split(given) if isinstance(given, str) else [*self._words, *_strings(given)]
            with door:
                execute(self.command, words, door)
        except ArenascopeError as error:
            door.write(failed(self.command.name, words, error.id, str(error)))
            result.SetError(folded(one_line(f"{name}: {error}"), door.style().width, ERROR))
        except KeyboardInterrupt:
            result.SetError(f"{name}: interrupted")
        except Exception as error:
            said = fault_line(error, name, door.describe()[0])
            door.write(failed(self.command.name, words, fault_id(error), said))
            result.SetError(f"{name}: {said}")

    def get_short_help(self) -> str:
        return self.command.summary

    def get_long_help(self) -> str:
        if self.parsed:
            # LLDB prints usage and options by itself
            return f"\n{self.command.description}\n\nExample:\n  {self.prefix} {self.command.example}\n"
        return f"\n{doors.help_body(self.command, self.prefix)}\n"

    def get_flags(self) -> int:
        return 0

    def get_repeat_command(self, line: str) -> Optional[str]:
        """What an empty line runs next (LLDB 19 and later)."""
        return "" if self.command.dont_repeat else None

    # methods that LLDB calls for parsed commands only

    def get_options_definition(self) -> dict[str, dict[str, object]]:
        return {name: _option(each, index) for index, (name, each) in enumerate(_long_options(self.command), 1)}

    def get_args_definition(self) -> list[list[dict[str, object]]]:
        places = [each for each in self.command.arguments if not each.is_option]
        return [[{"arg_type": lldb.eArgTypeAddressOrExpression, "repeat": "star"}] for _ in places[:1]]

    def option_parsing_started(self) -> None:
        self._words = []

    def set_option_value(self, context: lldb.SBExecutionContext, name: str, value: str) -> bool:
        takes_value = dict(_long_options(self.command))[name].takes_value
        self._words.append(f"--{name}={value}" if takes_value else f"--{name}")
        return True


def _long_options(command: Command) -> Iterator[tuple[str, Argument]]:
    for each in command.all_arguments():
        for name in each.long_names:
            yield name[2:], each


def _option(argument: Argument, index: int) -> dict[str, object]:
    """An option in the form that LLDB wants."""
    short = next((name[1] for name in argument.names if len(name) == 2), None)
    # LLDB identifies an option by its letter. One without a letter gets an untypable character: LLDB itself would give
    # the first of them 0, and then not complete it.
    definition: dict[str, object] = {"help": argument.help, "short_option": short or chr(index)}
    if argument.takes_value:
        is_number = argument.options.get("type") is int
        definition["value_type"] = lldb.eArgTypeUnsignedInteger if is_number else lldb.eArgTypeValue
        definition["completion_type"] = lldb.eNoCompletion
    if argument.choices:
        definition["enum_values"] = [[choice, ""] for choice in argument.choices]
    return definition


def _strings(given: lldb.SBStructuredData) -> list[str]:
    items = [given.GetItemAtIndex(index) for index in range(given.GetSize())]
    return [item.GetStringValue(LONGEST_WORD) for item in items]


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"the command line does not end: {error}") from None


class _LldbHelp(_NamedCommand):
    """`heap help [COMMAND]`, and `heap --help`."""

    def __init__(self, debugger: lldb.SBDebugger, internal_dict: dict[str, Any]) -> None:
        pass

    def __call__(
        self,
        debugger: lldb.SBDebugger,
        line: str,
        context: lldb.SBExecutionContext,
        result: lldb.SBCommandReturnObject,
    ) -> None:
        try:
            words = line.split() or ([ALL] if self.name == OPTION else [])
            result.Print(help_text(self.prefix, all_commands(), words))
        except UsageError as error:
            result.SetError(one_line(f"{self.prefix} help: {error}"))

    def get_short_help(self) -> str:
        return HELP_SUMMARY

    def get_long_help(self) -> str:
        return f"{HELP_SUMMARY}\n\nUsage: {self.prefix} help [COMMAND|WORD|all|words]\n"


def make_classes(folder: str) -> list[type[_NamedCommand]]:
    """The classes of all commands, for each prefix."""
    classes: list[type[_NamedCommand]] = []
    for prefix in doors.prefixes(print):
        classes += [_make_class(_LldbHelp, prefix, "help"), _make_class(_LldbHelp, prefix, OPTION)]
        classes += [
            _make_class(_LldbSubcommand, prefix, command.name, command=command, folder=folder)
            for command in all_commands()
        ]
    return classes


def _make_class(kind: type[AnyNamed], prefix: str, name: str, **attributes: object) -> type[AnyNamed]:
    made = type(f"{prefix}_{name}".replace("-", "_"), (kind,), {"prefix": prefix, "name": name, **attributes})
    return cast("type[AnyNamed]", made)


def register(debugger: lldb.SBDebugger, classes: Sequence[type[_NamedCommand]], module: str) -> None:
    folder = next(kind.folder for kind in classes if issubclass(kind, _LldbSubcommand))
    doors.offer(
        lambda: LldbDoor(doors.ALWAYS, folder, debugger, lldb.SBExecutionContext(), result=lldb.SBCommandReturnObject())
    )
    interpreter = debugger.GetCommandInterpreter()
    for prefix in dict.fromkeys(kind.prefix for kind in classes):
        if prefix != doors.ALWAYS and _is_taken(interpreter, prefix):
            print(doors.taken(prefix))
            continue
        # for the prefix alone LLDB shows help and syntax, and then the list of commands
        syntax = f"{prefix} COMMAND\n\n{start_in_debugger(prefix)}"
        problem = _run(interpreter, f'command container add -o -h "{doors.SUMMARY}" -H "{syntax}" {prefix}')
        if problem:
            print(f"arenascope: {prefix}: {problem} (LLDB 14 or newer is needed)")
            return
        for kind in classes:
            if kind.prefix == prefix:
                # a container takes no options: after -- LLDB reads "--help" as a command's name
                name = f"-- {prefix} {kind.name}" if kind.name == OPTION else f"{prefix} {kind.name}"
                names = f"-c {module}.{kind.__name__} {name}"
                kind.parsed = kind.may_be_parsed and not _run(interpreter, f"command script add -o -p {names}")
                problem = None if kind.parsed else _run(interpreter, f"command script add -o {names}")
                if problem:
                    print(f"arenascope: {prefix} {kind.name}: {problem}")


def _is_taken(interpreter: lldb.SBCommandInterpreter, prefix: str) -> bool:
    """Whether another command has this name, as its help is not ours. (LLDB crashes if a container replaces it.)"""
    result = lldb.SBCommandReturnObject()
    # SBCommandInterpreter.CommandExists knows built-in commands only, and UserCommandExists is newer than LLDB 16
    interpreter.HandleCommand(f"help {prefix}", result)
    return result.Succeeded() and not (result.GetOutput() or "").startswith(doors.SUMMARY)


def _run(interpreter: lldb.SBCommandInterpreter, line: str) -> Optional[str]:
    """Runs a command line and returns LLDB's error, if any."""
    result = lldb.SBCommandReturnObject()
    interpreter.HandleCommand(line, result)
    return None if result.Succeeded() else (result.GetError() or "failed").strip()
