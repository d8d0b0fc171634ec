"""Which modules have no debug information or no symbols, and the command that brings them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional, Sequence

from ...analysis.held_sums import UNNAMED, is_unnamed
from ...base.heap_model import Statement
from ...base.printable import first_few, one_line
from ...sources.debug_packages import debug_package
from ...sources.elf.elf_file import SHT_SYMTAB, module_build_id, proven_files
from ...sources.elf.modules import programs_of
from ...sources.image_files import ImageTarget, unproven_modules
from .lines_and_tables import Style, count

if TYPE_CHECKING:
    from ...sources.target import Region, Target
    from ...sources.type_source import TypeSource

HOW = "compile with gcc -g, or apt install PACKAGE-dbgsym (`dpkg -S FILE` names PACKAGE)"

UNNAMED_VARIABLES = "unnamed-variables"

DEBUGINFOD = "DEBUGINFOD_URLS=https://debuginfod.elfutils.org gdb -iex 'set debuginfod enabled on'"
"""Makes GDB download symbols by build-id, for packages of most distributions."""

NOT_READ = "debug-information-not-read"
"""Why existing debug information was not used: there is too much of it."""


def names_of(files: Sequence[str]) -> str:
    """The first few files by name: the program, then libraries."""
    return first_few([*dict.fromkeys(one_line(os.path.basename(each)) for each in files)])


def without_debug_information(target: Target, types: TypeSource) -> Optional[Sequence[str]]:
    """Modules without debug information. Modules whose files are not here are left out; None if that is the program
    itself."""
    without = types.without()
    absent = {each.path for each in unproven_modules(target)} if without else ()
    if without and without[0] in absent:
        return None
    return [each for each in without if each not in absent]


def without_types_text(said: Statement) -> str:
    if said.id == NOT_READ:
        size = int(said.figures["bytes"] or 0) >> 20
        return f"types of the program are not known: --declared reads the {size:,} MiB of debug information"
    files = int(said.figures["files"] or 0)
    missing = f"no debug information of {said.names['files']}: {HOW}" if files else "variables lead to none of these"
    return f"types of the program are not known: {missing}"


def missing_line(files: Sequence[str]) -> str:
    return f"no debug information of {count(len(files), 'file')}, {names_of(files)}: {HOW}"


def unnamed_variables(
    subject: Target, target: Target, holdings: Sequence[tuple[Optional[str], int]]
) -> list[Statement]:
    """For each file without symbols, the command that brings its variables' names. `holdings`: owners' names and bytes;
    `target`: the memory that is read, which may be a copy of `subject`."""
    held: dict[str, int] = {}
    for owner, size in holdings:
        if owner is not None and is_unnamed(owner):
            held[owner] = held.get(owner, 0) + size
    found: list[Statement] = []
    if not held:
        return found
    root = subject.root if isinstance(subject, ImageTarget) else "/"
    files = {f"{UNNAMED}{os.path.basename(run[0].path)}": run[0] for run in programs_of(target.regions())}
    for name, size in held.items():
        file = files.get(name)
        build_id = module_build_id(target.read, file.start) if file is not None else None
        if file is None or build_id is None or _has_symbols(target, file, build_id):
            continue
        path = file.path.replace(" (deleted)", "")
        package = debug_package(root, path)
        names = {"owner": name, "module": os.path.basename(path), "file": path}
        names["command"] = f"apt install {package}" if package is not None else DEBUGINFOD
        if package is not None and root != "/":
            names["root"] = root
        found.append(Statement(UNNAMED_VARIABLES, {"bytes": size}, names))
    return found


def _has_symbols(target: Target, file: Region, build_id: str) -> bool:
    paths = target.symbol_files(file, build_id)
    return any(each.type == SHT_SYMTAB for elf in proven_files(paths, build_id) for each in elf.sections)


def symbols_command(said: Statement, style: Style, more: str = "") -> str:
    """The command to type, followed by remarks in brackets; `more` is one of them."""
    command, root = said.names["command"], said.names.get("root")
    if command == DEBUGINFOD and style.running:
        command += f' -p {style.subject} -x "$({style.program} --gdb-path)"'
    remarks = [*([f"in {root}, then ask with --sysroot {root}"] if root is not None else ()), *filter(None, [more])]
    return f"{command} ({'; '.join(remarks)})" if remarks else command


def unnamed_variables_text(said: Statement) -> str:
    return f"no symbols of {said.names['module']}: {symbols_command(said, Style())} brings the names of its variables"
