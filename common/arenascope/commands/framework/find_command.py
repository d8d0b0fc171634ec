"""The table of all commands: each module of `commands` is one, and is loaded when it is asked for."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from .command import GROUPS, Command, CommandRequest

_MODULES = iter_modules([os.path.dirname(os.path.dirname(__file__))])
COMMAND_NAMES = tuple(sorted(each.name for each in _MODULES if not each.ispkg))
"""In alphabetical order."""


def find_command(name: str) -> Command:
    """Loads the command of this name; KeyError if there is none."""
    if name not in COMMAND_NAMES:
        raise KeyError(name)
    module = import_module(f"..{name}", __package__)
    found = getattr(module, f"{name}_command")
    assert isinstance(found, Command)
    return found


def all_commands() -> tuple[Command, ...]:
    """All commands, in the order of help: by group, then by name."""
    # not by map(), which is a module here
    found = (find_command(name) for name in COMMAND_NAMES)
    return tuple(sorted(found, key=lambda each: (GROUPS.index(each.group), each.name)))


@cache
def parse_request(words: str) -> CommandRequest:
    """Parses a command as a user would type it. Call it before a process is held: it loads the command."""
    name, *rest = words.split()
    command = find_command(name)
    return CommandRequest(command, command.parser("arenascope").parse_args(rest))
