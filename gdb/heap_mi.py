"""Commands for GDB/MI (GDB 12 and later), used by editors: -heap-arenas, -heap-report and so on."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import Any, Callable, Sequence

import gdb

from arenascope.commands.framework.command import Command, execute

Errors = Callable[[str], "AbstractContextManager[None]"]


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


def _make_command(command: Command, door: Callable[[], Any], errors: Errors) -> None:
    class MiCommand(gdb.MICommand):
        def __init__(self) -> None:
            super().__init__(f"-heap-{command.name}")

        def invoke(self, arguments: Sequence[str]) -> dict[str, Any]:
            with errors(f"-heap-{command.name}"), door() as real:
                captured = _Captured(real)
                execute(command, [*arguments, "--json"], captured)
            document: dict[str, Any] = _result(json.loads("".join(captured.written)))
            return document

    MiCommand()


def register(commands: Sequence[Command], door: Callable[[], Any], errors: Errors) -> None:
    """Registers the MI commands. `errors` turns an error in a command of that name into one line."""
    if hasattr(gdb, "MICommand"):
        for command in commands:
            _make_command(command, door, errors)
