"""The table of all commands. Each command's module is loaded when it is asked for."""

from __future__ import annotations

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
)
"""In alphabetical order."""


def find_command(name: str) -> Command:
    """The command of this name; KeyError if there is none."""
    if name == "arenas":
        from .arenas import arenas_command as found
    elif name == "bins":
        from .bins import bins_command as found
    elif name == "check":
        from .check import check_command as found
    elif name == "chunk":
        from .chunk import chunk_command as found
    elif name == "chunks":
        from .chunks import chunks_command as found
    elif name == "containers":
        from .containers import containers_command as found
    elif name == "diff":
        from .diff import diff_command as found
    elif name == "heaps":
        from .heaps import heaps_command as found
    elif name == "info":
        from .info import info_command as found
    elif name == "leaks":
        from .leaks import leaks_command as found
    elif name == "map":
        from .map import map_command as found
    elif name == "mappings":
        from .mappings import mappings_command as found
    elif name == "mmapped":
        from .mmapped import mmapped_command as found
    elif name == "owner":
        from .owner import owner_command as found
    elif name == "owners":
        from .owners import owners_command as found
    elif name == "params":
        from .params import params_command as found
    elif name == "pins":
        from .pins import pins_command as found
    elif name == "refs":
        from .refs import refs_command as found
    elif name == "report":
        from .report import report_command as found
    elif name == "save":
        from .save import save_command as found
    elif name == "snapshot":
        from .snapshot import snapshot_command as found
    elif name == "stats":
        from .stats import stats_command as found
    elif name == "threads":
        from .threads import threads_command as found
    elif name == "trend":
        from .trend import trend_command as found
    elif name == "trim":
        from .trim import trim_command as found
    elif name == "types":
        from .types import types_command as found
    elif name == "version":
        from .version import version_command as found
    else:
        raise KeyError(name)
    return found


def all_commands() -> tuple[Command, ...]:
    """All commands, in the order of help: by group, then by name."""
    # not by map(), which is a module here
    found = (find_command(name) for name in COMMAND_NAMES)
    return tuple(sorted(found, key=lambda each: (GROUPS.index(each.group), each.name)))
