"""Reads the program's variables from GDB's symbols, and locals from its frames."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

import gdb

from arenascope.sources.debug_info_types import Local, TypedVariable
from arenascope.sources.debugged_variables import THREADS, DebuggedVariables, plain_name
from arenascope.sources.elf.address_names import NamedSymbol
from arenascope.sources.type_spelling import numbered, within

if TYPE_CHECKING:
    # to mypy this folder is a part of GDB's own package
    from gdb.heap_frames import GdbFrames
    from gdb.heap_target import GdbTarget
    from gdb.heap_types import GdbTypes

STATIC = (gdb.SYMBOL_LOC_STATIC, gdb.SYMBOL_LOC_UNRESOLVED, gdb.SYMBOL_LOC_COMPUTED)
IN_FUNCTION = re.compile(r"(?!anon\.)[A-Za-z_]\w*\.\w+")
"""A function's static variable in C, as GCC (last.1) and clang (make.last) name it."""


LINES = (1, *range(10, 1000, 10), *range(1000, 20_000, 100), *range(2, 200))
"""Source lines to try until one lies in a function."""
NO_FILE = "No source file named"
"""How GDB's error for an unknown source file begins. If GDB changes it, lines are tried in vain."""


class _Static(NamedTuple):
    """A static variable of a function."""

    symbol: gdb.Symbol
    function: str

    def name_of(self, plain: str) -> str:
        """The variable's name with its function's: C++ names have both, C names only the variable's."""
        return plain if "::" in plain else f"{self.function}::{self.symbol.name}"


class _Statics(NamedTuple):
    """Static variables of the functions in a source file."""

    by_address: dict[int, _Static]
    of_threads: list[_Static]
    unplaced: list[_Static]
    """Variables whose place GDB knows only after reading them."""


NONE = _Statics({}, [], [])


