"""Names addresses: by the symbol that covers each, from the tables of the very file that is mapped there.

All doors ask here first, so that their answers agree; a debugger may know more (symbols from elsewhere).
"""

from __future__ import annotations

import os
import struct
from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import Iterator, NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError, TargetError
from ..target import Region, SymbolPlace
from . import elf_file
from .elf_file import SHT_DYNSYM, SHT_SYMTAB, ElfFile, Read, Section
from .modules import is_program_or_library, memory_end, modules_of

STT_OBJECT, STT_FUNC, STT_GNU_IFUNC = 1, 2, 10
ADDRESSED = (STT_OBJECT, STT_FUNC, STT_GNU_IFUNC)
DEBUG_FOLDERS = (elf_file.DEBUG_FOLDER,)


class NamedSymbol(NamedTuple):
    """A symbol in a table."""

    value: int
    """Its address; for a thread-local variable, the offset in its module's block."""
    size: int
    text: str
    """Mangled."""


def place_of(mangled: str, offset: int) -> SymbolPlace:
    from ...engine import demangled  # needed by few commands

    return SymbolPlace(demangled(mangled), offset)


def local_file(likely: Sequence[str]) -> Optional[str]:
    """Returns the first of these paths that exists for a mapping. It may be another file: the reader compares
    build-ids."""
    return next((path for path in likely if os.path.isfile(path)), None)


class AddressNames(ABC):
    """An image with the names of its addresses."""

    read: Read

    @abstractmethod
    def regions(self) -> Sequence[Region]: ...

    @abstractmethod
    def open_file(self, region: Region) -> Optional[str]: ...

    def __init__(self, folders: Sequence[str], sysroot: Optional[str] = None) -> None:
        """`folders` have separate files of symbols; below `sysroot` lie the files of the host that a core is from."""
        self._folders, self.sysroot = folders, sysroot
        self._file_runs: Optional[list[list[Region]]] = None
        self._tables: dict[int, tuple[list[int], list[NamedSymbol]]] = {}
        self._ends: dict[int, Optional[int]] = {}
        """The end of each module, by its start."""

    def own_name(self, address: int) -> Optional[SymbolPlace]:
        """Returns the debugger's symbol at or before an address, mangled, and the distance past it: used if no file's
        own table has one."""
        return None

    def describe(self, address: int) -> Optional[SymbolPlace]:
        module = self.module_at(address)
        if module is not None:
            found = self._search(module[0], address)
            if found is not None:
                return found
        told = self.own_name(address)
        if told is not None:
            return place_of(told.name, told.offset)
        if module is None or not self._is_within(module, address):
            return None
        return SymbolPlace(os.path.basename(module[0].path), address - module[0].start, in_file=True)

    def module_at(self, address: int) -> Optional[Sequence[Region]]:
        """Returns the mappings of the file that has this address."""
        return next((each for each in self._runs() if each[0].start <= address < each[-1].end), None)

    def programs(self) -> list[Sequence[Region]]:
        """Returns programs_of, with the nameless mapping behind each."""
        return list(filter(is_program_or_library, self._runs()))

    def _is_within(self, module: Sequence[Region], address: int) -> bool:
        """Tells whether it is the file's own: other memory may lie right after its .bss, in the same mapping."""
        if module[-1].path or address < module[-1].start:
            return True
        start = module[0].start
        if start not in self._ends:
            self._ends[start] = memory_end(self.read, start)
        end = self._ends[start]
        return end is None or address < end

    def _runs(self) -> list[list[Region]]:
        """Returns each file's mappings, with the nameless one right after them: its .bss."""
        if self._file_runs is None:
            regions = self.regions()
            nameless = {region.start: region for region in regions if not region.path}
            runs = modules_of(regions)
            self._file_runs = [[*run, nameless[run[-1].end]] if run[-1].end in nameless else run for run in runs]
        return self._file_runs

    def symbol_at(self, address: int) -> Optional[NamedSymbol]:
        """Returns the symbol that covers an address, only from the tables of the file that is mapped there."""
        module = self.module_at(address)
        return self._covering(module[0], address) if module is not None else None

    def thread_symbols(self) -> list[tuple[int, NamedSymbol]]:
        """Returns thread-local variables with their modules' first addresses; without the C library's own."""
        found: list[tuple[int, NamedSymbol]] = []
        for module in self._runs():
            if module[0].finds_malloc or not is_program_or_library(module):
                continue
            symbols = (names_of(file, (elf_file.STT_TLS,)) for file in self._files(module[0]))
            found += [(module[0].start, each) for each in next(filter(None, symbols), ())]
        return found

    def _files(self, start: Region) -> Iterator[ElfFile]:
        """Returns files that are proven to have the symbols of the module that begins there."""
        build_id = elf_file.module_build_id(self.read, start.start)
        if build_id is not None:
            paths = AddressNames.symbol_files(self, start, build_id)
            yield from elf_file.proven_files(paths, build_id)

    def symbol_files(self, region: Region, build_id: str) -> Sequence[str]:
        """Returns the files that may have a module's symbols: its separate debug file first, then the file itself."""
        own = self.open_file(region)
        debug = elf_file.find_debug_file(build_id, self._folders, self.sysroot)
        if debug is None and own is not None and self._folders and self.sysroot is None:
            debug = elf_file.linked_file(own)
        return [path for path in (debug, own) if path is not None]

    def _search(self, start: Region, address: int) -> Optional[SymbolPlace]:
        name = self._covering(start, address)
        return place_of(name.text, address - name.value) if name is not None else None

    def _covering(self, start: Region, address: int) -> Optional[NamedSymbol]:
        values, names = self._table(start)
        place = bisect_right(values, address) - 1
        if place < 0 or not values[place] <= address < values[place] + max(1, names[place].size):
            return None
        return names[place]

    def _table(self, start: Region) -> tuple[list[int], list[NamedSymbol]]:
        if start.start not in self._tables:
            names = sorted(self._load(start), key=lambda each: (each.value, -len(each.text), each.text))
            self._tables[start.start] = [each.value for each in names], names
        return self._tables[start.start]

    def _load(self, start: Region) -> Iterator[NamedSymbol]:
        for file in self._files(start):
            bias = start.start - file.first_address
            try:
                names = [name._replace(value=name.value + bias) for name in _names(file)]
            except (ArenascopeError, struct.error, IndexError):
                continue
            if names:
                yield from names
                return


