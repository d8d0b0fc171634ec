"""CPython's objects (3.8 to 3.14) by the way from modules and functions to them: what each container holds.

The engine follows them (engine/src/python); here is what it has to know of the release, and where to begin. Every
interpreter is in the list that `_PyRuntime` has. Its dict of modules is found by its contents, threads and their frames
by what the release says: since 3.13 the process describes itself (`_Py_DebugOffsets`).
"""

from __future__ import annotations

import re
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from ..base.heap_model import Statement
from ..engine import TypesAnswer, TypesQuestion, python_objects
from ..session.session import Session
from ..sources.elf.modules import Module
from ..sources.target import Region
from .declared.container_rows import ContainerRow, Elements
from .declared.waste_rows import TakesMost, WasteRow
from .graph.pointers_to import ImageSearch
from .recognise.module_memory import LoadedModules, ground_of
from .recognise.python import TYPE_TYPE, cpython

RUNTIME, VERSION = "_PyRuntime", "Py_Version"
WORD = 8
MOST = 1 << 10
"""Interpreters, threads of one, frames of one."""
INTERPRETER = 16 << 10
"""Bytes of an interpreter in which its dict of modules is looked for."""
LARGEST_CONSTANTS, MOST_CONSTANTS = 16 << 20, 64 << 20
"""Bytes of a module's constants that are handed over, and of all modules'."""
DEBUG_OFFSETS = b"xdebugpy"
HASHED = ("dict", "set", "frozenset", "collections.OrderedDict", "collections.defaultdict", "collections.Counter")
CACHE = "functools.lru_cache"
A_STEP = 32
"""So many bytes of memory have about one reference."""
LEAST_OF_CYCLES = 64 << 10
"""The collector has left so much behind for the next time."""
MANY, HIT_RATE = 100, 20
"""A cache of so many entries finds nothing if of so many questions no more than one was answered from it."""


class PythonRelease(NamedTuple):
    """The layout of objects in bytes, as `Release` in engine/src/python/types.rs describes it."""

    letters: int
    has_logs: int
    values: int
    function: tuple[int, int]
    code_names: tuple[int, int, int]
    code_qualname: int
    type_keys: int
    generator_frame: int
    frame_variables: int
    frame_code: int

    frame_back: int
    interpreters: Optional[int]
    """From `_PyRuntime` to the first interpreter; None, as the next three: the process says it itself."""
    interpreter_next: Optional[int] = 0
    threads: Optional[int] = 8
    current_frame: Optional[int] = 24
    """Of a thread, or of what its word 7 leads to."""
    has_cframe: bool = False


_OLD_CODE, _CODE = (72, 88, 80), (96, 96, 96)
RELEASES: Mapping[int, PythonRelease] = {
    8: PythonRelease(48, 0, 0, (16, 48), _OLD_CODE, 112, 872, 16, 360, 32, 24, 32),
    9: PythonRelease(48, 0, 0, (16, 48), _OLD_CODE, 112, 864, 16, 360, 32, 24, 32),
    10: PythonRelease(48, 0, 0, (48, 72), _OLD_CODE, 112, 872, 16, 352, 32, 24, 32),
    11: PythonRelease(48, 1, 1, (48, 72), _CODE, 128, 872, 80, 72, 32, 48, 40, 0, 16, 8, True),
    12: PythonRelease(40, 1, 2, (48, 72), _CODE, 128, 880, 72, 72, 0, 8, 40, 0, 72, 0, True),
    13: PythonRelease(40, 1, 3, (48, 72), _CODE, 128, 880, 72, 72, 0, 8, None),
    14: PythonRelease(40, 1, 3, (48, 72), _CODE, 128, 880, 72, 80, 0, 8, None),
}
"""By the second number of the version, for 64 bits."""
OFFSETS: Mapping[int, tuple[int, int, int, int]] = {13: (5, 8, 9, 23), 14: (5, 8, 9, 26)}
"""The words of `_Py_DebugOffsets` that say where the first interpreter is, the next, its threads, a thread's frame."""