class GdbVariables(DebuggedVariables):
    """Finds variables of what a GdbTarget shows, for one command."""

    target: GdbTarget
    types: GdbTypes

    def __init__(self, target: GdbTarget, types: GdbTypes, frames: Callable[[GdbTarget, GdbTypes], GdbFrames]) -> None:
        super().__init__(target, types)
        self._frames = frames(target, types)
        self._statics: dict[tuple[str, gdb.Objfile], _Statics] = {}
        """By source file and file with debug information."""

    # variables

    def variables(self, addresses: Sequence[int]) -> Mapping[int, TypedVariable]:
        with self._frames.without_calls():
            return super().variables(addresses)

    def variable_of(self, symbol: NamedSymbol) -> Optional[TypedVariable]:
        declared = None
        for name, candidate in self._candidates(symbol):
            with suppress(gdb.error, RuntimeError, TypeError):
                if candidate.needs_frame or not self._is_at(candidate, symbol):
                    continue
                type = _with_length(candidate.type, symbol.size) if candidate.type is not None else None
                # a type larger than the symbol is wrong; a smaller one may end in an array that the initialiser makes
                # longer
                if type is None or 0 < symbol.size < (type.sizeof or 0):
                    continue
                variable = TypedVariable(name, symbol.value, self.types.number(type, candidate.symtab))
                if candidate.addr_class != gdb.SYMBOL_LOC_UNRESOLVED:
                    return variable
                # a declaration is second choice: the definition knows more
                declared = declared or variable
        return declared

    def _candidates(self, symbol: NamedSymbol) -> Iterator[tuple[str, gdb.Symbol]]:
        """Debugger symbols that may be this symbol's variable, with their names."""
        plain = plain_name(symbol.text)
        for candidate in self._by_name(plain, self.target.build_id_at(symbol.value)):
            yield plain, candidate
        for symtab in self._symtabs_of(symbol, symbol.value):
            statics = self._statics_of(symtab)
            static = statics.by_address.get(symbol.value)
            alike = [each for each in statics.unplaced if each.symbol.name == _last(plain)] if static is None else []
            for each in (static, *(alike if len(alike) == 1 else ())):
                if each is not None:
                    yield each.name_of(plain), each.symbol

    def _symtabs_of(self, symbol: NamedSymbol, beside: int) -> Iterator[gdb.Symtab]:
        """Source files that may have the function of a static variable like "last.1" or "f(int)::last". `beside`: an
        address in its module."""
        if not symbol.text.startswith("_ZZ") and not IN_FUNCTION.match(symbol.text):
            return
        enclosing = self.enclosing(symbol, beside)
        if enclosing is not None:
            yield from _symtabs_at(enclosing)
        source = self.target.source_of(symbol, beside)
        if source is not None:
            yield from _symtabs_named(source)
        # for a member function that is only ever inlined
        owner = within(within(plain_name(symbol.text))[0])[0]
        if owner:
            yield from (each.symtab for each in self.types.type_symbols(owner))

    def _by_name(self, name: str, build_id: Optional[str]) -> Iterator[gdb.Symbol]:
        """Variables of this name, those in the module's own file first: searching all files takes longest."""
        lookups: list[Callable[[], list[Optional[gdb.Symbol]]]] = []
        for file in gdb.objfiles():
            if build_id is not None and getattr(file, "build_id", None) == build_id:
                lookups += [partial(_of_file, file, name)]
        lookups += [lambda: [gdb.lookup_global_symbol(name)], lambda: [*gdb.lookup_static_symbols(name)]]
        # a variable that the linker copied from a library into the program has the library's symbol
        lookups += [lambda: [file.lookup_global_symbol(name) for file in gdb.objfiles()]]
        for lookup in lookups:
            with suppress(gdb.error):
                for symbol in lookup():
                    if symbol is not None and self._is_variable(symbol):
                        yield symbol

    def _is_variable(self, symbol: gdb.Symbol) -> bool:
        return symbol.is_variable and symbol.addr_class in STATIC and self.types.believes(symbol.symtab)

    def _is_at(self, candidate: gdb.Symbol, symbol: NamedSymbol) -> bool:
        try:
            return self._address_of(candidate) == symbol.value
        except gdb.MemoryError:
            # For the address GDB reads a Rust enum's discriminant and, since 15, pointers to structs that end in a
            # flexible array. Without a process that fails: compare names instead.
            return self._is_called(candidate, symbol)

    def _is_called(self, candidate: gdb.Symbol, symbol: NamedSymbol) -> bool:
        if symbol.text.startswith("_"):
            # LLVM appends ".0" if only the variable's first part is left
            return candidate.linkage_name == symbol.text.removesuffix(".0")
        build_id, symtab = self.target.build_id_at(symbol.value), candidate.symtab
        if build_id is None or candidate.name != _last(plain_name(symbol.text)) or symtab.objfile.build_id != build_id:
            return False
        source = self.target.source_of(symbol, symbol.value)
        return source is None or os.path.basename(symtab.filename) == os.path.basename(source)

    def _address_of(self, symbol: gdb.Symbol) -> Optional[int]:
        self._check_type(symbol)
        place = symbol.value().address
        return int(place) & self.target.mask() if place is not None else None

    def _check_type(self, symbol: gdb.Symbol) -> None:
        """Raises RuntimeError for a type that leads back to itself: GDB would read the variable forever."""
        if symbol.type is not None:
            self.types.plain(symbol.type)

    def _statics_of(self, symtab: gdb.Symtab) -> _Statics:
        with suppress(UnicodeDecodeError):
            key = (symtab.fullname(), symtab.objfile)
            if key not in self._statics:
                self._statics[key] = self._find_statics(symtab) if self.types.believes(symtab) else NONE
            return self._statics[key]
        return NONE

    def _find_statics(self, symtab: gdb.Symtab) -> _Statics:
        """Static variables of all blocks of a source file. GDB does not list nested blocks, so they are looked up by
        line."""
        found = _Statics({}, [], [])
        seen: set[tuple[int, int, int]] = set()
        lines = symtab.linetable()
        try:
            lines.has_line(1)
        except RuntimeError:
            # there is no line table, as in some headers: GDB 13 crashes if it counts the lines of one
            return found
        for line in lines:
            name = ""
            for depth, block in enumerate(self._frames.blocks_at(line.pc)):
                if block.function is not None:
                    name = self._frames.called(block.function)
                if (block.start, block.end, depth) in seen:
                    continue
                seen.add((block.start, block.end, depth))
                for symbol in block:
                    with suppress(gdb.error, RuntimeError, TypeError):
                        if not symbol.is_variable or symbol.addr_class not in STATIC or symbol.needs_frame:
                            continue
                        if symbol.addr_class == gdb.SYMBOL_LOC_STATIC:
                            self._place(_Static(symbol, name), found)
                        elif symbol.addr_class == gdb.SYMBOL_LOC_COMPUTED:
                            found.of_threads.append(_Static(symbol, name))
        return found

    def _place(self, static: _Static, found: _Statics) -> None:
        try:
            address = self._address_of(static.symbol)
        except gdb.MemoryError:
            found.unplaced.append(static)
            return
        if address is not None:
            found.by_address.setdefault(address, static)

    def thread_variables(self) -> Sequence[TypedVariable]:
        asked = self.target.thread_symbols()
        symbols = {pair for base, symbol in asked for pair in self._of_threads(symbol, base)}
        found: dict[tuple[int, int], TypedVariable] = {}

        def ask(thread: gdb.InferiorThread) -> None:
            tid = thread.ptid[1] or thread.ptid[0]
            for name, symbol in symbols:
                with suppress(gdb.error, RuntimeError, TypeError):
                    self._check_type(symbol)
                    value = symbol.value(gdb.newest_frame()) if symbol.needs_frame else symbol.value()
                    if value.address is None or self._frames.is_reference(value.type):
                        continue
                    address = int(value.address) & self.target.mask()
                    number = self.types.number(value.type, symbol.symtab)
                    found[tid, address] = TypedVariable(name, address, number, tid)

        if symbols:
            with self._frames.without_calls():
                self.target.of_each_thread(ask, THREADS)
        return list(found.values())

    def locals(self) -> Sequence[Local]:
        return self._frames.locals()

    def structs_of_source_file(self, code: int, least: int, most: int) -> Sequence[int]:
        return self._frames.structs_of_source_file(code, least, most)

    def thread_local_of(self, symbol: NamedSymbol, base: int) -> Iterator[tuple[str, int]]:
        for name, each in self._of_threads(symbol, base):
            if each.type is not None:
                yield name, self.types.number(each.type, each.symtab)

    def _of_threads(self, symbol: NamedSymbol, base: int) -> Iterator[tuple[str, gdb.Symbol]]:
        """The variables that a module's thread-local symbol may stand for: several can have its name."""
        plain = plain_name(symbol.text)
        for candidate in self._by_name(plain, self.target.build_id_at(base)):
            if candidate.addr_class == gdb.SYMBOL_LOC_COMPUTED:
                yield plain, candidate
        # Rust numbers closures and constants; the symbols lack these numbers
        for name in numbered(plain) if "{{" in plain else ():
            for candidate in self._by_name(name, self.target.build_id_at(base)):
                if candidate.linkage_name == symbol.text:
                    yield name, candidate
        for symtab in self._symtabs_of(symbol, base):
            for static in self._statics_of(symtab).of_threads:
                name = static.name_of(plain)
                if _last(name) == _last(plain):
                    yield name, static.symbol