def names_of(file: ElfFile, kinds: Sequence[int] = ADDRESSED) -> list[NamedSymbol]:
    """Returns names by value: for thread-local variables (STT_TLS) by the offset in their module's block."""
    try:
        return sorted(_names(file, kinds))
    except (ArenascopeError, struct.error, IndexError):
        return []


def _names(file: ElfFile, kinds: Sequence[int] = ADDRESSED) -> Iterator[NamedSymbol]:
    """Reads .symtab, or .dynsym if the file is stripped."""
    tables = {section.type: section for section in file.sections if section.type in (SHT_SYMTAB, SHT_DYNSYM)}
    table = tables.get(SHT_SYMTAB) or tables.get(SHT_DYNSYM)
    if table is not None and table.size // elf_file.symbol_form(file).size <= elf_file.ENTRIES_LIMIT:
        yield from _entries(file, table, kinds)


def _entries(file: ElfFile, table: Section, kinds: Sequence[int]) -> Iterator[NamedSymbol]:
    strings = file.linked(table).offset
    if strings > len(file.data):
        return
    # names may share their ends: in a malformed file all entries may lead to one long name
    left = len(file.data)
    entries = file.data[table.offset : table.offset + table.size]
    form = elf_file.symbol_form(file)
    whole = form.iter_unpack(entries[: len(entries) // form.size * form.size])
    for place, value, size, info, section in map(elf_file.FIELDS[form.size], whole):
        if info & 15 in kinds and section != elf_file.SHN_UNDEF and (value or info & 15 == elf_file.STT_TLS):
            at = strings + place
            end = file.data.find(b"\0", at, at + elf_file.LONGEST_NAME)
            if end < 0:
                continue
            left -= end - at
            if left < 0:
                raise TargetError(f"{file.name} has a damaged table of symbols: its names are longer than the file")
            yield NamedSymbol(value, size, file.data[at:end].decode("utf-8", "replace"))
