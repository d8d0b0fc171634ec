"""A small ELF reader, for files and for their images in memory.

It reads both classes and both byte orders: headers, notes, build-ids, symbol tables, and glibc's version banner.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import sys
from functools import cached_property
from operator import itemgetter
from typing import Callable, Iterable, Iterator, NamedTuple, Optional, Sequence, Union

from ...base.argv import ELF
from ...base.errors import ArenascopeError, TargetError
from ..target import ByteOrder, Span
from .sysroot import file_within, open_regular

Buffer = Union[bytes, bytearray, memoryview, mmap.mmap]

NT_GNU_BUILD_ID = 3
"""Linkers write it, as "GNU"; the kernel's numbers stand below."""
MAX_NOTES = 1 << 20
"""A core has about six for each thread."""
LONGEST_OWNER = 64


class Note(NamedTuple):
    """One note: "CORE" or "GNU" or the like, its number, its bytes."""

    owner: str
    type: int
    data: bytes


class NotePlace(NamedTuple):
    """The place of a whole note: its header, owner and bytes, from the first byte of all notes on."""

    start: int
    owner: int
    owner_bytes: int
    type: int
    data: int
    data_bytes: int

    @property
    def end(self) -> int:
        return self.data + self.data_bytes


def places_of_notes(data: Buffer, mark: str, align: int = 4) -> Iterator[NotePlace]:
    # Only GNU properties are aligned to 8; cores say 0 or 1 and mean 4.
    align = 8 if align == 8 else 4
    header = struct.Struct(mark + "3I")
    at, end = 0, len(data)
    for _ in range(MAX_NOTES):
        if at + header.size > end:
            return
        name_size, size, kind = header.unpack_from(data, at)
        start = _round_up(at + header.size + name_size, align)
        # zeros: what was never written
        if not (name_size or size or kind) or start + size > end:
            return
        yield NotePlace(at, owner=at + header.size, owner_bytes=name_size, type=kind, data=start, data_bytes=size)
        at = _round_up(start + size, align)


def parse_notes(data: Buffer, mark: str, align: int = 4, most: Optional[int] = None) -> Iterator[Note]:
    """Returns the complete notes in `data`, up to the one with which they would exceed `most` bytes."""
    left = len(data) if most is None else most
    for each in places_of_notes(data, mark, align):
        left -= each.data_bytes
        if left < 0:
            return
        name = bytes(data[each.owner : each.owner + min(each.owner_bytes, LONGEST_OWNER)])
        yield Note(string_at(name, 0), each.type, bytes(data[each.data : each.end]))


def gnu_build_id(notes: Iterable[Note]) -> Optional[str]:
    return next((n.data.hex() for n in notes if n.owner == "GNU" and n.type == NT_GNU_BUILD_ID and n.data), None)


def _round_up(value: int, align: int) -> int:
    return (value + align - 1) // align * align


def string_at(data: bytes, start: int, limit: Optional[int] = None) -> str:
    end = len(data) if limit is None else min(start + limit, len(data))
    stop = data.find(b"\0", start, end)
    return os.fsdecode(data[start : end if stop < 0 else stop])


