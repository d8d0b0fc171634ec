"""The program's variables as LLDB knows them: those of memory, of threads, and of frames.

No value is asked for its synthetic children: LLDB 22 crashes where it makes them for types that it cannot read.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Iterator, Mapping, NamedTuple, Optional, Sequence

import lldb

from arenascope.blocks.graph.memory_with_files import with_constants
from arenascope.sources.debug_info_types import Local, TypedVariable, VariableFrame
from arenascope.sources.debugged_variables import (
    FRAMES,
    LARGEST_IN_REGISTERS,
    THREADS,
    DebuggedVariables,
    function_name,
    plain_name,
)
from arenascope.sources.elf.address_names import NamedSymbol, modules_of
from arenascope.sources.elf.modules import Modules
from arenascope.sources.elf.unwind import MACHINES, NAMES, Unwinder, UnwindTables, by_number
from arenascope.sources.type_spelling import spelled, within

if TYPE_CHECKING:
    # to mypy this folder is a part of LLDB's own package
    from lldb.heap_modules import DescribedModule
    from lldb.heap_target import LldbTarget
    from lldb.heap_types import LldbTypes

MAX_NAMESAKES = 1000
ANCHORS = 2
"""So many of a module's thread-local variables tell where its block of a thread lies."""
ASKED_FRAMES = 8
"""The innermost, of which one knows a thread-local variable."""
POINTERS = (lldb.eTypeClassPointer, lldb.eTypeClassReference, lldb.eTypeClassClass, lldb.eTypeClassStruct)
AUTOMATIC = True, True, False
"""Whether arguments, locals and statics are asked for."""


class _Variable(NamedTuple):
    """A static or thread-local variable."""

    name: str
    """Of the function's own name, where it is a function's."""
    value: lldb.SBValue
    module: DescribedModule


