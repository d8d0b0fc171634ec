"""Finds ELF symbols by name: in the tables of a file, or in the dynamic section of a module in memory."""

from __future__ import annotations

import struct
import sys
from operator import itemgetter
from typing import Iterable, Iterator, NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError, TargetError
from . import elf_file
from .elf_file import EM_ALPHA, EM_S390, Elf, ElfFile, Read, Section

STT_SECTION, STT_FILE, STT_TLS = 3, 4, 6
SHN_UNDEF, SHN_ABS = 0, 0xFFF1
LONGEST_DYNAMIC = 64 << 10
"""The most entries of a dynamic section, which has some dozens."""
STRINGS_LIMIT = 32 << 20
ENTRIES_LIMIT = 2_000_000
"""Larger tables are not searched: a browser's debug build, or a hole in a malformed file."""
DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_GNU_HASH = 4, 5, 6, 10, 11, 0x6FFFFEF5

FIELDS = {16: itemgetter(0, 1, 2, 3, 5), 24: itemgetter(0, 4, 5, 1, 3)}
"""By an entry's size (the classes order them differently): st_name, st_value, st_size, st_info, st_shndx."""


class ElfSymbol(NamedTuple):
    """A symbol that its file defines."""

    name: str
    value: int
    """From a file: the address that the file was linked for. From memory: the address. TLS: the offset in the block."""
    size: int
    type: int
    section: int

    @property
    def is_tls(self) -> bool:
        return self.type == STT_TLS


def find_symbols(elf: ElfFile, names: Iterable[str]) -> dict[str, list[ElfSymbol]]:
    """Returns all definitions of each of `names`: from .symtab, and from .dynsym for names missing there.

    Several definitions of one name are not rare (a static variable in two files of a static program): the caller
    chooses, by size for one. Names without a definition are left out.
    """
    by_name: dict[str, list[ElfSymbol]] = {}
    for kind in (elf_file.SHT_SYMTAB, elf_file.SHT_DYNSYM):
        for section in elf.sections:
            missing = [name for name in names if name not in by_name]
            if section.type == kind and missing:
                by_name.update(_search_table(elf, section, missing))
    return by_name


def tls_offsets(paths: Iterable[str], build_id: str, names: Sequence[str]) -> dict[str, int]:
    """Returns the offsets of thread-local variables in their module's block, from the first of the files that has any.

    Only files of that build-id count, and only names that one variable has: a static program may have its own.
    """
    for file in elf_file.proven_files(paths, build_id):
        try:
            symbols = find_symbols(file, names)
        except ArenascopeError:
            continue
        local = {name: [each.value for each in definitions if each.is_tls] for name, definitions in symbols.items()}
        told = {name: values[0] for name, values in local.items() if len(values) == 1}
        if told:
            return told
    return {}