# <linux/elf.h>: "CORE" and "LINUX" own the notes of cores, and the sets of ptrace(2) have the same numbers
NT_PRSTATUS, NT_PRPSINFO, NT_AUXV, NT_SIGINFO, NT_FILE = 1, 3, 6, 0x53494749, 0x46494C45
NT_386_TLS, NT_ARM_TLS = 0x200, 0x401
NT_FPREGSET, NT_X86_XSTATE, NT_S390_HIGH_GPRS, NT_ARM_VFP, NT_ARM_SVE = 2, 0x202, 0x300, 0x400, 0x405
NT_ARM_SSVE, NT_ARM_ZA, NT_ARM_GCS = 0x40B, 0x40C, 0x410
REGISTER_NOTES = (
    ("CORE", NT_FPREGSET),
    ("LINUX", NT_X86_XSTATE),
    ("LINUX", NT_386_TLS),
    ("LINUX", NT_ARM_VFP),
    ("LINUX", NT_ARM_TLS),
    ("LINUX", NT_ARM_SVE),
    ("LINUX", NT_S390_HIGH_GPRS),
)
"""Register sets besides the general ones; each machine has some of them."""
TLS_NOTES = (("LINUX", NT_ARM_TLS), ("LINUX", NT_386_TLS))
"""Those of them that have the thread pointer of machines where it is no general register."""
# <linux/auxvec.h>
AT_NULL, AT_PHDR, AT_PHNUM, AT_PAGESZ, AT_BASE, AT_ENTRY = 0, 3, 5, 6, 7, 9
AT_PLATFORM, AT_SECURE, AT_RANDOM, AT_EXECFN, AT_SYSINFO_EHDR = 15, 23, 25, 31, 33
DELETED = " (deleted)"
OWN = "ARENASCOPE"
"""The owner of our own notes, which `save` writes."""
NT_MOMENT, NT_RESIDENT, NT_SWAPPED, NT_VECTORS = 1, 2, 3, 16
"""The last one has vector registers one after another, by debuggers' names (WIDE in registers.py); core/saved_note.py
describes the others."""


class FileMapping(NamedTuple):
    """One row of NT_FILE."""

    start: int
    end: int
    offset: int
    path: str