class LldbVariables(DebuggedVariables):
    """Of what an LldbTarget looks at, for one command."""

    target: LldbTarget
    types: LldbTypes

    def __init__(self, target: LldbTarget, types: LldbTypes) -> None:
        super().__init__(target, types)
        self._statics: dict[int, dict[int, _Variable]] = {}
        """Of functions, by address: for each function that was asked for, by where it begins."""

    def variable_of(self, symbol: NamedSymbol) -> Optional[TypedVariable]:
        for name, value, module in self._candidates(symbol):
            size = value.GetType().GetByteSize()
            # a larger one has an array at its end that its initialiser makes longer
            if not symbol.size or size <= symbol.size:
                return TypedVariable(name, symbol.value, self.types.number(value.GetType(), module))
        return self._read_here(symbol)

    def _read_here(self, symbol: NamedSymbol) -> Optional[TypedVariable]:
        """One that LLDB does not find: of a function that is nowhere but inlined, or of a type that it cannot read."""
        start, found = self.target.described_at(symbol.value) or (0, None)
        for module in (each for each in self.types.modules if self.target.start_of(each.module) == start):
            type = self.types.read_here.by_parts(found.type, module) if found is not None else None
            if found is not None and type is not None and self.types.facts(type).size == symbol.size > 0:
                plain = plain_name(symbol.text)
                is_plain = "::" in plain or not found.function
                name = plain if is_plain else f"{function_name(found.function)}::{found.name}"
                return TypedVariable(name, symbol.value, type)
        return None

    def _candidates(self, symbol: NamedSymbol) -> Iterator[_Variable]:
        """Variables that are this symbol's."""
        plain = plain_name(symbol.text)
        namesakes = list(self._by_name(self.types.modules, plain))
        for each in namesakes:
            if each.value.GetLoadAddress() == symbol.value:
                yield each
        for module in self.types.modules:
            for statics in self._statics_like(module, symbol):
                if symbol.value in statics:
                    found = statics[symbol.value]
                    yield found._replace(name=plain) if "::" in plain else found
        # a library's variable that the program has its own copy of: of the library's name and size
        others = [each for each in namesakes if each.value.GetValueType() == lldb.eValueTypeVariableGlobal]
        if len(others) == 1 and symbol.size == others[0].value.GetType().GetByteSize():
            yield others[0]

    def _by_name(self, modules: Sequence[DescribedModule], name: str) -> Iterator[_Variable]:
        # the table of names has templates without their arguments
        base = within(name)[1].partition("<")[0]
        for module in modules:
            for each in module.module.FindGlobalVariables(self.target.target, base, MAX_NAMESAKES):
                value = _as_it_is(each)
                if spelled(_told(value)) == spelled(name):
                    yield _Variable(name, value, module)

    def _statics_like(self, module: DescribedModule, symbol: NamedSymbol) -> Iterator[Mapping[int, _Variable]]:
        """Static variables of functions: `f(int)::last`, `f.last` (clang's C) and `last.0` (GCC's)."""
        owner = within(plain_name(symbol.text))[0]
        base = within(owner)[1].partition("(")[0].partition("<")[0] or symbol.text.partition(".")[0]
        start = self.enclosing(symbol, symbol.value)
        if start is not None:
            yield self._statics_of(self.target.target.ResolveLoadAddress(start).GetFunction(), module)
        if owner or "." in symbol.text:
            for each in module.module.FindFunctions(base, lldb.eFunctionNameTypeAuto):
                # the one that it is inlined into, where it is nowhere else
                yield self._statics_of(each.GetFunction(), module)
        source = self.target.source_of(symbol, symbol.value) if "." in symbol.text else None
        for unit in module.units.get(source, ()) if source is not None else ():
            for function in _functions(unit):
                yield self._statics_of(function, module)

    def _statics_of(self, function: lldb.SBFunction, module: DescribedModule) -> Mapping[int, _Variable]:
        if not function.IsValid():
            return {}
        start = function.GetStartAddress().GetLoadAddress(self.target.target)
        if start not in self._statics:
            found: dict[int, _Variable] = {}
            blocks = [(_name_of(function), function.GetBlock())]
            while blocks:
                name, block = blocks.pop()
                for each in block.GetVariables(self.target.target, False, False, True):
                    value = _as_it_is(each)
                    base = within(_told(value))[1]
                    found.setdefault(value.GetLoadAddress(), _Variable(f"{name}::{base}", value, module))
                child = block.GetFirstChild()
                while child.IsValid():
                    blocks.append((function_name(_own(child.GetInlinedName())) if child.IsInlined() else name, child))
                    child = child.GetSibling()
            found.pop(lldb.LLDB_INVALID_ADDRESS, None)
            self._statics[start] = found
        return self._statics[start]

    # thread-local variables

    def thread_variables(self) -> Sequence[TypedVariable]:
        """LLDB tells where they are since 18, and only where a frame's expression asks for them."""
        threads = list(self.target.process)[:THREADS]
        found: list[TypedVariable] = []
        symbols = self.target.thread_symbols()
        for module in self.types.modules:
            known = []
            for symbol in (symbol for base, symbol in symbols if base == self.target.start_of(module.module)):
                namesakes = list(self._by_name([module], plain_name(symbol.text)))
                if len(namesakes) == 1:
                    known.append((symbol.value, namesakes[0]))
            found += self._of_each_thread(known, threads)
        return found

    def thread_local_of(self, symbol: NamedSymbol, base: int) -> Iterator[tuple[str, int]]:
        for module in (each for each in self.types.modules if base == self.target.start_of(each.module)):
            for each in self._by_name([module], plain_name(symbol.text)):
                yield each.name, self.types.number(each.value.GetType(), module)

    def _of_each_thread(
        self, known: Sequence[tuple[int, _Variable]], threads: Sequence[lldb.SBThread]
    ) -> Iterator[TypedVariable]:
        """A module's variables, each with its place in the module's block of a thread."""
        # of two modules' of one name an expression could mean either
        alone = [each for each in known if len(list(self._by_name(self.types.modules, each[1].name))) == 1][:ANCHORS]
        for thread in threads:
            places = ((place, _thread_address(thread, variable.name)) for place, variable in alone)
            blocks = [address - place for place, address in places if address is not None]
            # what an expression means by the names must be these
            for place, variable in known if len(set(blocks)) == 1 else ():
                number = self.types.number(variable.value.GetType(), variable.module)
                yield TypedVariable(variable.name, blocks[0] + place, number, thread.GetThreadID())

    # locals

    def locals(self) -> Sequence[Local]:
        found: list[Local] = []
        for thread in list(self.target.process)[:THREADS]:
            of = Local("", 0, tid=thread.GetThreadID(), frame=0, function="")
            known = self._frames_of(thread)
            for number in range(FRAMES):
                frame = thread.GetFrameAtIndex(number)
                # before LLDB 22 some frames are not where it has them, nor is anything in them
                if not frame.IsValid() or known.get(frame.GetPC(), frame.GetCFA()) != frame.GetCFA():
                    break
                name = _function_of(frame)
                for module in self.types.modules:
                    if module.module == frame.GetModule():
                        found += self._locals_of(frame, module, of._replace(frame=number, function=name))
                if name.partition("(")[0] == "main":
                    break  # the caller is libc
        return found

    def _is_pointer(self, type: lldb.SBType) -> bool:
        """Or what has one and nothing else: as long as one."""
        is_whole = type.GetCanonicalType().GetTypeClass() in POINTERS
        return is_whole and type.GetByteSize() == self.target.pointer_size

    def _frame(self, frame: lldb.SBFrame) -> VariableFrame:
        values = (frame.FindRegister(name) for name in NAMES.get(self.target.machine, ()))
        # some are not saved
        registers = tuple(each.GetValueAsUnsigned() for each in values if each.GetError().Success())
        return VariableFrame(frame.GetPC(), frame.GetSP(), max(frame.GetSP(), frame.GetCFA()), registers)

    def structs_of_source_file(self, code: int, least: int, most: int) -> Sequence[int]:
        address = self.target.target.ResolveLoadAddress(code)
        unit, found = address.GetCompileUnit(), dict[int, None]()
        for module in (each for each in self.types.modules if each.module == address.GetModule()):
            for each in unit.GetTypes(lldb.eTypeClassClass | lldb.eTypeClassStruct):
                if least <= each.GetByteSize() <= most:
                    found[self.types.number(each, module)] = None
        return list(found)

    def _frames_of(self, thread: lldb.SBThread) -> Mapping[int, int]:
        """Where each frame ends by where it goes on, as tables tell, of the frames that are met once."""
        if self._unwinder is None:
            return {}
        frame, machine = thread.GetFrameAtIndex(0), self.target.machine
        values = {name: frame.FindRegister(name).GetValueAsUnsigned() for name in NAMES[machine]}
        frames = list(self._unwinder.frames(by_number(machine, values), frame.GetPC(), FRAMES))
        met = Counter(each.pc for each in frames)
        return {each.pc: caller.stack_pointer for each, caller in zip(frames, frames[1:]) if met[each.pc] == 1}

    @cached_property
    def _unwinder(self) -> Optional[Unwinder]:
        if self.target.machine not in MACHINES:
            return None
        regions = self.target.regions()
        memory = with_constants(self.target.read, Modules(self.target, modules_of(regions)))
        return Unwinder(memory, UnwindTables(memory, regions), self.target.machine)

    def _locals_of(self, frame: lldb.SBFrame, module: DescribedModule, of: Local) -> Iterator[Local]:
        place = frame.GetLineEntry()
        block = frame.GetBlock()
        while block.IsValid():
            # those of a frame itself would have thread-local ones with them
            for each in block.GetVariables(frame, *AUTOMATIC, lldb.eNoDynamicValues):
                value = _as_it_is(each)
                declared, name = value.GetDeclaration(), value.GetName()
                is_argument = value.GetValueType() == lldb.eValueTypeVariableArgument
                is_here = declared.GetFileSpec().fullpath == place.GetFileSpec().fullpath
                # what is declared further down has its place, and nothing in it yet
                if name and (is_argument or not is_here or declared.GetLine() <= place.GetLine()):
                    local = of._replace(name=name, type=self.types.number(value.GetType(), module))
                    address = _address(value)
                    data = _data(value) if address is None else None
                    if address is None and data is None and self._is_pointer(value.GetType()):
                        local = local._replace(within=self._frame(frame))
                    yield local._replace(address=address, data=data)
            if block.IsInlined():
                return
            block = block.GetParent()


