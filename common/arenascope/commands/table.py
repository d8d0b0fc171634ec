"""The list of commands, in the order that help shows them."""

from __future__ import annotations

from importlib import import_module

from . import Command

NAMES = ("arenas", "heaps", "bins", "threads", "params", "mmapped", "check", "trim", "chunks", "chunk", "pins", "map",
         "report", "snapshot", "diff", "info", "stats", "version")


def all_commands() -> tuple[Command, ...]:
    """Every module here holds one Command, under its own name."""
    return tuple(find_command(name) for name in NAMES)


def find_command(name: str) -> Command:
    found = getattr(import_module(f"{__package__}.{name}"), f"{name}_command")
    assert isinstance(found, Command)
    return found
