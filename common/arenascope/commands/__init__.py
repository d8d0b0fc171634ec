"""The commands, one file each. This table lists them; a command is loaded when it is asked for."""

from __future__ import annotations

from typing import Callable

from .framework.command import GROUPS, Command


def _arenas() -> Command:
    from .arenas import arenas_command

    return arenas_command


def _bins() -> Command:
    from .bins import bins_command

    return bins_command


def _check() -> Command:
    from .check import check_command

    return check_command


def _chunk() -> Command:
    from .chunk import chunk_command

    return chunk_command


def _chunks() -> Command:
    from .chunks import chunks_command

    return chunks_command


def _diff() -> Command:
    from .diff import diff_command

    return diff_command


def _heaps() -> Command:
    from .heaps import heaps_command

    return heaps_command


def _info() -> Command:
    from .info import info_command

    return info_command


def _leaks() -> Command:
    from .leaks import leaks_command

    return leaks_command


def _map() -> Command:
    from .map import map_command

    return map_command


def _mappings() -> Command:
    from .mappings import mappings_command

    return mappings_command


def _mmapped() -> Command:
    from .mmapped import mmapped_command

    return mmapped_command


def _owner() -> Command:
    from .owner import owner_command

    return owner_command


def _owners() -> Command:
    from .owners import owners_command

    return owners_command


def _params() -> Command:
    from .params import params_command

    return params_command


def _pins() -> Command:
    from .pins import pins_command

    return pins_command


def _refs() -> Command:
    from .refs import refs_command

    return refs_command


def _report() -> Command:
    from .report import report_command

    return report_command


def _save() -> Command:
    from .save import save_command

    return save_command


def _snapshot() -> Command:
    from .snapshot import snapshot_command

    return snapshot_command


def _stats() -> Command:
    from .stats import stats_command

    return stats_command


def _threads() -> Command:
    from .threads import threads_command

    return threads_command


def _trend() -> Command:
    from .trend import trend_command

    return trend_command


def _trim() -> Command:
    from .trim import trim_command

    return trim_command


def _types() -> Command:
    from .types import types_command

    return types_command


def _version() -> Command:
    from .version import version_command

    return version_command


COMMANDS: dict[str, Callable[[], Command]] = {
    "arenas": _arenas,
    "bins": _bins,
    "check": _check,
    "chunk": _chunk,
    "chunks": _chunks,
    "diff": _diff,
    "heaps": _heaps,
    "info": _info,
    "leaks": _leaks,
    "map": _map,
    "mappings": _mappings,
    "mmapped": _mmapped,
    "owner": _owner,
    "owners": _owners,
    "params": _params,
    "pins": _pins,
    "refs": _refs,
    "report": _report,
    "save": _save,
    "snapshot": _snapshot,
    "stats": _stats,
    "threads": _threads,
    "trend": _trend,
    "trim": _trim,
    "types": _types,
    "version": _version,
}
"""In alphabetical order."""


def command_names() -> list[str]:
    return [*COMMANDS]


def find_command(name: str) -> Command:
    """KeyError where there is none of this name."""
    return COMMANDS[name]()


def all_commands() -> tuple[Command, ...]:
    """In the order of help: by what they are about, then by name."""
    found = (find_command(name) for name in COMMANDS)
    return tuple(sorted(found, key=lambda each: (GROUPS.index(each.group), each.name)))