LEAST_UNREACHED, PART_UNREACHED = 1 << 20, 20
"""So many bytes, and such a part of what pools have handed out: to some objects only CPython itself leads."""


class CacheCounts(NamedTuple):
    """What functools.lru_cache counts, and which type takes most below it."""

    is_unbounded: bool
    hits: int
    misses: int
    mostly: TakesMost


class PythonCycle(NamedTuple):
    """Objects of one type that only lead to each other, and what hangs on them."""

    type: str
    way: str
    """How one leads to another; "": not known."""
    objects: int
    held_objects: int
    held_bytes: int
    sample: int
    mostly: TakesMost


class PythonRow(NamedTuple):
    """All containers at one place."""

    path: str
    type: str
    key: str
    element: str
    """The types of most of its keys and elements; "": there are none, they differ, or were reached in another way."""
    containers: int
    elements: int
    largest: int
    held_objects: int
    held_bytes: int
    sample: int
    """Where the largest one is."""
    cache: Optional[CacheCounts]


class PythonWay(NamedTuple):
    path: str
    """To the object that has it; "": there is none."""
    type: str


class PythonTypeSum(NamedTuple):
    """All objects of one type."""

    type: str
    objects: int
    bytes: int
    """Of these, and of the memory that they have beside themselves."""


class PythonObjects(NamedTuple):
    """What was found in one process."""

    rows: Sequence[PythonRow] = ()
    """What holds most first."""
    cycles: Sequence[PythonCycle] = ()
    objects: int = 0
    pooled: int = 0
    """Bytes of objects in Python's own pools, beside malloc's blocks."""
    handed_out: int = 0
    """Bytes that these pools have handed out, by their own headers."""
    ways: Sequence[PythonWay] = ()
    """To what lies at the addresses that were asked for."""
    types: Sequence[PythonTypeSum] = ()
    """What takes most first."""
    problem: Optional[Statement] = None
    """Why there is nothing, although this is Python."""

    @property
    def in_pools(self) -> int:
        """Bytes of all objects in the pools, also of those that no way led to."""
        return max(self.pooled, self.handed_out)

    def not_reached(self) -> Iterator[Statement]:
        """What is said if no way led to much of what the pools have handed out."""
        size = self.in_pools - self.pooled
        if size >= LEAST_UNREACHED and size * PART_UNREACHED >= self.in_pools:
            yield Statement("python-not-reached", {"bytes": size, "pool_bytes": self.in_pools})


def python_objects_of(search: ImageSearch) -> Optional[PythonObjects]:
    """Found once for an image; None: no CPython is in it. KeyboardInterrupt."""
    results = search.session.block_results
    if not results.has_python:
        results.python, results.has_python = _found(search, ()), True
    return results.python


def python_way(search: ImageSearch, address: int) -> Optional[str]:
    """The way from a module or a function that runs to the object that has what lies there. KeyboardInterrupt."""
    found = _found(search, (address,))
    return next((each.path for each in found.ways if each.path), None) if found is not None else None


def has_python(session: Session) -> bool:
    """Whether CPython is in the process."""
    return cpython(ground_of(session)) is not None


def _found(search: ImageSearch, addresses: Sequence[int]) -> Optional[PythonObjects]:
    ground = ground_of(search.session)
    python = cpython(ground, RUNTIME, VERSION)
    return _of_interpreters(search, ground, *python, addresses) if python is not None else None


