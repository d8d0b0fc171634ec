"""Values by their declared types: numbers, enums, texts, where pointers lead, how many elements a container has.

All of it is the program's own data: whoever shows it asks base/printable.py.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import Iterator, Literal, NamedTuple, Optional, Union

from ...base.printable import is_cut, is_plain, quoted
from ...sources.memory import Memory
from ...sources.type_source import TypeFacts
from .contents import Contents, Text
from .memory_reader import MemoryReader
from .type_table import DEEPEST, TypeTable

ValueForm = Literal["integer", "boolean", "enum", "character", "float", "text", "pointer", "elements", "none"]
"""A pointer's number is the address to which it leads, a container's how many elements it has; "none": it cannot be
read, or its type is not known well enough."""
MOST_TEXT = 1 << 16
"""Bytes of a text that are read."""
PIECE = 256
"""So many at a time of one whose end is not known."""
FLOATS = {2: "e", 4: "f", 8: "d"}
FEW = 4
"""So many elements of an array are shown."""
MOST_MEMBERS = 256
SLICE = "&str"
LETTERS = ("char", "signed char", "unsigned char", "char8_t")
VIEW = "basic_string_view"
POINTERS = ("unique_ptr", "shared_ptr", "weak_ptr")
VTABLE = "_vptr"
"""The pointer to it, which compilers add, is no member of the program's own."""
ENCODINGS = {2: "utf-16", 4: "utf-32"}


class TypedValue(NamedTuple):
    form: ValueForm
    number: Union[int, float, None] = None
    name: str = ""
    """Of an enumerator."""
    data: bytes = b""
    """Of a text."""


NONE = TypedValue("none")


class MemberValue(NamedTuple):
    """A part of an object that has a value."""

    name: str
    """As it is reached from the object: "peer.port", "[3]", "" for the object itself."""
    address: int
    type: int
    value: TypedValue
    more: int = 0
    """So many elements of the array follow that are left out."""


class Values:
    """Of one image."""

    def __init__(self, reader: MemoryReader, constants: Memory, contents: Contents, mark: str) -> None:
        """`constants`: memory together with what files have of it, as texts of a program are not in every core. `mark`:
        of the order of bytes, "<" or ">"."""
        self.reader, self._constants = reader, constants
        self._contents, self._types = contents, contents.types
        self.mark = mark

    def of(self, type: int, address: int) -> TypedValue:
        """Of a struct only where it is a text or a container."""
        facts = self._types.facts(type)
        if facts.form in ("pointer", "reference"):
            return self._pointer(facts, address)
        if facts.form == "float":
            return self._float(facts.size, address)
        if facts.form in ("integer", "boolean", "character", "enum"):
            return self._number(facts, address)
        if facts.form == "array" and self.is_letter(facts.target) and facts.length:
            data = self.reader.bytes(address, min(facts.length, MOST_TEXT))
            return NONE if data is None else TypedValue("text", data=data.partition(b"\0")[0])
        return self._whole(type, facts, address) if facts.form == "struct" else NONE

    def _number(self, facts: TypeFacts, address: int) -> TypedValue:
        number = self.reader.number(address, facts.size)
        if number is None:
            return NONE
        if facts.signed and number >> 8 * facts.size - 1:
            number -= 1 << 8 * facts.size
        if facts.form == "enum":
            name = next((name for name, value in facts.enumerators.items() if value == number), "")
            return TypedValue("enum", number, name.rpartition("::")[2])
        if facts.form == "boolean":
            return TypedValue("boolean", number)
        return TypedValue("character" if facts.form == "character" else "integer", number)

    def _float(self, size: int, address: int) -> TypedValue:
        data = self.reader.bytes(address, size) if size in FLOATS else None
        return NONE if data is None else TypedValue("float", struct.unpack(self.mark + FLOATS[size], data)[0])

    def _pointer(self, facts: TypeFacts, address: int) -> TypedValue:
        place = self.reader.number(address, facts.size)
        if place is None:
            return NONE
        data = self._text_at(place) if place and self.is_letter(facts.target) else None
        return TypedValue("pointer", place, data=data or b"", name="" if data is None else "text")

    def is_letter(self, type: Optional[int]) -> bool:
        facts = self._types.facts(type) if type is not None else None
        return facts is not None and facts.size == 1 and facts.name in LETTERS

    def _text_at(self, place: int) -> Optional[bytes]:
        """Up to its 0; None where there is no text."""
        data = b""
        while len(data) < MOST_TEXT:
            at = place + len(data)
            size = PIECE - at % PIECE
            piece = self.reader.bytes(at, size) or self._constants.try_read(at, size)
            if piece is None:
                return None
            data += piece
            if b"\0" in piece:
                return data.partition(b"\0")[0]
        return data

    def _whole(self, type: int, facts: TypeFacts, address: int) -> TypedValue:
        text = self._view(facts, address) or self._contents.text(type, address)
        if text is not None:
            return self._letters(text)
        if not self._contents.nature(type).is_container:
            return NONE
        if template(facts.name) in POINTERS:
            place = self.reader.word(address)
            return NONE if place is None else TypedValue("pointer", place)
        count = self._contents.elements(type, address)
        return NONE if count is None else TypedValue("elements", count)

    def _letters(self, text: Text) -> TypedValue:
        data = self.reader.bytes(text.start, min(text.length * text.size, MOST_TEXT))
        if data is None:
            return NONE
        if text.size in ENCODINGS:
            order = "le" if self.mark == "<" else "be"
            data = data.decode(f"{ENCODINGS[text.size]}-{order}", "replace").encode("utf-8", "replace")
        return TypedValue("text", data=data)

    def _view(self, facts: TypeFacts, address: int) -> Optional[Text]:
        """Of what only points to letters."""
        view = view_of(self._types, facts)
        if view is None:
            return None
        start, length = self.reader.word(address + view.start), self.reader.word(address + view.length)
        return Text(start, length, view.size) if start and length is not None and view.size else None

    # what an object consists of

    def members(self, type: int, address: int, count: Optional[int] = None) -> list[MemberValue]:
        """Each part of an object that has a value; of an array, where `count` says how many elements it has."""
        parts = self._parts(type, address, "", 0) if count is None else self._elements(type, address, count, "")
        if count is not None and self.is_letter(type):
            data = self.reader.bytes(address, min(count, MOST_TEXT))
            return [
                MemberValue(
                    "", address, type, NONE if data is None else TypedValue("text", data=data.partition(b"\0")[0])
                )
            ]
        return list(islice(parts, MOST_MEMBERS))

    def _parts(self, type: int, address: int, name: str, depth: int) -> Iterator[MemberValue]:
        facts, value = self._types.facts(type), self.of(type, address)
        if facts.form in ("struct", "union") and value.form == "none" and depth < DEEPEST:
            if not self._contents.nature(type).is_container:
                for each in facts.fields:
                    if each.name.startswith(VTABLE):
                        continue
                    step = "" if each.is_base or not each.name else f".{each.name}" if name else each.name
                    yield from self._parts(each.type, address + each.offset, name + step, depth + 1)
                return
        elif facts.form == "array" and value.form == "none" and facts.target is not None and depth < DEEPEST:
            yield from self._elements(facts.target, address, facts.length or 0, name, depth=depth)
            return
        yield MemberValue(name, address, type, value)

    def _elements(self, type: int, address: int, count: int, name: str, depth: int = 0) -> Iterator[MemberValue]:
        size = self._types.facts(type).size
        shown = min(count, FEW) if size else 0
        for number in range(shown):
            yield from self._parts(type, address + number * size, f"{name}[{number}]", depth + 1)
        if count > shown:
            yield MemberValue(name, address, type, NONE, more=count - shown)


