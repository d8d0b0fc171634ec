"""Finds the variable at an address, in the way that is the same for every debugger."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from typing import Iterable, Mapping, Optional, Protocol, Sequence

from .debug_info_types import Local, ThreadLocal, TypedVariable, TypeSource
from .debugged_image import DebuggedTarget
from .elf.address_names import NamedSymbol
from .elf.demangle import demangle
from .target import Region

FRAMES, THREADS = 64, 200
"""At most so many innermost frames of so many threads are asked for their variables."""
LARGEST_IN_REGISTERS = 256
MOST_FUNCTIONS = 1 << 15
"""A program has about as many structs as functions; listing those of one with 18,000 functions takes GDB 13 0.6 s."""
CLONE = re.compile(r"\.(?:\d+|lto_priv|constprop|part|isra|llvm|cold)(?=\.|$)")
"""The suffixes of compilers for statics whose names would clash."""
ABI = re.compile(r"\[abi:[^]]*\]")


class DebuggedVariables(ABC):
    """The variables of a debugged image: symbols come from our own reader of tables, types from the debugger."""

    def __init__(self, target: DebuggedTarget, types: TypeSource) -> None:
        self.target = target
        self.types = types

    def variables(self, addresses: Sequence[int]) -> Mapping[int, TypedVariable]:
        found: dict[int, TypedVariable] = {}
        asked: dict[int, Optional[TypedVariable]] = {}
        for address in addresses:
            symbol = self.target.symbol_at(address) or self._own_symbol_at(address)
            if symbol is None:
                continue
            if symbol.value not in asked:
                asked[symbol.value] = self.variable_of(symbol)
            variable = asked[symbol.value]
            size = symbol.size or (self.types.facts(variable.type).size if variable is not None else 0)
            if variable is not None and address - variable.address < size:
                found[address] = variable
        return found

    def _own_symbol_at(self, address: int) -> Optional[NamedSymbol]:
        """Returns the debugger's symbol, if no file is available here."""
        place = self.target.own_name(address)
        return NamedSymbol(address - place.offset, 0, place.name) if place is not None else None

    def thread_locals(self) -> Sequence[ThreadLocal]:
        symbols = self.target.thread_symbols()
        met = Counter((base, plain_name(symbol.text)) for base, symbol in symbols)
        found: list[ThreadLocal] = []
        for base, symbol in symbols:
            told = set(self.thread_local_of(symbol, base)) if met[base, plain_name(symbol.text)] == 1 else set()
            if len(told) == 1:
                name, type = told.pop()
                # the remaining part, if the compiler split the variable
                if self.types.facts(type).size <= symbol.size:
                    found.append(ThreadLocal(name, base, symbol.value, type))
        return found

    def enclosing(self, symbol: NamedSymbol, beside: int) -> Optional[int]:
        """Returns the start of the function with this static variable, by its mangled name: _ZZ FUNCTION E NAME. Its
        module has the address `beside`."""
        mangled = symbol.text[3:] if symbol.text.startswith("_ZZ") else ""
        ends = (at for at in range(len(mangled) - 1, 0, -1) if mangled[at] == "E")
        starts = (self.target.address_of(f"_Z{mangled[:end]}", beside) for end in ends)
        return next((each for each in starts if each is not None), None)

    @abstractmethod
    def thread_local_of(self, symbol: NamedSymbol, base: int) -> Iterable[tuple[str, int]]:
        """Returns the names and types of the variables that a thread-local symbol may stand for, in the module that
        begins at `base`."""

    @abstractmethod
    def variable_of(self, symbol: NamedSymbol) -> Optional[TypedVariable]:
        """Returns the variable that begins where this symbol does, and is no larger."""


class Variables(Protocol):
    """The part of a TypeSource about variables."""

    def variables(self, addresses: Sequence[int]) -> Mapping[int, TypedVariable]: ...

    def thread_variables(self) -> Sequence[TypedVariable]: ...

    def thread_locals(self) -> Sequence[ThreadLocal]: ...

    def locals(self) -> Sequence[Local]: ...

    def structs_of_source_file(self, code: int, least: int, most: int) -> Sequence[int]: ...


class _Modules(Protocol):
    def module_files(self) -> Sequence[tuple[Region, Optional[str]]]: ...

    def functions(self, module: Region) -> Sequence[int]: ...


def modules_with_structs(target: _Modules, of_program: bool) -> Sequence[Region]:
    """Returns the first mappings of the modules whose structs are all listed: the program's, unless that takes long; or
    all but the C library's, which has a thousand source files."""
    modules = [region for region, _ in target.module_files()]
    if of_program:
        return [each for each in modules[:1] if len(target.functions(each)) <= MOST_FUNCTIONS]
    return [each for each in modules if not each.finds_malloc]


class WithVariables:
    """A debugger's TypeSource, with variables from elsewhere."""

    _variables: Variables

    def variables(self, addresses: Sequence[int]) -> Mapping[int, TypedVariable]:
        return self._variables.variables(addresses)

    def thread_variables(self) -> Sequence[TypedVariable]:
        return self._variables.thread_variables()

    def thread_locals(self) -> Sequence[ThreadLocal]:
        return self._variables.thread_locals()

    def locals(self) -> Sequence[Local]:
        return self._variables.locals()

    def structs_of_source_file(self, code: int, least: int, most: int) -> Sequence[int]:
        return self._variables.structs_of_source_file(code, least, most)


def plain_name(mangled: str) -> str:
    """Returns a name as programmers write it: "cache::table", "next_id()::last"."""
    return ABI.sub("", demangle(CLONE.sub("", mangled)))


def function_name(mangled: str) -> str:
    """Returns a function's name with its parameters, if the symbol has them; C has the name alone: "main()"."""
    name = plain_name(mangled)
    return name if ")" in name else f"{name}()"