def _of_interpreters(
    search: ImageSearch,
    ground: LoadedModules,
    module: Module,
    exported: Mapping[str, int],
    addresses: Sequence[int],
) -> PythonObjects:
    minor = _minor(ground, module, exported.get(VERSION))
    release = RELEASES.get(minor or 0)
    type_words = ground.words(exported[TYPE_TYPE], 2)
    is_plain = search.session.memory.pointer_size == WORD and search.session.memory.byte_order == "little"
    if release is None or type_words is None or type_words[1] != exported[TYPE_TYPE] or not is_plain:
        return PythonObjects(problem=Statement("python-not-known", names={"version": f"3.{minor}" if minor else "?"}))
    interpreters = _interpreters(ground, minor or 0, release, exported.get(RUNTIME, 0))
    question = TypesQuestion()
    question.put(exported[TYPE_TYPE], *release[:3], *release.function, *release.code_names, *release[5:10])
    _add_constants(question, ground)
    question.put(len(interpreters))
    for each in interpreters:
        question.put(each.address, each.address + INTERPRETER)
    frames = [frame for each in interpreters for frame in _frames(ground, each, release)]
    question.put(len(frames))
    for frame in frames:
        question.put(frame.code, frame.variables)
        question.string(frame.thread)
    question.put_list(addresses)
    steps = search.bytes // A_STEP
    with search.session.meter("following Python's objects", steps) as meter:
        answer = python_objects(search.engine, question, steps, meter)
    dicts, objects, pooled, handed_out = answer.number(), answer.number(), answer.size(), answer.size()
    rows = [_row(answer) for _ in range(answer.number())]
    cycles = [_cycle(answer) for _ in range(answer.number())]
    ways = [PythonWay(answer.string(), answer.string()) for _ in range(answer.number())]
    types = [PythonTypeSum(answer.string(), answer.size(), answer.size()) for _ in range(answer.number())]
    problem = None if dicts else Statement("python-no-modules", names={"version": f"3.{minor}"})
    return PythonObjects(rows, cycles, objects, pooled, handed_out, ways, types, problem)


def _minor(ground: LoadedModules, module: Module, version: Optional[int]) -> Optional[int]:
    word = ground.word(version) if version is not None else None
    if word is not None and word >> 24 & 0xFF == 3:
        return word >> 16 & 0xFF
    named = re.search(r"python3\.(\d+)", module.name)
    return int(named[1]) if named else None


class _Interpreter(NamedTuple):
    address: int
    threads: int
    """Where its word is that leads to the first thread."""
    frame: int
    """From a thread to its frame."""


def _interpreters(ground: LoadedModules, minor: int, release: PythonRelease, runtime: int) -> list[_Interpreter]:
    places = release.interpreters, release.interpreter_next, release.threads, release.current_frame
    if release.interpreters is None:
        words = ground.words(runtime, 1 + max(OFFSETS[minor])) if runtime else None
        if words is None or words[0] != int.from_bytes(DEBUG_OFFSETS, "little"):
            return []
        first, following, threads, frame = (words[at] for at in OFFSETS[minor])
    else:
        first, following, threads, frame = (each or 0 for each in places)
    found = list[_Interpreter]()
    address = ground.word(runtime + first) if runtime else None
    while address and len(found) < MOST and all(address != each.address for each in found):
        found.append(_Interpreter(address, address + threads, frame))
        address = ground.word(address + following)
    return found


class _Frame(NamedTuple):
    code: int
    variables: int
    thread: str
    """What is written in front of it; "": it is the first thread's."""


def _frames(ground: LoadedModules, interpreter: _Interpreter, release: PythonRelease) -> Iterator[_Frame]:
    threads = list[int]()
    thread = ground.word(interpreter.threads)
    while thread and thread not in threads and len(threads) < MOST:
        threads.append(thread)
        thread = ground.word(thread + WORD)
    # the first thread is the last in the list
    for number, thread in enumerate(reversed(threads)):
        text = f"thread {number} " if number else ""
        holder = ground.word(thread + 7 * WORD) if release.has_cframe else thread
        frame = ground.word(holder + interpreter.frame) if holder else None
        for _ in range(MOST):
            code = ground.word(frame + release.frame_code) if frame else None
            if not frame or code is None:
                break
            yield _Frame(code & ~3, frame + release.frame_variables, text)
            frame = ground.word(frame + release.frame_back)