def view_of(types: TypeTable, facts: TypeFacts) -> Optional[Text]:
    """Where in a struct that is a pointer to letters, and how many there are, these two are, and the bytes of a letter
    (0: not known); None where it is something else."""
    if facts.name != SLICE and template(facts.name) != VIEW:
        return None
    parts = {types.facts(each.type).form: each for each in facts.fields}
    if parts.keys() != {"pointer", "integer"}:
        return None
    letter = types.facts(parts["pointer"].type).target
    return Text(parts["pointer"].offset, parts["integer"].offset, types.facts(letter).size if letter is not None else 0)


def template(name: str) -> str:
    """ "map" of std::map<int, int>."""
    return name.partition("<")[0].rpartition("::")[2]


def value_text(value: TypedValue) -> str:
    """As a debugger writes it; "?" where it is not known."""
    number = value.number
    if value.form == "text":
        return quoted(value.data)
    if value.form == "none" or number is None:
        return "?"
    if value.form == "enum":
        return value.name or str(number)
    if value.form == "boolean":
        return {0: "false", 1: "true"}.get(int(number), str(number))
    if value.form == "character":
        return f"{number} {_letter(int(number))}".rstrip()
    if value.form == "pointer":
        return f"{number:#x} {quoted(value.data)}" if value.name else f"{number:#x}"
    if value.form == "elements":
        return f"{number:,} element{'' if number == 1 else 's'}"
    return f"{number:g}" if isinstance(number, float) else str(number)


def _letter(number: int) -> str:
    """In quotes, where it can be seen."""
    return f"'{chr(number)}'" if 32 <= number < 127 else ""


def key_text(value: TypedValue, number: int) -> str:
    """Between the brackets of a path. `number`: of the element, where its key cannot be written plainly."""
    if value.form in ("integer", "float", "boolean") or (value.form == "enum" and value.name):
        return value_text(value) if value.form != "float" else repr(value.number).removesuffix(".0")
    if value.form == "character" and value.number is not None and _letter(int(value.number)):
        return _letter(int(value.number))
    if value.form == "text" and is_plain(value.data):
        # of two that begin alike the numbers tell which it is
        return f"{quoted(value.data)} #{number}" if is_cut(value.data) else quoted(value.data)
    return f"#{number}"
