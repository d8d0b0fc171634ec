"""GDB's commands: one gdb.Command for each entry of the command table that all doors share."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Sequence

import gdb

from arenascope.base.argv import with_suggestion
from arenascope.base.errors import ArenascopeError, UsageError
from arenascope.base.internal_error import STATUS, fault_id, fault_line
from arenascope.base.printable import one_line
from arenascope.commands.framework import debugger_doors as doors
from arenascope.commands.framework.arguments import HELP, completions
from arenascope.commands.framework.command import Command, Controller, execute
from arenascope.commands.framework.find_command import COMMAND_NAMES, all_commands
from arenascope.commands.framework.overview import ALL, HELP_SUMMARY, help_text
from arenascope.present.glossary import TOPIC
from arenascope.present.json_documents.record import failed
from arenascope.present.shared_text.lines_and_tables import Style, folded, wants_colour
from arenascope.sources.target import Target

if TYPE_CHECKING:
    # to mypy this folder is a part of GDB's own package
    from gdb.heap_calls import GdbController
    from gdb.heap_target import GdbTarget


def _columns() -> int:
    """The terminal's width in columns. GDB itself would break longer lines in mid-word."""
    return int(gdb.parameter("width") or 0) if os.isatty(1) else 0


class GdbDoor(doors.DebuggerDoor):
    """The door of one command in GDB: where it was typed, and where its output goes."""

    name = "gdb"

    def target(self) -> Target:
        kind: type[GdbTarget] = self.beside("heap_target").GdbTarget
        return self.opened.enter_context(kind())

    def controller(self) -> Optional[Controller]:
        control = self.beside("heap_calls")
        control.check_registers()
        kind: type[GdbController] = control.GdbController
        return kind()

    def style(self) -> Style:
        colour = bool(gdb.parameter("style enabled")) and sys.__stdout__ is not None and os.isatty(1)
        return Style(width=int(gdb.parameter("width") or 0), colour=colour and wants_colour(), program=self.prefix)

    def write(self, text: str) -> None:
        gdb.write(text)

    def describe(self) -> Sequence[str]:
        return [f"GDB {gdb.VERSION}"]


@contextmanager
def errors_as_gdb_says_them(name: str, document: Callable[[str, str], str] = lambda id, error: "") -> Iterator[None]:
    """Turns any error of the command `name` into a one-line GdbError: GDB shows no other error as it is. `document`:
    makes the text to print as well, from the error's id and sentence."""
    try:
        yield
    except gdb.GdbError:
        raise
    except (ArenascopeError, gdb.error) as error:
        gdb.write(document(error.id if isinstance(error, ArenascopeError) else "debugger", str(error)))
        raise gdb.GdbError(folded(one_line(f"{name}: {' '.join(str(error).split())}"), _columns())) from None
    except Exception as error:
        gdb.set_convenience_variable("_exitcode", STATUS)
        said = fault_line(error, name, f"GDB {gdb.VERSION}")
        gdb.write(document(fault_id(error), said))
        raise gdb.GdbError(f"{name}: {said}") from None


class _GdbSubcommand(gdb.Command):
    """`heap NAME`; its docstring is what `help heap NAME` shows."""

    def __init__(self, prefix: str, command: Command, folder: str) -> None:
        self.command = command
        self.door = GdbDoor(prefix, folder)
        super().__init__(f"{prefix} {command.name}", gdb.COMMAND_DATA)

    def invoke(self, line: str, from_tty: bool) -> None:
        if self.command.dont_repeat:
            self.dont_repeat()
        words = gdb.string_to_argv(line)
        document = partial(failed, self.command.name, words)
        with errors_as_gdb_says_them(f"{self.door.prefix} {self.command.name}", document), self.door:
            status = execute(self.command, words, self.door)
        if status:
            gdb.set_convenience_variable("_exitcode", status)

    def complete(self, text: str, word: Optional[str]) -> Sequence[str]:
        *before, last = text.split(" ")
        # GDB splits the line into words by its own rules: a word may begin after the dashes
        skip = len(last) - len(word or "")
        return [name[skip:] for name in completions(self.command.all_arguments(), "".join(before[-1:]), last)]


def _make_subcommand(prefix: str, command: Command, folder: str) -> None:
    # first line for lists, then the rest, as GDB's own help is written
    text = f"{command.summary}\n\n{doors.help_body(command, prefix)}"
    kind = type(f"{prefix.title()}{command.name.title()}", (_GdbSubcommand,), {"__doc__": text})
    kind(prefix, command, folder)