def _last(name: str) -> str:
    return within(name)[1]


def _of_file(file: gdb.Objfile, name: str) -> list[Optional[gdb.Symbol]]:
    return [file.lookup_global_symbol(name), file.lookup_static_symbol(name)]


def _symtabs_at(address: int) -> list[gdb.Symtab]:
    with suppress(gdb.error):
        symtab = gdb.find_pc_line(address).symtab
        return [symtab] if symtab is not None else []
    return []


def _symtabs_named(source: str) -> Iterator[gdb.Symtab]:
    """Source files of this name, found by a line number. GDB takes a line before the first function for that function;
    since GDB 16 only a line within a function has a place, so that several are tried."""
    seen: set[tuple[str, gdb.Objfile]] = set()
    for line in LINES:
        try:
            places = gdb.decode_line(f"'{source}':{line}")[1] or ()
        except ValueError:
            return
        except gdb.error as error:
            if str(error).startswith(NO_FILE):
                return
            continue
        for symtab in (place.symtab for place in places):
            if symtab is not None and (symtab.fullname(), symtab.objfile) not in seen:
                seen.add((symtab.fullname(), symtab.objfile))
                yield symtab
        if line == LINES[0]:
            return


def _with_length(type: gdb.Type, size: int) -> gdb.Type:
    """Gives an array without a declared length the length that the variable's size implies."""
    kind = type.strip_typedefs()
    if kind.code != gdb.TYPE_CODE_ARRAY or kind.sizeof or not size:
        return type
    each = kind.target().sizeof
    return kind.target().array(size // each - 1) if each and size >= each else type
