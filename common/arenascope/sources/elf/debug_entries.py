"""Reads variables by address and classes by name from debug information, where a debugger does not provide them.

LLDB cannot find a static variable of a function that is only ever inlined. LLDB 22 reads one class of those whose
templates' arguments GCC writes into their names alone, such as std::tuple's, and no other
(https://github.com/llvm/llvm-project/issues/204791). An address or a name is searched for as bytes, and of the entries
in front of it only the path down to it is read.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from ..target import ByteOrder
from ..type_spelling import spelled, within
from .elf_file import ElfFile
from .entry_tree import BLOCK1, DAMAGED, DEEPEST, EXPRLOC, NAME, ROOMS, SIBLING, STRP, DebugEntry, EntryTree, text_at
from .unwind import Cursor

LARGEST = 64 << 20
"""The most bytes of a section: as much as the shell reads unasked."""
MOST_PLACES, MOST_STRINGS, MOST_MEMBERS = 64, 10_000, 10_000
COMPRESSED = 0x800
CHECKED = ".debug_info", ".debug_abbrev", ".debug_str", ".debug_line_str"

MEMBER, POINTER, REFERENCE, TYPEDEF, INHERITANCE = 0x0D, 0x0F, 0x10, 0x16, 0x1C
CONST, FUNCTION, VARIABLE, VOLATILE, RVALUE = 0x26, 0x2E, 0x34, 0x35, 0x42
MARKS = {POINTER: "*", REFERENCE: "&", RVALUE: "&&"}
LOCATION, SIZE, PLACE, DECLARATION, TYPE = 0x02, 0x0B, 0x38, 0x3C, 0x49


class DescribedType(NamedTuple):
    name: str
    """The name with namespaces and classes in front, as the compiler wrote it, without const and typedefs; or
    "void"."""
    marks: Sequence[str] = ()
    """The pointers and references: "*" for each pointer, "&" or "&&", the innermost first."""


class DescribedVariable(NamedTuple):
    """A static variable."""

    function: str
    """The C name of the function that it is declared in; "" if there is none, or it has no name."""
    name: str
    type: DescribedType


class DescribedMember(NamedTuple):
    """A member of a class, or a base class of it."""

    name: str
    offset: int
    type: DescribedType
    is_base: bool


class DescribedClass(NamedTuple):
    size: int
    members: Sequence[DescribedMember]


class DebugEntries(EntryTree):
    """The debug entries of one file."""

    def __init__(self, sections: Mapping[str, bytes], byte_order: ByteOrder, word: int) -> None:
        super().__init__(sections, byte_order, word)
        self._strings: dict[str, Mapping[str, Sequence[int]]] = {}

    def variable_at(self, address: int) -> Optional[DescribedVariable]:
        """Finds the variable by the address for which the file was linked."""
        place = -1
        with suppress(*DAMAGED):
            wanted = bytes((1 + self._word, 3)) + address.to_bytes(self._word, self._byte_order)  # DW_OP_addr
            for _ in range(MOST_PLACES):
                place = self._bytes.find(wanted, place + 1)
                way = self._way_to(place) if place >= 0 else []
                told = (EXPRLOC, place), (BLOCK1, place)
                if way and way[-1].shape.tag == VARIABLE and way[-1].places.get(LOCATION) in told:
                    return self._describe(way)
                if place < 0:
                    break
        return None

    def class_named(self, name: str) -> Optional[DescribedClass]:
        """Finds an instance of a class template, spelled as type_spelling.py does. None if two are not alike."""
        own = within(name)[1]
        with suppress(*DAMAGED):
            starts = self._strings_like(own.partition("<")[0]).get(own, ())
            found = [told for start in starts for full, told in self._classes_of(start) if spelled(full) == name]
            return found[0] if found and all(each == found[0] for each in found) else None
        return None

    def _strings_like(self, template: str) -> Mapping[str, Sequence[int]]:
        """Returns names of a template's instances by offset, as they are spelled."""
        if template not in self._strings:
            found: dict[str, list[int]] = {}
            strings, wanted = self._sections[".debug_str"], f"\0{template}<".encode()
            start = strings.find(wanted)
            while start >= 0 and len(found) < MOST_STRINGS:
                found.setdefault(spelled(text_at(strings, start + 1)), []).append(start + 1)
                start = strings.find(wanted, start + 1)
            self._strings[template] = found
        return self._strings[template]

    def _classes_of(self, string: int) -> Iterator[tuple[str, DescribedClass]]:
        """Returns the first complete class of each full name whose own name lies there."""
        place, wanted = -1, string.to_bytes(4, self._byte_order)
        for _ in range(MOST_PLACES):
            place = self._bytes.find(wanted, place + 1)
            if place < 0:
                return
            way = self._way_to(place)
            if way and way[-1].shape.tag in ROOMS and way[-1].places.get(NAME) == (STRP, place):
                size, name = self._constant(way[-1], SIZE), self._full_name(way)
                if size and name and DECLARATION not in way[-1].places:
                    yield name, DescribedClass(size, list(self._members(way[-1])))

    def _members(self, entry: DebugEntry) -> Iterator[DescribedMember]:
        """Returns the members that have a fixed place, whole bytes, and a type with a name."""
        unit, cursor = self._unit_at(entry.at), Cursor(self._bytes, self._byte_order)
        cursor.at = entry.end
        for _ in range(MOST_MEMBERS if entry.shape.has_children else 0):
            if not self._bytes[cursor.at]:
                return
            each = self._entry(cursor, unit)
            offset = self._constant(each, PLACE)
            if each.shape.tag in (MEMBER, INHERITANCE) and offset is not None:
                type = self._type_of(each)
                if type is not None:
                    yield DescribedMember(self._name(each), offset, type, each.shape.tag == INHERITANCE)
            if each.shape.has_children:
                sibling = self._own_reference(each, SIBLING)
                if sibling is None or sibling <= each.end:
                    return
                cursor.at = sibling

    def _describe(self, way: Sequence[DebugEntry]) -> Optional[DescribedVariable]:
        functions = [self._name(each) for each in way if each.shape.tag == FUNCTION]
        name, type = self._name(way[-1]), self._type_of(way[-1])
        return DescribedVariable("".join(functions[-1:]), name, type) if name and type is not None else None

    def _type_of(self, entry: DebugEntry) -> Optional[DescribedType]:
        """Returns the type; None if it has no name."""
        type, found = self._reference(entry, TYPE), DescribedType("void")
        for _ in range(DEEPEST):
            if type is None:
                return found if found.marks else None
            led = self._way_to(type)
            if not led or led[-1].at != type:
                return None
            tag = led[-1].shape.tag
            if tag in MARKS:
                found = found._replace(marks=[MARKS[tag], *found.marks])
            elif tag not in (CONST, VOLATILE, TYPEDEF):
                name = self._full_name(led)
                return found._replace(name=name) if name else None
            type = self._reference(led[-1], TYPE)
        return None


def debug_entries_of(file: ElfFile) -> Optional[DebugEntries]:
    """Returns the file's entries; None if it has none, or too many."""
    sections = {}
    with suppress(*DAMAGED, zlib.error):
        for each in (section for section in file.sections if section.name in CHECKED):
            data = file.read(each.offset, min(each.size, LARGEST + 1))
            if each.flags & COMPRESSED:
                header = 12 if file.pointer_size == 4 else 24
                is_zlib = int.from_bytes(data[:4], file.byte_order) == 1
                data = zlib.decompressobj().decompress(data[header:], LARGEST + 1) if is_zlib else b""
            if not data or len(data) > LARGEST:
                return None
            sections[each.name] = data
        if ".debug_info" in sections:
            return DebugEntries(sections, file.byte_order, file.pointer_size)
    return None
