"""Which modules have no debug information, and how it is got."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional, Sequence

from ...base.model import Statement
from ...base.printable import first_few, one_line
from ...sources.elf.other_files import unproven_modules
from .text import count

if TYPE_CHECKING:
    from ...sources.debug_info_types import TypeSource
    from ...sources.target import Target

HOW = "compile with gcc -g, or apt install PACKAGE-dbgsym (`dpkg -S FILE` names PACKAGE)"

NOT_READ = ("debug-information-not-read", "no-gdb")
"""Why debug information that is there says nothing."""
WITHOUT_GDB = {
    "not-found": "GDB reads debug information for the shell, and none is on PATH: apt install gdb",
    "one-file": "a GDB reads debug information for the shell, and the one file cannot start it: install with pip",
    "no-answer": "the GDB that reads debug information for the shell ended without an answer",
}


def names_of(files: Sequence[str]) -> str:
    """The first of them: the program, and then libraries."""
    return first_few([*dict.fromkeys(one_line(os.path.basename(each)) for each in files)])


def without_debug_information(target: Target, types: TypeSource) -> Optional[Sequence[str]]:
    """Files of modules; of one that is not here at all nothing is said. None where that is the first, the program."""
    without = types.without()
    absent = {each.path for each in unproven_modules(target)} if without else ()
    if without and without[0] in absent:
        return None
    return [each for each in without if each not in absent]


def without_types_text(said: Statement) -> str:
    if said.id == "debug-information-not-read":
        size = int(said.figures["bytes"] or 0) >> 20
        return f"types of the program are not known: --declared reads the {size:,} MiB of debug information"
    if said.id == "no-gdb":
        return f"types of the program are not known: {WITHOUT_GDB[said.names['why']]}"
    files = int(said.figures["files"] or 0)
    missing = f"no debug information of {said.names['files']}: {HOW}" if files else "variables lead to none of these"
    return f"types of the program are not known: {missing}"


def missing_line(files: Sequence[str]) -> str:
    return f"no debug information of {count(len(files), 'file')}, {names_of(files)}: {HOW}"