def _add_constants(question: TypesQuestion, ground: LoadedModules) -> None:
    """What the image lacks, as it never changes: names of types are there."""
    found, left = list[tuple[Region, bytes]](), MOST_CONSTANTS
    for module in ground.modules.all:
        for region in module.regions if "python" in module.path else ():
            if not region.writable and region.readable and not region.executable:
                size = min(region.end - region.start, LARGEST_CONSTANTS, left)
                data = ground.constants.try_read(region.start, size)
                if data is not None:
                    found.append((region, data))
                    left -= size
    question.put(len(found))
    for region, data in sorted(found, key=lambda each: each[0].start):
        question.put(region.start)
        question.string(data)


def _row(answer: TypesAnswer) -> PythonRow:
    path, type, key, element = (answer.string() for _ in range(4))
    containers, elements, largest, held_objects, held_bytes, sample = (answer.size() for _ in range(6))
    cache = None
    for _ in range(answer.number()):
        cache = CacheCounts(bool(answer.number()), answer.size(), answer.size(), _mostly(answer))
    return PythonRow(path, type, key, element, containers, elements, largest, held_objects, held_bytes, sample, cache)


def _cycle(answer: TypesAnswer) -> PythonCycle:
    type, way = answer.string(), answer.string()
    objects, held_objects, held_bytes, sample = (answer.size() for _ in range(4))
    return PythonCycle(type, way, objects, held_objects, held_bytes, sample, _mostly(answer))


def _mostly(answer: TypesAnswer) -> TakesMost:
    return TakesMost(answer.string(), answer.size())


def python_containers(search: ImageSearch) -> list[ContainerRow]:
    """What holds most first. KeyboardInterrupt."""
    found = python_objects_of(search)
    return [
        ContainerRow(
            row.path,
            _type_text(row),
            form="hash-table" if row.type in HASHED or row.cache is not None else "container",
            links=(),
            containers=row.containers,
            elements=Elements(row.elements, row.largest),
            held_blocks=row.held_objects,
            held_bytes=row.held_bytes,
            sample=row.sample,
            certain=True,
            is_python=True,
        )
        for row in (found.rows if found is not None else ())
    ]


def python_waste(search: ImageSearch) -> list[WasteRow]:
    """What wastes most first. KeyboardInterrupt."""
    found = python_objects_of(search) or PythonObjects()
    rows = list[WasteRow]()
    for row in found.rows:
        cache = row.cache
        if cache is not None and _finds_nothing(row, cache):
            waste = _waste("unbounded", row.path, _type_text(row), row.containers, row.elements, row.held_bytes)
            rows.append(waste._replace(sample=row.sample, hits=cache.hits, mostly=cache.mostly))
    for each in found.cycles:
        if each.held_bytes >= LEAST_OF_CYCLES:
            path = each.way or each.type
            waste = _waste("cycle", path, each.type, each.objects, each.held_objects, each.held_bytes)
            rows.append(waste._replace(sample=each.sample, mostly=each.mostly))
    return rows


def _waste(reason: str, path: str, type: str, number: int, elements: int, room: int) -> WasteRow:
    return WasteRow(reason, path, type, True, number, number, elements, used=0, room=room, resident=None, sample=0)


def _finds_nothing(row: PythonRow, cache: CacheCounts) -> bool:
    return cache.is_unbounded and row.elements >= MANY and cache.hits * HIT_RATE <= cache.misses


def _type_text(row: PythonRow) -> str:
    """ "dict[str, Session]"."""
    has_keys = row.type.endswith(("dict", "Dict"))
    inner = f"[{row.key or 'Any'}, {row.element}]" if has_keys else f"[{row.element}]"
    inner = inner if row.element else ""
    return f"{CACHE if row.cache is not None else row.type}{inner}"
