"""Which modules have no debug information, and how it is got."""

from __future__ import annotations

import os
from typing import Sequence

from ...base.model import Statement
from ...base.printable import first_few, one_line
from .text import count

HOW = "compile with gcc -g, or apt install PACKAGE-dbgsym (`dpkg -S FILE` names PACKAGE)"


def names_of(files: Sequence[str]) -> str:
    """The first of them: the program, and then libraries."""
    return first_few([*dict.fromkeys(one_line(os.path.basename(each)) for each in files)])


def without_types(files: Sequence[str]) -> Statement:
    """That no types of the program itself are known."""
    return Statement("no-declared-types", {"files": len(files)}, {"files": names_of(files)})


def without_types_text(said: Statement) -> str:
    if said.id == "debug-information-not-read":
        size = int(said.figures["bytes"] or 0) >> 20
        return f"types of the program are not known: --declared reads the {size:,} MiB of debug information"
    files = int(said.figures["files"] or 0)
    missing = f"no debug information of {said.names['files']}: {HOW}" if files else "variables lead to none of these"
    return f"types of the program are not known: {missing}"


def missing_line(files: Sequence[str]) -> str:
    return f"no debug information of {count(len(files), 'file')}, {names_of(files)}: {HOW}"
