"""The table of all commands. Each command's module is loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module

from .framework.command import GROUPS, Command

COMMAND_NAMES = (
    "arenas",
    "bins",
    "check",
    "chunk",
    "chunks",
    "containers",
    "diff",
    "heaps",
    "info",
    "leaks",
    "map",
    "mappings",
    "mmapped",
    "owner",
    "owners",
    "params",
    "pins",
    "refs",
    "report",
    "save",
    "snapshot",
    "stats",
    "threads",
    "trend",
    "trim",
    "types",
    "version",
    "waste",
)
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