def _as_it_is(value: lldb.SBValue) -> lldb.SBValue:
    """Neither of the type that a vtable tells, which has another place, nor with children that LLDB makes for it."""
    return value.GetStaticValue().GetNonSyntheticValue()


def _thread_address(thread: lldb.SBThread, name: str) -> Optional[int]:
    options = lldb.SBExpressionOptions()
    options.SetAllowJIT(False)
    options.SetSuppressPersistentResult(True)
    # a frame of assembler code, as that in which threads of glibc 2.41 and newer wait, knows no names of C's
    for number in range(min(thread.GetNumFrames(), ASKED_FRAMES)):
        # as a number: LLDB 22 crashes where it makes children for a pointer to what it cannot read
        found = thread.GetFrameAtIndex(number).EvaluateExpression(f"(unsigned long)&::{name}", options)
        if found.GetError().Success():
            return found.GetValueAsUnsigned() or None
    return None


def _told(value: lldb.SBValue) -> str:
    return plain_name(value.GetName() or "").removeprefix("::")


def _name_of(function: lldb.SBFunction) -> str:
    return function_name(_own(function.GetMangledName() or function.GetName()))


def _function_of(frame: lldb.SBFrame) -> str:
    if not frame.IsInlined() and frame.GetFunction().IsValid():
        return _name_of(frame.GetFunction())
    return function_name(_own(frame.GetFunctionName()))


def _own(name: Optional[str]) -> str:
    """LLDB has "::" before the names of static functions."""
    return (name or "").removeprefix("::")


def _functions(unit: lldb.SBCompileUnit) -> Iterator[lldb.SBFunction]:
    """All that lines of this file are code of."""
    covered = set()
    for index in range(unit.GetNumLineEntries()):
        function = unit.GetLineEntryAtIndex(index).GetStartAddress().GetFunction()
        if function.IsValid() and function.GetStartAddress().GetFileAddress() not in covered:
            covered.add(function.GetStartAddress().GetFileAddress())
            yield function


def _address(value: lldb.SBValue) -> Optional[int]:
    """LLDB has an address of what is none: a number that the debug information tells."""
    address = value.GetLoadAddress()
    is_place = (value.GetLocation() or "").startswith("0x")
    return address if is_place and address != lldb.LLDB_INVALID_ADDRESS else None


def _data(value: lldb.SBValue) -> Optional[bytes]:
    """Of a value that lies in registers."""
    data, error = value.GetData(), lldb.SBError()
    size = data.GetByteSize() if value.GetError().Success() else 0
    if not 0 < size <= LARGEST_IN_REGISTERS:
        return None
    read = data.ReadRawData(error, 0, size)
    return bytes(read) if error.Success() and read else None
