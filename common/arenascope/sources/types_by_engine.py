"""Types from debug information that the engine reads, in files that are proven to be a program's modules."""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_left
from collections import Counter
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Iterator, Mapping, NamedTuple, Optional, Sequence, get_args

from ..base.errors import ArenascopeError, MemoryReadError
from ..engine import NOTHING, EngineImage, EngineTypes, TypesAnswer, TypesQuestion, demangled
from .elf.address_names import NamedSymbol
from .elf.elf_file import INFORMATION, downloads, module_build_id, proven_files
from .target import MemoryPiece, Region
from .type_source import (
    BitField,
    Form,
    SizedStruct,
    StartVariable,
    StructField,
    TemplateArgument,
    ThreadLocal,
    TypedVariable,
    TypeFacts,
    VariableFrame,
)

if TYPE_CHECKING:
    from .image_files import ImageTarget

THREADS = 200
"""At most so many threads are asked for their variables."""
CLONE = re.compile(r"\.(?:\d+|lto_priv|constprop|part|isra|llvm|cold)(?=\.|$)")
"""The suffixes of compilers for statics whose names would clash."""
ABI = re.compile(r"\[abi:[^]]*\]")
DEFAULT_BYTES = 64 << 20
"""The default limit of bytes read."""
MOST_OF_ONE, MOST_OF_ALL = 8 << 20, 64 << 20
"""The most bytes of one stack and of all, where they must be copied. Frames are unwound from the innermost on."""
RED_ZONE = 128
"""A leaf function may use this much below the stack pointer."""
BLOCK = 1 << 16
VDSO = "[vdso]"
"""The kernel's module."""
DEBUG = (".debug_", ".zdebug_")
FORMS: Sequence[Form] = get_args(Form)
LANGUAGES = ("", "c", "c++", "rust")


class _Module(NamedTuple):
    """A module, and how much debug information its files have."""

    region: Region
    is_program: bool
    build_id: str
    files: Sequence[str]
    size: int


