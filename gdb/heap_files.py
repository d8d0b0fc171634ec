"""Runs in a GDB without a process: answers a TypeSource's questions from the files of modules, for the shell. Of frames
it is told by a core that the shell writes, of stacks and registers alone.

Questions come as lines of JSON on standard input, answers leave as lines on the descriptor that ANSWERS names. The
files may be somebody else's: this GDB loads no scripts, fetches nothing, has limits on memory and time, and ends with
whoever asks. Where it is told which files it may open, it opens no others.
"""

from __future__ import annotations

import json
import os
import resource
import select
import sys
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

import gdb

if TYPE_CHECKING:
    # to mypy this folder is a part of GDB's own package
    from gdb.heap_frames import FrameVariable, GdbFrames
    from gdb.heap_types import GdbTypes

    from arenascope.sources.debug_info_types import TypeFacts
    from arenascope.sources.module_files import ModuleFiles

ANSWERS, CORE, PACKAGE = "ARENASCOPE_ANSWERS", "ARENASCOPE_CORE", "ARENASCOPE_PACKAGE"
"""The descriptors, and the folder that has the package."""
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


class LoadedFiles(NamedTuple):
    """What answers. What types are told of has to be there as long as they."""

    target: ModuleFiles
    types: GdbTypes
    frames: GdbFrames


def asker_has_ended() -> bool:
    """Whether nobody can write to the standard input any more. (The parent may be a script that starts GDB.)"""
    waiting = select.poll()
    waiting.register(sys.stdin, 0)
    return bool(waiting.poll(0))


def make_types() -> LoadedFiles:
    """Of the files that the first line of standard input names."""
    package = os.environ[PACKAGE]
    sys.path.insert(0, package)
    try:
        from arenascope.base import process_limits
        from arenascope.commands.framework.load_once import load_once
        from arenascope.sources import module_files
    finally:
        sys.path.remove(package)
    process_limits.end_with_parent(asker_has_ended)

    class Files(module_files.ModuleFiles):
        """With the threads of a core, while there is one."""

        def of_each_thread(self, ask: Callable[[gdb.InferiorThread], object], most: Optional[int] = None) -> None:
            for thread in gdb.selected_inferior().threads()[:most]:
                thread.switch()
                # GDB warns of registers that it does not know when it reads the first
                gdb.execute("output $pc", to_string=True)
                ask(thread)

    types = load_once("arenascope_gdb_types", os.path.join(FOLDER, "heap_types.py"))
    variables = load_once("arenascope_gdb_variables", os.path.join(FOLDER, "heap_variables.py"))
    in_frames = load_once("arenascope_gdb_frames", os.path.join(FOLDER, "heap_frames.py")).GdbFrames
    modules, may_open = module_files.from_line(sys.stdin.readline())
    if may_open is not None:
        # a thread that was started before would not be confined
        gdb.execute("maintenance set worker-threads 0", to_string=True)
        process_limits.confine(may_open)
    target = Files(modules)
    for each in target.modules:
        load("symbol-file" if each.is_program else "add-symbol-file", each.load, each.bias)
    made: GdbTypes = types.GdbTypes(target, partial(variables.GdbVariables, frames=in_frames))
    return LoadedFiles(target, made, in_frames(target, made))


def load(command: str, path: str, bias: int) -> None:
    with suppress(gdb.error):
        gdb.execute(f"{command} {quoted(path)} -o {bias:#x}", to_string=True)


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


class VariableRecord(NamedTuple):
    """A variable, as it is answered."""

    name: str
    address: int
    type: int
    size: int


def variables(types: GdbTypes, addresses: Sequence[int]) -> list[VariableRecord]:
    """Each once."""
    found = types.variables(addresses)
    last = {found[asked].address: asked for asked in sorted(found)}
    once = {each.address: each for each in found.values()}
    # an array at its end may be longer than the type says
    return [
        VariableRecord(each.name, at, each.type, max(types.facts(each.type).size, last[at] - at + 1))
        for at, each in once.items()
    ]


def thread_locals(types: GdbTypes, target: ModuleFiles) -> list[Sequence[object]]:
    """Each with its module's number."""
    modules = {each.regions[0].start: number for number, each in enumerate(target.modules)}
    return [(each.name, modules[each.module], each.offset, each.type) for each in types.thread_locals()]


class OfFrame(NamedTuple):
    """A variable of a frame, as it is answered: its type is asked for by the function's address."""

    tid: int
    frame: int
    function: str
    name: str
    address: Optional[int]
    data: Optional[str]
    code: int
    depth: int
    number: int
    length: Optional[int]
    """Of an array that has it from a variable."""


def frames(asked: LoadedFiles, code: Sequence[Sequence[object]]) -> list[OfFrame]:
    """`code`: files of all modules, by which frames are found, with debug information or without."""
    known = {each.load for each in asked.target.modules}
    for path, bias in code:
        if path not in known and isinstance(path, str) and isinstance(bias, int):
            load("add-symbol-file", path, bias)
    found: list[OfFrame] = []
    with suppress(gdb.error):
        gdb.execute(f"core-file /proc/self/fd/{int(os.environ[CORE])}", to_string=True)
        for each in asked.frames.of_frames():
            with suppress(gdb.error, RuntimeError):
                found += of_frame(each)
    # what follows is answered as if there never had been one
    gdb.execute("core-file", to_string=True)
    return found


def of_frame(each: FrameVariable) -> Iterator[OfFrame]:
    """Nothing where it is not known where, or its type is known in a process alone."""
    local, length = each.local, None
    if each.declared is None or (local.address is None and local.data is None):
        return
    if each.symbol.type is None or each.type.sizeof != each.symbol.type.sizeof:
        array = each.type.strip_typedefs()
        if array.code != gdb.TYPE_CODE_ARRAY or not array.target().sizeof:
            return
        length = (array.sizeof or 0) // array.target().sizeof
    data = local.data.hex() if local.data is not None else None
    code, depth, number = each.declared
    yield OfFrame(
        tid=local.tid,
        frame=local.frame,
        function=local.function,
        name=local.name,
        address=local.address,
        data=data,
        code=code,
        depth=depth,
        number=number,
        length=length,
    )


def array(types: GdbTypes, about: Sequence[int]) -> Optional[int]:
    with suppress(gdb.error, RuntimeError):
        return types.array_of(*about)
    return None


def answers_of(asked: LoadedFiles) -> Mapping[str, Callable[..., object]]:
    """By the kind of question, which the shell asks as it is to be asked."""
    target, types = asked.target, asked.types
    return {
        "frames": partial(frames, asked),
        "types_at": asked.frames.types_at,
        "array": partial(array, types),
        "thread_locals": lambda _: thread_locals(types, target),
        "variables": partial(variables, types),
        "facts": partial(around, types),
        "by_name": types.by_name,
        "classes_at": types.classes_at,
        "pointer_to": types.pointer_to,
        "structs": lambda of_program: list(types.structs(bool(of_program))),
    }


def main() -> None:
    limit()
    gdb.execute("set confirm off")
    known = answers_of(make_types())
    with open(int(os.environ[ANSWERS]), "w") as answers:
        for line in sys.stdin:
            kind, about = json.loads(line)
            answers.write(json.dumps([known[kind](about)]) + "\n")
            answers.flush()


main()
