"""Which variable lies at an address, as far as that is the same for every debugger."""

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
"""Of so many threads so many innermost frames are asked for their variables."""
LARGEST_IN_REGISTERS = 256
MOST_FUNCTIONS = 1 << 15
"""A program has about as many structs; to list those of one with 18,000 functions takes GDB 13 0.6 s."""
CLONE = re.compile(r"\.(?:\d+|lto_priv|constprop|part|isra|llvm|cold)(?=\.|$)")
"""What compilers put behind the names of statics that would clash with others."""
ABI = re.compile(r"\[abi:[^]]*\]")


class DebuggedVariables(ABC):
    """Of what a debugger looks at; symbols come from our own reader of tables, types from the debugger."""

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
        """The debugger's, where no file is to be had here."""
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
                # what of it is left, where the compiler took it apart
                if self.types.facts(type).size <= symbol.size:
                    found.append(ThreadLocal(name, base, symbol.value, type))
        return found

    def enclosing(self, symbol: NamedSymbol, beside: int) -> Optional[int]:
        """Where the function begins whose static variable this is, by its mangled name: _ZZ FUNCTION E NAME. Its module
        has the address `beside`."""
        mangled = symbol.text[3:] if symbol.text.startswith("_ZZ") else ""
        ends = (at for at in range(len(mangled) - 1, 0, -1) if mangled[at] == "E")
        starts = (self.target.address_of(f"_Z{mangled[:end]}", beside) for end in ends)
        return next((each for each in starts if each is not None), None)

    @abstractmethod
    def thread_local_of(self, symbol: NamedSymbol, base: int) -> Iterable[tuple[str, int]]:
        """The names and types of the variables that a thread-local symbol may stand for, of the module that begins at
        `base`."""

    @abstractmethod
    def variable_of(self, symbol: NamedSymbol) -> Optional[TypedVariable]:
        """The variable that begins where this symbol does, and is no larger."""


class Variables(Protocol):
    """What of a TypeSource is about variables."""

    def variables(self, addresses: Sequence[int]) -> Mapping[int, TypedVariable]: ...

    def thread_variables(self) -> Sequence[TypedVariable]: ...

    def thread_locals(self) -> Sequence[ThreadLocal]: ...

    def locals(self) -> Sequence[Local]: ...

    def structs_of_source_file(self, code: int, least: int, most: int) -> Sequence[int]: ...


class _Modules(Protocol):
    def module_files(self) -> Sequence[tuple[Region, Optional[str]]]: ...

    def functions(self, module: Region) -> Sequence[int]: ...


def modules_with_structs(target: _Modules, of_program: bool) -> Sequence[Region]:
    """The first mappings of those modules of which all structs are listed: of the program, unless that takes long; or
    of all but the C library, whose source files are a thousand."""
    modules = [region for region, _ in target.module_files()]
    if of_program:
        return [each for each in modules[:1] if len(target.functions(each)) <= MOST_FUNCTIONS]
    return [each for each in modules if not each.finds_malloc]


class WithVariables:
    """A debugger's TypeSource, that has its variables from elsewhere."""

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
    """As a programmer writes it: "cache::table", "next_id()::last"."""
    return ABI.sub("", demangle(CLONE.sub("", mangled)))


def function_name(mangled: str) -> str:
    """With its parameters, where the symbol has them; C has the name alone: "main()"."""
    name = plain_name(mangled)
    return name if ")" in name else f"{name}()"