class TypesByEngine:
    """The types of a core or a process."""

    def __init__(self, target: ImageTarget, folders: Sequence[str], most: Optional[int] = DEFAULT_BYTES) -> None:
        """`folders` have separate debug files; with more than `most` bytes of debug information it answers nothing;
        None: no limit."""
        self._target, self._folders, self._most = target, folders, most
        self._facts: dict[int, TypeFacts] = {}
        self._variables: dict[int, Optional[TypedVariable]] = {}
        """By the starts of symbols."""

    def variables(self, addresses: Sequence[int]) -> Mapping[int, TypedVariable]:
        symbols = {each: self._target.symbol_at(each) or self._own_symbol_at(each) for each in addresses}
        new = {each.value: each for each in symbols.values() if each is not None and each.value not in self._variables}
        for symbol, (name, type) in zip(new.values(), self._told([(NOTHING, each) for each in new.values()])):
            self._variables[symbol.value] = TypedVariable(name, symbol.value, type) if type is not None else None
        found: dict[int, TypedVariable] = {}
        for address, covering in symbols.items():
            variable = self._variables.get(covering.value) if covering is not None else None
            if variable is not None and covering is not None:
                size = covering.size or self.facts(variable.type).size
                if address - variable.address < size:
                    found[address] = variable
        return found

    def _own_symbol_at(self, address: int) -> Optional[NamedSymbol]:
        """Returns the debugger's symbol, if no file is available here."""
        place = self._target.own_name(address)
        return NamedSymbol(address - place.offset, 0, place.name) if place is not None else None

    def _told(self, symbols: Sequence[tuple[int, NamedSymbol]]) -> Iterator[tuple[str, Optional[int]]]:
        """Yields names and types of the variables that symbols stand for, each with its module's first address if it is
        thread-local."""
        question = TypesQuestion()
        for base, symbol in symbols:
            question.put(base, symbol.value, symbol.size)
            question.string(symbol.text)
        answer = self._engine.ask("variables", question) if symbols and self._engine is not None else None
        for _, symbol in symbols if answer is not None else ():
            type = answer.option() if answer is not None else None
            plain = plain_name(symbol.text)
            if answer is not None and type is not None:
                own, function = answer.string(), answer.string()
                # in C++ a static variable's symbol has its function's name
                plain = f"{function_name(function)}::{own}" if function and "::" not in plain else plain
            yield plain, type

    def thread_locals(self) -> Sequence[ThreadLocal]:
        symbols = self._target.thread_symbols()
        met = Counter((base, plain_name(symbol.text)) for base, symbol in symbols)
        symbols = [(base, symbol) for base, symbol in symbols if met[base, plain_name(symbol.text)] == 1]
        return [
            ThreadLocal(name, base, symbol.value, type)
            for (base, symbol), (name, type) in zip(symbols, self._told(symbols))
            if type is not None
        ]

    def locals(self) -> Sequence[StartVariable]:
        sets = self._target.register_sets()[:THREADS]
        if self._engine is None or not sets:
            return ()
        image = EngineImage(self._target.pointer_size, self._target.byte_order, self._target.stop_if_asked)
        image.set_memory(self._pieces())
        question = TypesQuestion()
        kernel = next((each for each in self._target.regions() if each.path == VDSO), None)
        question.put(kernel.start if kernel is not None else 0)
        question.string(self._read(kernel.start, kernel.end) if kernel is not None else b"")
        for each in sets:
            question.put(each.tid)
            question.string(each.general)
        answer = self._engine.locals(image, question, len(sets))
        found = [(_local(answer), answer.option()) for _ in range(answer.number())]
        frames = [_frame(answer) for _ in range(answer.number())]
        return [local._replace(within=frames[at]) if at is not None else local for local, at in found]

    def _pieces(self) -> list[MemoryPiece]:
        """Returns where the image's bytes are; copies of stacks where only reading gives them."""
        pointers = [each.stack_pointer for each in self._target.threads() if each.stack_pointer is not None]
        pointers, left = sorted(pointers), MOST_OF_ALL
        pieces = list[MemoryPiece]()
        for region in self._target.regions():
            found = self._target.pieces(region.start, region.end)
            if found is not None:
                pieces += found
                continue
            at = bisect_left(pointers, region.start)
            if at < len(pointers) and pointers[at] < region.end:
                start = max(region.start, pointers[at] - RED_ZONE)
                data = self._read(start, min(region.end, start + min(MOST_OF_ONE, left)))
                left -= len(data)
                pieces.append(MemoryPiece(start, len(data), memoryview(bytearray(data))))
        return pieces

    def _read(self, start: int, end: int) -> bytes:
        """Returns the bytes up to the first one that is missing, by blocks."""
        data = bytearray()
        with suppress(MemoryReadError):
            while start < end:
                data += self._target.read(start, min(BLOCK, end - start))
                start += BLOCK
        return bytes(data)

    def facts(self, type: int) -> TypeFacts:
        if type not in self._facts:
            answer = self._engine.ask("facts", type) if self._engine is not None else None
            self._facts[type] = read_facts(answer) if answer is not None else TypeFacts("", "other", 0)
        return self._facts[type]

    def named(self, name: str, beside: Optional[int] = None) -> Sequence[int]:
        answer = self._engine.ask("named", name, NOTHING if beside is None else beside) if self._engine else None
        found = list[int]()
        while answer is not None and answer.has_more:
            found.append(answer.number())
        return found

    def structs(self, of_program: bool = False) -> Iterator[SizedStruct]:
        answer = self._engine.ask("structs", int(of_program)) if self._engine is not None else None
        while answer is not None and answer.has_more:
            yield SizedStruct(answer.number(), answer.size())

    def without(self) -> Sequence[str]:
        described = {each.region.path for each in self._modules if each.size}
        return [*{run[0].path: None for run in self._target.programs() if run[0].path not in described}]

    @property
    def has_files(self) -> bool:
        """Tells whether there is debug information that is read."""
        return not self.unread and any(each.size for each in self._modules)

    @property
    def unread(self) -> int:
        """Returns the bytes of debug information if there is too much to be read unasked; 0: it is read."""
        size = sum(each.size for each in self._modules)
        return size if self._most is not None and size > self._most else 0

    @property
    def engine(self) -> Optional[EngineTypes]:
        """Returns what follows these types; None if nothing is read."""
        return self._engine

    def forget(self) -> None:
        """Lets go of the files, also where circles of references keep this object. If it is asked again it reads them
        again, and numbers types anew."""
        vars(self).pop("_engine", None)
        self._facts.clear()
        self._variables.clear()

    @cached_property
    def _engine(self) -> Optional[EngineTypes]:
        if self.unread or not self._modules:
            return None
        question = TypesQuestion()
        question.put(self._follows)
        question.strings([os.fsencode(each) for each in self._folders])
        question.string(os.fsencode(downloads()))
        question.put(len(self._modules))
        for each in self._modules:
            question.put(each.region.start, each.is_program, each.region.finds_malloc)
            question.string(bytes.fromhex(each.build_id))
            question.strings([os.fsencode(path) for path in each.files])
        return EngineTypes(question, sum(each.size for each in self._modules), self._target.stop_if_asked)

    @property
    def _follows(self) -> bool:
        """Tells whether files that the modules' files name are opened: not with --sysroot, nor if one of them is
        another user's."""
        return self._target.sysroot is None and all(_is_own(path) for each in self._modules for path in each.files)

    @cached_property
    def _modules(self) -> Sequence[_Module]:
        """Returns the modules with files. Without a build-id nothing proves that a file is a module's, but a debugger
        that has loaded it."""
        found = []
        for number, run in enumerate(self._target.programs()):
            build_id = module_build_id(self._target.read, run[0].start) or self._target.loaded_build_id(run[0]) or None
            paths = [*self._target.own_files(run[0])]
            if build_id is not None:
                paths += self._target.symbol_files(run[0], build_id)
            files, size = list[str](), 0
            for file in proven_files(dict.fromkeys(paths), build_id):
                files.append(file.name)
                with suppress(ArenascopeError, struct.error):
                    sizes = {each.name: each.size for each in file.sections if each.name.startswith(DEBUG)}
                    size = max(size, sum(sizes.values()) if sizes.keys() & {*INFORMATION} else 0)
            if files:
                found.append(_Module(run[0], not number, build_id or "", files, size))
        return found