def parse_auxv(data: bytes, pointer_size: int, mark: str) -> dict[int, int]:
    """Returns the auxiliary vector up to AT_NULL."""
    pair = struct.Struct(mark + ("2I" if pointer_size == 4 else "2Q"))
    auxv: dict[int, int] = {}
    for kind, value in pair.iter_unpack(data[: len(data) // pair.size * pair.size]):
        if kind == AT_NULL:
            break
        auxv[kind] = value
    return auxv


def undeleted(path: str) -> str:
    """Removes the kernel's mark for a file that has been removed or replaced since."""
    return path[: -len(DELETED)] if path.endswith(DELETED) else path


Read = Callable[[int, int], bytes]

MAGIC = ELF
ET_CORE = 4
PT_NULL, PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_TLS = 0, 1, 2, 3, 4, 7
PF_X, PF_W, PF_R = 1, 2, 4
SHT_SYMTAB, SHT_NOTE, SHT_DYNSYM = 2, 7, 11
# counts that outgrow their 16-bit field move to section header 0 (a core of more than 65,534 mappings)
PN_XNUM, SHN_XINDEX = 0xFFFF, 0xFFFF
MAX_SECTIONS = 1 << 16
"""The most sections of modules and their debug files, which have some dozens; a core's are only counted."""
MAX_SEGMENTS = 1 << 21
"""The most segments of a core: twice what the largest vm.max_map_count in use allows. A count may be false, in a file
that is a hole."""
MAX_MAPPED = 256
"""The most program headers of a module in memory: linkers write a dozen, and nothing marks where their file ends."""
MAX_TABLES = 64
LONGEST_NOTES = 1 << 20
"""The most bytes of notes in modules and their files, which have some hundred; core/core_image.py reads a core's."""
LONGEST_NAME = 4096
LONGEST_SECTION_NAME = 256
LONGEST_NAMES = 16 << 20
"""The most bytes of all sections' names."""
SEARCHED_FOR_BANNER = 256 << 20
DEBUG_FOLDER = "/usr/lib/debug"
BUILD_ID_DIGITS = 16
"""The least length of build-ids that linkers make."""
INFORMATION = (".debug_info", ".zdebug_info")
"""Sections with types."""


class Segment(NamedTuple):
    """A program header."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    align: int


class Section(NamedTuple):
    """A section header."""

    name: str
    type: int
    offset: int
    size: int
    link: int
    entry_size: int


class Elf:
    """An ELF image, read by read(address, size), which gives all the bytes or raises.

    With `mapped`, `base` is where the loader put the file's first byte, and only loaded parts are there.
    """

    def __init__(self, read: Read, base: int = 0, mapped: bool = False, name: str = "this") -> None:
        self.read, self.base, self.mapped, self.name = read, base, mapped, name
        ident = read(base, 16)
        if ident[:4] != MAGIC:
            raise TargetError(f"{name} is not an ELF file")
        if ident[4] not in (1, 2) or ident[5] not in (1, 2):
            raise TargetError(f"{name} has a damaged ELF header")
        self.pointer_size = 4 if ident[4] == 1 else 8
        self.byte_order: ByteOrder = "little" if ident[5] == 1 else "big"
        self.mark = "<" if ident[5] == 1 else ">"
        word = "I" if self.pointer_size == 4 else "Q"
        fields = struct.Struct(f"{self.mark}HHI3{word}I6H")
        (
            self.type,
            self.machine,
            _,
            self.entry,
            self._phoff,
            self._shoff,
            self.flags,
            _,
            self._phentsize,
            self._phnum,
            self._shentsize,
            self._shnum,
            self._shstrndx,
        ) = fields.unpack(read(base + 16, fields.size))
        self.section_count = self._shnum
        """As in the header: 0 if there are none, and if there are too many for 16 bits."""
        self._section = struct.Struct(f"{self.mark}2I4{word}2I2{word}")

    @cached_property
    def segments(self) -> list[Segment]:
        count = self._phnum
        if count == PN_XNUM and self._shoff and not self.mapped:
            count = self._raw_section(0)[7]
        layout = struct.Struct(self.mark + ("8I" if self.pointer_size == 4 else "2I6Q"))
        most = MAX_MAPPED if self.mapped else MAX_SEGMENTS
        if count and (self._phentsize != layout.size or count > most):
            # as the kernel and ld.so have it: another size is no ELF file
            raise TargetError(
                f"{self.name} has a damaged ELF header: {count} program headers of {self._phentsize} bytes"
            )
        segments = []
        data = self.read(self.base + self._phoff, count * self._phentsize) if count else b""
        for at in range(0, len(data), layout.size):
            fields = layout.unpack_from(data, at)
            if self.pointer_size == 4:
                kind, offset, address, _, filesz, memsz, flags, align = fields
            else:
                kind, flags, offset, address, _, filesz, memsz, align = fields
            if kind == PT_NULL:
                continue  # what was never written, too
            segments.append(
                Segment(
                    kind, flags=flags, offset=offset, address=address, file_size=filesz, memory_size=memsz, align=align
                )
            )
        return segments

    def segment(self, kind: int) -> Optional[Segment]:
        """Returns the first segment of a kind."""
        return next((each for each in self.segments if each.type == kind), None)

    def _raw_section(self, index: int) -> tuple[int, ...]:
        return self._section.unpack(self.read(self._shoff + index * self._shentsize, self._section.size))

    @cached_property
    def sections(self) -> list[Section]:
        """Empty for an image in memory: the loader does not map section headers."""
        if self.mapped or not self._shoff:
            return []
        first = self._raw_section(0)
        count = self._shnum or first[5]
        if self._shentsize != self._section.size or count > MAX_SECTIONS:
            raise TargetError(
                f"{self.name} has a damaged ELF header: {count} section headers of {self._shentsize} bytes"
            )
        names = first[6] if self._shstrndx == SHN_XINDEX else self._shstrndx
        data = self.read(self._shoff, count * self._shentsize)
        raw = [self._section.unpack_from(data, at) for at in range(0, len(data), self._shentsize)]
        strings = self.read(raw[names][4], min(raw[names][5], LONGEST_NAMES)) if names < count else b""
        return [
            Section(string_at(strings, name, LONGEST_SECTION_NAME), kind, offset, size, link, entry_size=entry_size)
            for name, kind, _, _, offset, size, link, _, _, entry_size in raw
        ]

    def linked(self, section: Section) -> Section:
        """Returns the section that this one's `link` names: a symbol table's strings."""
        if section.link >= len(self.sections):
            raise TargetError(f"{self.name} has a damaged section header: {section.name} links to none")
        return self.sections[section.link]

    @property
    def program_headers(self) -> Span:
        """The offset of the program headers."""
        start = self.base + self._phoff
        return Span(start, start + self._phnum * self._phentsize)

    @property
    def first_address(self) -> int:
        """The address that the file's first byte was linked for."""
        first = self.segment(PT_LOAD)
        return first.address - first.offset if first else 0

    @cached_property
    def bias(self) -> int:
        """The number that the loader added to the file's addresses; 0 for a file."""
        if not self.mapped:
            return 0
        return self.base - self.first_address

    def contents(self, segment: Segment) -> bytes:
        return self.read(self.bias + segment.address if self.mapped else segment.offset, segment.file_size)

    def notes(self) -> Iterator[Note]:
        """Returns the notes of the PT_NOTE segments."""
        for segment in [each for each in self.segments if each.type == PT_NOTE][:MAX_TABLES]:
            if segment.file_size <= LONGEST_NOTES:
                yield from parse_notes(self.contents(segment), self.mark, segment.align)

    def build_id(self) -> Optional[str]:
        """The GNU build-id in hex. By section first: in a separate debug file only those are sure to be right."""
        for section in [each for each in self.sections if each.type == SHT_NOTE][:MAX_TABLES]:
            if section.size <= LONGEST_NOTES:
                data = self.read(section.offset, section.size)
                build_id = gnu_build_id(parse_notes(data, self.mark, 8 if section.name == ".note.gnu.property" else 4))
                if build_id:
                    return build_id
        return gnu_build_id(self.notes())


class ElfFile(Elf):
    """An ELF file, mapped rather than read: debug files are large and little of them is used."""

    def __init__(self, path: str) -> None:
        try:
            file = open_regular(path)
            try:
                self.data = mmap.mmap(file, 0, access=mmap.ACCESS_READ)
            finally:
                os.close(file)
        except (OSError, ValueError) as error:  # mmap raises ValueError for an empty file
            raise TargetError(f"cannot open {path}: {getattr(error, 'strerror', None) or error}") from error
        self.path = path
        try:
            super().__init__(buffer_reader(self.data, path), name=path)
        except ArenascopeError:
            self.data.close()
            raise

    def __enter__(self) -> ElfFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.data.close()


def buffer_reader(data: Buffer, name: str) -> Read:
    return file_reader(lambda offset, size: bytes(data[offset : offset + size]), len(data), name)


def file_reader(read: Read, length: int, name: str) -> Read:
    """Returns a Read of a file of that length; it raises TargetError if the file ends too early."""

    def within(offset: int, size: int) -> bytes:
        # before a byte is copied: a header may claim more than there is memory for
        if offset + size > length:
            raise TargetError(f"{name} is cut short: {length} bytes, {offset + size} expected")
        return read(offset, size)

    return within


def module_build_id(read: Read, base: int) -> Optional[str]:
    """Returns the build-id of the module whose first byte lies at `base` of a process; None if none can be read."""
    return build_id_in_memory(read, base) or None


def build_id_in_memory(read: Read, base: int) -> Optional[str]:
    """Returns the same, but "" for a module that was linked without one; None if no module can be read there."""
    try:
        return Elf(read, base, mapped=True).build_id() or ""
    except ArenascopeError:
        return None


def differ(inside: Optional[str], loaded: Optional[str]) -> bool:
    """Tells whether a module's build-id proves that a file is not the module's. `loaded` is the file's, or "".

    LLDB has a checksum of 8 digits for a file that has none.
    """
    if inside is None or loaded is None:
        return False
    return loaded != inside if inside else len(loaded) >= BUILD_ID_DIGITS


def proven_files(paths: Iterable[Optional[str]], build_id: Optional[str]) -> Iterator[ElfFile]:
    """Yields the files that have this build-id, or none, each open until the next is asked for."""
    for path in paths:
        if path is None:
            continue
        try:
            with ElfFile(path) as file:
                if file.build_id() == build_id:
                    yield file
        except ArenascopeError:
            continue


def downloads() -> str:
    """Returns the folder where debuginfod's clients keep what they have downloaded."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("DEBUGINFOD_CACHE_PATH") or os.path.join(caches, "debuginfod_client")


def linked_file(path: str) -> Optional[str]:
    """Returns the separate debug file that a file names, if it lies beside it or in .debug there."""
    try:
        with ElfFile(path) as file:
            link = next((each for each in file.sections if each.name == ".gnu_debuglink"), None)
            name = string_at(file.read(link.offset, min(link.size, LONGEST_NAME)), 0) if link is not None else ""
    except (ArenascopeError, struct.error):
        return None
    folder = os.path.dirname(os.path.realpath(path))
    beside = [os.path.join(folder, name), os.path.join(folder, ".debug", name)] if os.path.basename(name) else []
    return next((each for each in beside if "/" not in name and os.path.isfile(each)), None)


def find_debug_file(build_id: str, debug_dirs: Sequence[str], sysroot: Optional[str] = None) -> Optional[str]:
    """Returns the separate debug file of that build-id under the first of `debug_dirs` that has it, or below
    `sysroot`, or that was downloaded."""
    if len(build_id) < 3:
        return None
    if debug_dirs and os.path.isfile(path := os.path.join(downloads(), build_id, "debuginfo")):
        return path
    name = os.path.join(".build-id", build_id[:2], build_id[2:] + ".debug")
    for folder in debug_dirs:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    return file_within(sysroot, os.path.join(DEBUG_FOLDER, name)) if sysroot is not None else None


# csu/version.c. Distributions put their own words into the brackets, 2.17 had a comma after the number, and a
# snapshot says "development release version 2.42.9000".
_BANNER = re.compile(rb"GNU C Library [^\n\0]{0,200}?release version ([0-9]+\.[0-9]+(?:\.[0-9]+)*)")


def glibc_version(data: Buffer) -> Optional[str]:
    """Returns glibc's version, such as "2.36", from libc's bytes (its file, a static program, or its .rodata in
    memory)."""
    banner = _BANNER.search(data, 0, SEARCHED_FOR_BANNER)
    return banner.group(1).decode() if banner else None


EM_386, EM_PPC, EM_PPC64, EM_S390, EM_ARM, EM_X86_64 = 3, 20, 21, 22, 40, 62
EM_AARCH64, EM_RISCV, EM_LOONGARCH, EM_ALPHA = 183, 243, 258, 0x9026

MACHINE_NAMES = {
    EM_386: "i386",
    EM_PPC: "ppc",
    EM_PPC64: "ppc64",
    EM_S390: "s390x",
    EM_ARM: "arm",
    EM_X86_64: "x86_64",
    EM_AARCH64: "aarch64",
    EM_RISCV: "riscv64",
    EM_LOONGARCH: "loongarch64",
}


def machine_name(machine: int, pointer_size: int) -> str:
    """Returns a processor's Linux name, "" if it is not known here."""
    if machine == EM_X86_64 and pointer_size == 4:
        return "x32"
    return MACHINE_NAMES.get(machine, "")


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
    for kind in (SHT_SYMTAB, SHT_DYNSYM):
        for section in elf.sections:
            missing = [name for name in names if name not in by_name]
            if section.type == kind and missing:
                by_name.update(_search_table(elf, section, missing))
    return by_name


def tls_offsets(paths: Iterable[str], build_id: str, names: Sequence[str]) -> dict[str, int]:
    """Returns the offsets of thread-local variables in their module's block, from the first of the files that has any.

    Only files of that build-id count, and only names that one variable has: a static program may have its own.
    """
    for file in proven_files(paths, build_id):
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
    tables = _DynamicTables(elf, dynamic_tags(elf))
    symbols = {}
    for name in names:
        symbol = tables.find(name)
        if symbol:
            symbols[name] = symbol
    return symbols


def dynamic_strings(read: Read, base: int) -> bytes:
    """Returns the names that the module loaded at `base` exports or imports; raises as above."""
    elf = Elf(read, base, mapped=True, name=f"what lies at {base:#x}")
    if elf.segment(PT_DYNAMIC) is None:
        raise TargetError(f"what lies at {base:#x} is linked for itself")
    tags = dynamic_tags(elf)
    return _DynamicTables(elf, tags).strings if {DT_STRTAB, DT_STRSZ} <= tags.keys() else b""


def dynamic_tags(elf: Elf) -> dict[int, int]:
    """The entries of the dynamic section of a module in memory, by tag; none if it is linked for itself."""
    dynamic = elf.segment(PT_DYNAMIC)
    if dynamic is None:
        return {}
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
