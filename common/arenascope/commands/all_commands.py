"""The table of all commands: each module beside this one is a command, and is loaded when it is asked for."""

from __future__ import annotations

import os
from importlib import import_module
from pkgutil import iter_modules

from .framework.command import GROUPS, Command

_MODULES = iter_modules([os.path.dirname(__file__)])
COMMAND_NAMES = tuple(sorted(each.name for each in _MODULES if not each.ispkg and each.name != "all_commands"))
"""In alphabetical order."""


def find_command(name: str) -> Command:
    """Loads the command of this name; KeyError if there is none."""
    if name not in COMMAND_NAMES:
        raise KeyError(name)
    module = import_module(f".{name}", __package__)
    found = getattr(module, f"{name}_command")
    assert isinstance(found, Command)
    return found


def all_commands() -> tuple[Command, ...]:
    """All commands, in the order of help: by group, then by name."""
    # not by map(), which is a module here
    found = (find_command(name) for name in COMMAND_NAMES)
    return tuple(sorted(found, key=lambda each: (GROUPS.index(each.group), each.name)))