class _GdbHelp(gdb.Command):
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        super().__init__(f"{prefix} help", gdb.COMMAND_DATA)

    def invoke(self, line: str, from_tty: bool) -> None:
        with errors_as_gdb_says_them(f"{self.prefix} help"):
            gdb.write(help_text(self.prefix, all_commands(), gdb.string_to_argv(line)))

    def complete(self, text: str, word: Optional[str]) -> Sequence[str]:
        return [name for name in (*COMMAND_NAMES, ALL, TOPIC) if name.startswith(text)]


def _make_help(prefix: str) -> None:
    type(f"{prefix.title()}Help", (_GdbHelp,), {"__doc__": HELP_SUMMARY})(prefix)


def _make_prefix(prefix: str) -> gdb.Command:
    class Prefix(gdb.Command):
        def __init__(self) -> None:
            super().__init__(prefix, gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)

        def invoke(self, line: str, from_tty: bool) -> None:
            word = line.split(" ")[0]
            if word and word not in HELP.names:
                hint = with_suggestion(word, COMMAND_NAMES, f"{prefix} help {ALL} lists them")
                raise gdb.GdbError(str(UsageError(f"{prefix} has no command {word!r}", hint)))
            gdb.write(help_text(prefix, all_commands(), [ALL] if word else []))

    Prefix.__doc__ = doors.SUMMARY
    made: gdb.Command = type("Prefix", (Prefix,), {"__doc__": doors.SUMMARY})()
    return made


def _is_taken(prefix: str, say: Callable[[str], None]) -> bool:
    """Whether another command has this name: a command of that name exists, and is user-defined or has another help
    text."""
    if prefix not in gdb.execute(f"complete {prefix}", to_string=True).splitlines():
        return False
    try:
        # GDB 13 crashes in `help` where the user's `define` replaced ours, as the subcommands still belong to our
        # command
        gdb.execute(f"show user {prefix}", to_string=True)
    except gdb.error:
        if gdb.execute(f"help {prefix}", to_string=True).startswith(doors.SUMMARY):
            return False
    say(doors.taken(prefix))
    return True


def _watch(prefix: str, command: gdb.Command) -> None:
    """Warns once, at a prompt, that another command has taken the name, as GDB replaces ours without a message.

    The handler stays connected, and so keeps `command` alive for good: a `define` by the user takes over our list of
    subcommands, and GDB would crash if that were freed.
    """
    kept = [command]
    ours = sys.modules.get(__name__)

    def look(*_: None) -> None:
        nonlocal ours
        # once arenascope is loaded again, the new copy has a handler of its own
        if kept and ours and (sys.modules.get(__name__) is not ours or _is_taken(prefix, _say)):
            ours = None

    gdb.events.before_prompt.connect(look)


def _unlist(prefix: str) -> None:
    """Hides a word from GDB's lists of commands by marking it as deprecated.

    pwndbg crashes GDB if `help all` lists a `heap` before pwndbg is loaded. The word still works, and still has
    completion and help.
    """
    gdb.execute(f"maintenance deprecate {prefix}", to_string=True)
    # GDB warns at the first use of a deprecated command: use it here, where the warning is discarded
    gdb.execute(prefix, to_string=True)


def _say(line: str) -> None:
    gdb.write(f"{line}\n")


class _Captured:
    """A door that returns its output as data; all else is done by the real door."""

    def __init__(self, door: Any) -> None:
        self._door = door
        self.written: list[str] = []

    def write(self, text: str) -> None:
        self.written.append(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._door, name)


def _result(value: Any) -> Any:
    """Converts JSON values to MI's, which has only strings, lists and tuples. Nulls are left out."""
    if isinstance(value, dict):
        return {key: _result(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_result(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _make_mi_command(command: Command, door: Callable[[], GdbDoor]) -> None:
    """Makes a command for GDB/MI, which editors use: -heap-arenas, -heap-report and so on."""

    class MiCommand(gdb.MICommand):
        def __init__(self) -> None:
            super().__init__(f"-heap-{command.name}")

        def invoke(self, arguments: Sequence[str]) -> dict[str, Any]:
            with errors_as_gdb_says_them(f"-heap-{command.name}"), door() as real:
                captured = _Captured(real)
                execute(command, [*arguments, "--json"], captured)
            document: dict[str, Any] = _result(json.loads("".join(captured.written)))
            return document

    MiCommand()


def register(folder: str) -> None:
    words = [prefix for prefix in doors.prefixes(_say) if prefix == doors.ALWAYS or not _is_taken(prefix, _say)]
    for prefix in words:
        made = _make_prefix(prefix)
        if prefix != doors.ALWAYS:
            _unlist(prefix)
            _watch(prefix, made)
        _make_help(prefix)
        for command in all_commands():
            _make_subcommand(prefix, command, folder)
    door = partial(GdbDoor, words[0], folder)
    doors.offer(door)
    # GDB 12 and later
    if hasattr(gdb, "MICommand"):
        for command in all_commands():
            _make_mi_command(command, door)