def read_facts(answer: TypesAnswer) -> TypeFacts:
    return TypeFacts(
        name=answer.string(),
        form=FORMS[answer.number()],
        size=answer.size(),
        target=answer.option(),
        length=answer.option(),
        fields=[read_field(answer) for _ in range(answer.number())],
        arguments=[TemplateArgument(answer.option(), answer.option()) for _ in range(answer.number())],
        polymorphic=bool(answer.number()),
        signed=bool(answer.number()),
        enumerators={answer.string(): answer.number() for _ in range(answer.number())},
        language=LANGUAGES[answer.number()],
        bits=[
            BitField(answer.string(), answer.size(), answer.size(), bool(answer.number()))
            for _ in range(answer.number())
        ],
        tag=next((read_field(answer) for _ in range(answer.number())), None),
    )


def _local(answer: TypesAnswer) -> StartVariable:
    type, name, tid, frame = answer.number(), answer.string(), answer.number(), answer.number()
    function, address, data = answer.string(), answer.address(), answer.data()
    return StartVariable(name, type, address, data, tid=tid, frame=frame, function=function)


def _frame(answer: TypesAnswer) -> VariableFrame:
    code, low, high = answer.size(), answer.size(), answer.size()
    return VariableFrame(code, low, high, tuple(answer.size() for _ in range(answer.number())))


def read_field(answer: TypesAnswer) -> StructField:
    return StructField(answer.string(), answer.size(), answer.number(), bool(answer.number()))


def plain_name(mangled: str) -> str:
    """Returns a name as programmers write it: "cache::table", "next_id()::last"."""
    return ABI.sub("", demangled(CLONE.sub("", mangled)))


def function_name(mangled: str) -> str:
    """Returns a function's name with its parameters, if the symbol has them; C has the name alone: "main()"."""
    name = plain_name(mangled)
    return name if ")" in name else f"{name}()"


def _is_own(path: str) -> bool:
    """Tells whether it is the user's or root's."""
    try:
        return os.stat(path).st_uid in (0, os.geteuid())
    except OSError:
        return False
