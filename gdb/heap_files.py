"""Runs in a GDB without a process: answers a TypeSource's questions from the files of modules, for the shell.

Questions come as lines of JSON on standard input, answers leave as lines on the descriptor that ANSWERS names. The
files may be somebody else's: this GDB loads no scripts, fetches nothing, and has limits on memory and time.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Sequence

import gdb

if TYPE_CHECKING:
    # to mypy this folder is a part of GDB's own package
    from gdb.heap_types import GdbTypes

    from arenascope.sources.debug_info_types import TypeFacts
    from arenascope.sources.module_files import ModuleFiles

ANSWERS, PACKAGE = "ARENASCOPE_ANSWERS", "ARENASCOPE_PACKAGE"
"""The descriptor, and the folder that has the package."""
AT_ONCE = 64
MOST_MEMORY = 4 << 30
MOST_SECONDS = 120
"""Of processor time."""
FOLDER = os.path.dirname(os.path.realpath(__file__))


def limit() -> None:
    for name, most in (
        (resource.RLIMIT_AS, MOST_MEMORY),
        (resource.RLIMIT_CPU, MOST_SECONDS),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        hard = resource.getrlimit(name)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(name, (value, value))


def make_types(line: str) -> tuple[ModuleFiles, GdbTypes]:
    """`line`: the modules, as module_files.py writes them. What types are told of has to be there as long as they."""
    package = os.environ[PACKAGE]
    sys.path.insert(0, package)
    try:
        from arenascope.commands.framework.load_once import load_once
        from arenascope.sources import module_files
    finally:
        sys.path.remove(package)

    target = module_files.ModuleFiles(module_files.from_line(line))
    for each in target.modules:
        command = "symbol-file" if each.is_program else "add-symbol-file"
        try:
            gdb.execute(f"{command} {quoted(each.load)} -o {each.bias:#x}", to_string=True)
        except gdb.error:
            continue
    types = load_once("arenascope_gdb_types", os.path.join(FOLDER, "heap_types.py"))
    variables = load_once("arenascope_gdb_variables", os.path.join(FOLDER, "heap_variables.py"))
    made: GdbTypes = types.GdbTypes(target, variables.GdbVariables)
    return target, made


def quoted(path: str) -> str:
    """As a word of GDB's."""
    return "".join("\\" + letter if letter in " \\'\"\t" else letter for letter in path)


def around(types: GdbTypes, number: int) -> list[tuple[int, TypeFacts]]:
    """Of a type, and of those that it leads to: they will be asked for, too, and each question takes its time."""
    found: dict[int, TypeFacts] = {}
    left = deque([number])
    while left and len(found) < AT_ONCE:
        each = left.popleft()
        if each in found:
            continue
        found[each] = facts = types.facts(each)
        left += [field.type for field in facts.fields]
        left += [type for type in (facts.target, *(argument.type for argument in facts.arguments)) if type is not None]
    return list(found.items())


class Sized(NamedTuple):
    """A variable, as it is answered."""

    name: str
    address: int
    type: int
    size: int


def variables(types: GdbTypes, addresses: Sequence[int]) -> list[Sized]:
    """Each once."""
    found = types.variables(addresses)
    last = {found[asked].address: asked for asked in sorted(found)}
    once = {each.address: each for each in found.values()}
    # an array at its end may be longer than the type says
    return [
        Sized(each.name, at, each.type, max(types.facts(each.type).size, last[at] - at + 1))
        for at, each in once.items()
    ]


def thread_locals(types: GdbTypes, target: ModuleFiles) -> list[Sequence[object]]:
    """Each with its module's number."""
    modules = {each.regions[0].start: number for number, each in enumerate(target.modules)}
    return [(each.name, modules[each.module], each.offset, each.type) for each in types.thread_locals()]


def answer(types: GdbTypes, kind: str, about: object, target: ModuleFiles) -> object:
    if kind == "thread_locals":
        return thread_locals(types, target)
    if kind == "variables" and isinstance(about, list):
        return variables(types, about)
    if kind == "facts" and isinstance(about, int):
        return around(types, about)
    if kind == "by_name" and isinstance(about, str):
        return types.by_name(about)
    if kind == "classes_at" and isinstance(about, int):
        return list(types.classes_at(about))
    if kind == "pointer_to" and isinstance(about, int):
        return types.pointer_to(about)
    return list(types.structs()) if kind == "structs" else None


def main() -> None:
    limit()
    gdb.execute("set confirm off")
    target, types = make_types(sys.stdin.readline())
    with open(int(os.environ[ANSWERS]), "w") as answers:
        for line in sys.stdin:
            kind, about = json.loads(line)
            answers.write(json.dumps([answer(types, kind, about, target)]) + "\n")
            answers.flush()


main()
