"""Runs in a GDB without a process, and answers a TypeSource's questions for the shell from the modules' files.

Questions are lines of JSON on standard input; answers are lines on the descriptor that ANSWERS names. For frames, the
shell writes a core that has nothing but stacks and registers.

The files may be hostile. So this GDB loads no scripts, downloads nothing, limits its memory and time, and ends with its
parent. If it is given a list of files that it may open, it opens no others.
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
"""Environment variables: the descriptors of the answers and of the core, and the package's folder."""
AT_ONCE = 64
MOST_MEMORY = 4 << 30
MOST_SECONDS = 120
"""Processor time."""
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
    """The objects that answer the questions. The target must live as long as the types."""

    target: ModuleFiles
    types: GdbTypes
    frames: GdbFrames


def asker_has_ended() -> bool:
    """Whether nobody can write to standard input any more. (The parent may be a script that starts GDB.)"""
    waiting = select.poll()
    waiting.register(sys.stdin, 0)
    return bool(waiting.poll(0))


def make_types() -> LoadedFiles:
    """Loads the files that the first line of standard input names."""
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
        """ModuleFiles, with the threads of a core while one is loaded."""

        def of_each_thread(self, ask: Callable[[gdb.InferiorThread], object], most: Optional[int] = None) -> None:
            for thread in gdb.selected_inferior().threads()[:most]:
                thread.switch()
                # at the first read of registers GDB warns of those that it does not know
                gdb.execute("output $pc", to_string=True)
                ask(thread)

    types = load_once("arenascope_gdb_types", os.path.join(FOLDER, "heap_types.py"))
    variables = load_once("arenascope_gdb_variables", os.path.join(FOLDER, "heap_variables.py"))
    in_frames = load_once("arenascope_gdb_frames", os.path.join(FOLDER, "heap_frames.py")).GdbFrames
    modules, may_open = module_files.from_line(sys.stdin.readline())
    if may_open is not None:
        # a thread started before confine() would not be confined
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
    """Quotes a path for a GDB command."""
    return "".join("\\" + letter if letter in " \\'\"\t" else letter for letter in path)


def around(types: GdbTypes, number: int) -> list[tuple[int, TypeFacts]]:
    """Facts of a type and of the types that it refers to: these will be asked for next, and each question takes a round
    trip."""
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
    """A variable, as the answer has it."""

    name: str
    address: int
    type: int
    size: int


def variables(types: GdbTypes, addresses: Sequence[int]) -> list[VariableRecord]:
    """The variables at these addresses, each once."""
    found = types.variables(addresses)
    last = {found[asked].address: asked for asked in sorted(found)}
    once = {each.address: each for each in found.values()}
    # a flexible array at its end may make it longer than its type
    return [
        VariableRecord(each.name, at, each.type, max(types.facts(each.type).size, last[at] - at + 1))
        for at, each in once.items()
    ]


def thread_locals(types: GdbTypes, target: ModuleFiles) -> list[Sequence[object]]:
    """Thread-local variables, each with the number of its module."""
    modules = {each.regions[0].start: number for number, each in enumerate(target.modules)}
    return [(each.name, modules[each.module], each.offset, each.type) for each in types.thread_locals()]


class OfFrame(NamedTuple):
    """A variable of a frame, as the answer has it. Its type is asked for later, by `code`, `depth` and `number`."""

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
    """The length of an array whose length is in a variable."""


def frames(asked: LoadedFiles, code: Sequence[Sequence[object]]) -> list[OfFrame]:
    """Variables of the core's frames. `code`: the files of all modules, with or without debug information, for
    unwinding."""
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
    # unload the core: later questions are about files alone
    gdb.execute("core-file", to_string=True)
    return found


def of_frame(each: FrameVariable) -> Iterator[OfFrame]:
    """Yields the variable's answer; nothing if its place is unknown, or its type is known only in a process."""
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
    """The function that answers each kind of question."""
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
