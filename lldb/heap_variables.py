"""Finds the program's variables with LLDB: global and static, thread-local, and local ones.

It never asks a value for synthetic children: LLDB 22 crashes when it makes them for a type that it cannot read.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Iterator, Mapping, NamedTuple, Optional, Sequence

import lldb

from arenascope.blocks.graph.memory_windows import with_constants
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
"""How many of a module's thread-local variables must agree where the module's TLS block lies in a thread."""
ASKED_FRAMES = 8
"""How many of the innermost frames to try: not every frame's expressions find thread-local variables."""
POINTERS = (lldb.eTypeClassPointer, lldb.eTypeClassReference, lldb.eTypeClassClass, lldb.eTypeClassStruct)
AUTOMATIC = True, True, False
"""Ask for arguments and locals, not for statics."""


class _Variable(NamedTuple):
    """A static or thread-local variable."""

    name: str
    """With the function's name if it is a static variable of a function."""
    value: lldb.SBValue
    module: DescribedModule


class LldbVariables(DebuggedVariables):
    """Finds variables of an LldbTarget, for one command."""

    target: LldbTarget
    types: LldbTypes

    def __init__(self, target: LldbTarget, types: LldbTypes) -> None:
        super().__init__(target, types)
        self._statics: dict[int, dict[int, _Variable]] = {}
        """Static variables by address, for each function asked for, by its start."""

    def variable_of(self, symbol: NamedSymbol) -> Optional[TypedVariable]:
        for name, value, module in self._candidates(symbol):
            size = value.GetType().GetByteSize()
            # a type larger than the symbol is wrong; a smaller one may end in an array that the initialiser makes
            # longer
            if not symbol.size or size <= symbol.size:
                return TypedVariable(name, symbol.value, self.types.number(value.GetType(), module))
        return self._read_here(symbol)

    def _read_here(self, symbol: NamedSymbol) -> Optional[TypedVariable]:
        """A variable that LLDB does not find: its function is only ever inlined, or LLDB cannot read its type."""
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
        """Debugger values that are this symbol's variable."""
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
        # the program may have its own copy of a library's variable: it has the library's name and size
        others = [each for each in namesakes if each.value.GetValueType() == lldb.eValueTypeVariableGlobal]
        if len(others) == 1 and symbol.size == others[0].value.GetType().GetByteSize():
            yield others[0]

    def _by_name(self, modules: Sequence[DescribedModule], name: str) -> Iterator[_Variable]:
        # LLDB's name table has templates without their arguments
        base = within(name)[1].partition("<")[0]
        for module in modules:
            for each in module.module.FindGlobalVariables(self.target.target, base, MAX_NAMESAKES):
                value = _as_it_is(each)
                if spelled(_told(value)) == spelled(name):
                    yield _Variable(name, value, module)

    def _statics_like(self, module: DescribedModule, symbol: NamedSymbol) -> Iterator[Mapping[int, _Variable]]:
        """Static variables of functions that may have the symbol: `f(int)::last`, `f.last` (clang's C), `last.0`
        (GCC's)."""
        owner = within(plain_name(symbol.text))[0]
        base = within(owner)[1].partition("(")[0].partition("<")[0] or symbol.text.partition(".")[0]
        start = self.enclosing(symbol, symbol.value)
        if start is not None:
            yield self._statics_of(self.target.target.ResolveLoadAddress(start).GetFunction(), module)
        if owner or "." in symbol.text:
            for each in module.module.FindFunctions(base, lldb.eFunctionNameTypeAuto):
                # if the function is only ever inlined, GetFunction() gives the one that contains it
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
        """Thread-local variables of all threads. LLDB knows their addresses since 18, and only in an expression of a
        frame."""
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
        """A module's thread-local variables in each thread: offset in the module's TLS block, plus where that block
        lies."""
        # if two modules have variables of one name, an expression may mean either
        alone = [each for each in known if len(list(self._by_name(self.types.modules, each[1].name))) == 1][:ANCHORS]
        for thread in threads:
            places = ((place, _thread_address(thread, variable.name)) for place, variable in alone)
            blocks = [address - place for place, address in places if address is not None]
            # the expressions mean these variables only if all agree on one block
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
                # LLDB before 22 has some frames at a wrong place: their variables are wrong, too
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
        """Whether a value of the type has a pointer's size and may be a pointer, or a class that has only a pointer."""
        is_whole = type.GetCanonicalType().GetTypeClass() in POINTERS
        return is_whole and type.GetByteSize() == self.target.pointer_size

    def _frame(self, frame: lldb.SBFrame) -> VariableFrame:
        values = (frame.FindRegister(name) for name in NAMES.get(self.target.machine, ()))
        # some registers are not saved
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
        """Stack pointer at the end of each frame by the frame's pc, from unwind tables; only of a pc that is met
        once."""
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
            # block by block: the frame's own list would include thread-local variables
            for each in block.GetVariables(frame, *AUTOMATIC, lldb.eNoDynamicValues):
                value = _as_it_is(each)
                declared, name = value.GetDeclaration(), value.GetName()
                is_argument = value.GetValueType() == lldb.eValueTypeVariableArgument
                is_here = declared.GetFileSpec().fullpath == place.GetFileSpec().fullpath
                # a variable declared further down has a place but no value yet
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
    """The value with its declared type (the dynamic type has another address) and without synthetic children."""
    return value.GetStaticValue().GetNonSyntheticValue()


def _thread_address(thread: lldb.SBThread, name: str) -> Optional[int]:
    options = lldb.SBExpressionOptions()
    options.SetAllowJIT(False)
    options.SetSuppressPersistentResult(True)
    # a frame of assembler code, as threads of glibc 2.41 and later wait in, does not know C's names
    for number in range(min(thread.GetNumFrames(), ASKED_FRAMES)):
        # ask for a number: LLDB 22 crashes when it makes children for a pointer to a type that it cannot read
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
    """The name without the "::" that LLDB puts before static functions' names."""
    return (name or "").removeprefix("::")


def _functions(unit: lldb.SBCompileUnit) -> Iterator[lldb.SBFunction]:
    """All functions that have code from lines of this file."""
    covered = set()
    for index in range(unit.GetNumLineEntries()):
        function = unit.GetLineEntryAtIndex(index).GetStartAddress().GetFunction()
        if function.IsValid() and function.GetStartAddress().GetFileAddress() not in covered:
            covered.add(function.GetStartAddress().GetFileAddress())
            yield function


def _address(value: lldb.SBValue) -> Optional[int]:
    """The value's address. LLDB also gives one for a constant in the debug information, which has none."""
    address = value.GetLoadAddress()
    is_place = (value.GetLocation() or "").startswith("0x")
    return address if is_place and address != lldb.LLDB_INVALID_ADDRESS else None


def _data(value: lldb.SBValue) -> Optional[bytes]:
    """The bytes of a value that lies in registers."""
    data, error = value.GetData(), lldb.SBError()
    size = data.GetByteSize() if value.GetError().Success() else 0
    if not 0 < size <= LARGEST_IN_REGISTERS:
        return None
    read = data.ReadRawData(error, 0, size)
    return bytes(read) if error.Success() and read else None