def _search_table(elf: ElfFile, table: Section, names: list[str]) -> dict[str, list[ElfSymbol]]:
    """Finds the strings' offsets, then the entries with these offsets: only those become objects."""
    layout = symbol_form(elf)
    stride = table.entry_size or layout.size
    if stride % 4 or stride < layout.size:
        return {}
    strings = elf.linked(table)
    if table.size // stride > ENTRIES_LIMIT or strings.size > STRINGS_LIMIT:
        return {}
    wanted = dict(_string_offsets(elf, strings, names))
    if not wanted:
        return {}
    size = table.size // stride * stride
    with memoryview(elf.data) as data, data[table.offset : table.offset + size] as entries:
        if len(entries) != size:
            return {}
        # st_name comes first in both classes: every stride-th 32-bit number of the table
        with entries.cast("I") as numbers, numbers[:: stride // 4] as column:
            places = column.tolist()
        if elf.byte_order != sys.byteorder:
            wanted = {_swap(offset): name for offset, name in wanted.items()}
        by_name: dict[str, list[ElfSymbol]] = {}
        for index in [index for index, place in enumerate(places) if place in wanted]:
            symbol = _unpack(layout, entries, index * stride, wanted[places[index]])
            if symbol:
                by_name.setdefault(symbol.name, []).append(symbol)
    return by_name


def _string_offsets(elf: ElfFile, strings: Section, names: list[str]) -> Iterator[tuple[int, str]]:
    """Yields each offset where a name ends a string: linkers let "tcache" share the tail of "free_tcache". 0 is no
    name's."""
    end = strings.offset + strings.size
    if end > len(elf.data):
        return
    for name in names:
        needle = name.encode() + b"\0"
        at = elf.data.find(needle, strings.offset + 1, end)
        while at >= 0:
            yield at - strings.offset, name
            at = elf.data.find(needle, at + 1, end)


def _swap(value: int) -> int:
    return int.from_bytes(value.to_bytes(4, "little"), "big")


def symbol_form(elf: Elf) -> struct.Struct:
    """Returns the struct of a symbol table's entry; FIELDS tells what its numbers are."""
    return struct.Struct(elf.mark + ("3I2BH" if elf.pointer_size == 4 else "I2BH2Q"))


def _unpack(layout: struct.Struct, data: bytes | memoryview, offset: int, name: str) -> Optional[ElfSymbol]:
    """Unpacks a symbol; None if it is no definition."""
    _, value, size, info, section = FIELDS[layout.size](layout.unpack_from(data, offset))
    kind = info & 15
    if section == SHN_UNDEF or kind in (STT_SECTION, STT_FILE):
        return None
    return ElfSymbol(name, value, size, kind, section=section)


def dynamic_symbols(read: Read, base: int, names: Iterable[str]) -> dict[str, ElfSymbol]:
    """Returns exported symbols of the module loaded at `base`, from its memory; values are addresses (TLS: offsets).

    The libc that a process runs may no longer be the one on disk, so this beats its file. Raises MemoryReadError if the
    image does not hold the tables (a core that leaves out text) and TargetError if there is no module.
    """
    elf = Elf(read, base, mapped=True, name=f"what lies at {base:#x}")
    dynamic = next((s for s in elf.segments if s.type == elf_file.PT_DYNAMIC), None)
    if dynamic is None:
        return {}
    tables = _DynamicTables(elf, dynamic_tags(elf, dynamic))
    symbols = {}
    for name in names:
        symbol = tables.find(name)
        if symbol:
            symbols[name] = symbol
    return symbols


def dynamic_strings(read: Read, base: int) -> bytes:
    """Returns the names that the module loaded at `base` exports or imports; raises as above."""
    elf = Elf(read, base, mapped=True, name=f"what lies at {base:#x}")
    dynamic = next((s for s in elf.segments if s.type == elf_file.PT_DYNAMIC), None)
    if dynamic is None:
        raise TargetError(f"what lies at {base:#x} is linked for itself")
    tags = dynamic_tags(elf, dynamic)
    return _DynamicTables(elf, tags).strings if {DT_STRTAB, DT_STRSZ} <= tags.keys() else b""


def dynamic_tags(elf: Elf, dynamic: elf_file.Segment) -> dict[int, int]:
    """The entries of the dynamic section of a module in memory, by tag."""
    word = "I" if elf.pointer_size == 4 else "Q"
    size = min(dynamic.memory_size, LONGEST_DYNAMIC) // (2 * elf.pointer_size) * 2 * elf.pointer_size
    return dict(struct.iter_unpack(f"{elf.mark}2{word}", elf.read(elf.bias + dynamic.address, size)))


class _DynamicTables:
    """The hash table, symbols and strings that the dynamic section points to."""

    LONGEST_CHAIN = 1 << 16

    def __init__(self, elf: Elf, tags: dict[int, int]) -> None:
        self.elf, self.tags = elf, tags
        self.layout = symbol_form(elf)
        self.stride = tags.get(DT_SYMENT) or self.layout.size

    @property
    def strings(self) -> bytes:
        return self.elf.read(self._address(DT_STRTAB), min(self.tags[DT_STRSZ], STRINGS_LIMIT))

    def _address(self, tag: int) -> int:
        # ld.so adds the load address in place, except where .dynamic is read-only (RISC-V, MIPS, the vDSO)
        value = self.tags[tag]
        return value if value >= self.elf.base else value + self.elf.bias

    def _numbers(self, address: int, count: int, size: int = 4) -> tuple[int, ...]:
        code = "I" if size == 4 else "Q"
        return struct.unpack(f"{self.elf.mark}{count}{code}", self.elf.read(address, count * size))

    def find(self, name: str) -> Optional[ElfSymbol]:
        if not {DT_SYMTAB, DT_STRTAB} <= self.tags.keys():
            return None
        if DT_GNU_HASH in self.tags:
            candidates = self._gnu_candidates(name.encode())
        elif DT_HASH in self.tags:
            candidates = self._sysv_candidates(name.encode())
        else:
            return None
        return next((s for s in (self._symbol(index, name) for index in candidates) if s), None)

    def _gnu_candidates(self, name: bytes) -> Iterator[int]:
        """Follows dl_new_hash and the chain that its bucket starts: bit 0 of a chain word ends it."""
        table = self._address(DT_GNU_HASH)
        buckets, first, bloom_words, _ = self._numbers(table, 4)
        value = 5381
        for byte in name:
            value = (value * 33 + byte) & 0xFFFFFFFF
        starts = table + 16 + bloom_words * self.elf.pointer_size
        index = self._numbers(starts + 4 * (value % buckets), 1)[0] if buckets else 0
        chains = starts + 4 * buckets
        for _ in range(self.LONGEST_CHAIN):
            if index < first:
                return
            hashed = self._numbers(chains + 4 * (index - first), 1)[0]
            if hashed | 1 == value | 1:
                yield index
            if hashed & 1:
                return
            index += 1

    def _sysv_candidates(self, name: bytes) -> Iterator[int]:
        """Follows _dl_elf_hash; its words are 8 bytes on 64-bit s390 and on Alpha only."""
        wide = self.elf.machine == EM_ALPHA or (self.elf.machine == EM_S390 and self.elf.pointer_size == 8)
        size = 8 if wide else 4
        value = 0
        for byte in name:
            value = (value << 4) + byte
            value = (value ^ (value >> 24 & 0xF0)) & 0x0FFFFFFF
        table = self._address(DT_HASH)
        buckets, count = self._numbers(table, 2, size)
        index = self._numbers(table + size * (2 + value % buckets), 1, size)[0] if buckets else 0
        for _ in range(min(count, self.LONGEST_CHAIN)):
            if not index:
                return
            yield index
            index = self._numbers(table + size * (2 + buckets + index), 1, size)[0]

    def _symbol(self, index: int, name: str) -> Optional[ElfSymbol]:
        raw = self.elf.read(self._address(DT_SYMTAB) + index * self.stride, self.layout.size)
        place: int = self.layout.unpack(raw)[0]
        needle = name.encode() + b"\0"
        if place + len(needle) > self.tags.get(DT_STRSZ, place + len(needle)):
            return None
        if self.elf.read(self._address(DT_STRTAB) + place, len(needle)) != needle:
            return None
        symbol = _unpack(self.layout, raw, 0, name)
        if symbol is None or symbol.is_tls or symbol.section == SHN_ABS:
            return symbol
        return symbol._replace(value=symbol.value + self.elf.bias)
