"""GDB as a TypeSource: reads the program's types from GDB's debug information."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

import gdb

from arenascope.sources.debug_info_types import BitField, Form, SizedStruct, StructField, TemplateArgument, TypeFacts
from arenascope.sources.debugged_variables import WithVariables, modules_with_structs
from arenascope.sources.elf.elf_file import has_debug_information
from arenascope.sources.type_spelling import language_of, spelled, within

if TYPE_CHECKING:
    # to mypy this folder is a part of GDB's own package
    from gdb.heap_target import GdbTarget
    from gdb.heap_variables import GdbVariables

MAX_ARGUMENTS = 64
NAMELESS_NAMESPACE = "(anonymous namespace)"
FORMS: Mapping[int, Form] = {
    gdb.TYPE_CODE_STRUCT: "struct",
    gdb.TYPE_CODE_UNION: "union",
    gdb.TYPE_CODE_ARRAY: "array",
    gdb.TYPE_CODE_PTR: "pointer",
    gdb.TYPE_CODE_REF: "reference",
    gdb.TYPE_CODE_RVALUE_REF: "reference",
    gdb.TYPE_CODE_INT: "integer",
    gdb.TYPE_CODE_RANGE: "integer",
    gdb.TYPE_CODE_CHAR: "character",
    gdb.TYPE_CODE_BOOL: "boolean",
    gdb.TYPE_CODE_FLT: "float",
    gdb.TYPE_CODE_DECFLOAT: "float",
    gdb.TYPE_CODE_ENUM: "enum",
    gdb.TYPE_CODE_FUNC: "function",
    gdb.TYPE_CODE_METHOD: "function",
    gdb.TYPE_CODE_VOID: "void",
}
LAMBDA = "<lambda("
MOST_TYPEDEFS = 10_000
"""A longer chain of typedefs leads back to itself."""
DEEPEST = 100
"""How deeply types may be nested (members of members, pointers to pointers)."""
LONGEST_NAME = 64 << 10
"""Longest type name in bytes. A template's name doubles with each level of arguments, and GDB copies it at each
question."""
MOST_ALIKE = 16
"""How many types of one name and size a type is compared with."""
MOST_MEMBERS, BYTES_PER_MEMBER = 2_000_000, 8
"""The most members to read: a constant, and one more for so many bytes of the files. Genuine debug information has no
more; hostile files could keep us reading forever."""
MOST_PARAMETERS = 300
"""The most parameters of a function type, nested ones included: its name contains all of them."""
Key = tuple[object, ...]


class _Known(NamedTuple):
    """A type that has a number."""

    type: gdb.Type
    """Without const or typedefs."""
    name: str
    form: Form
    language: str
    complete: bool = True
    """False: several types have that name, and nothing tells which one is meant."""


class Endless(RuntimeError):
    """A type that leads back to itself, or one that would take forever to read."""


class GdbTypes(WithVariables):
    """Reads types for one command, from what a GdbTarget shows, or from files alone (ModuleFiles), which have no
    threads."""

    def __init__(self, target: GdbTarget, variables: Callable[[GdbTarget, GdbTypes], GdbVariables]) -> None:
        self._target = target
        self._known: list[_Known] = []
        self._numbers: dict[Key, int] = {}
        self._facts: dict[int, TypeFacts] = {}
        self._classes: dict[tuple[tuple[int, int], ...], dict[str, list[gdb.Symbol]]] = {}
        self._names: dict[str, Optional[int]] = {}
        self._believed: dict[gdb.Objfile, bool] = {}
        self._alike: Optional[dict[tuple[str, Form, int], list[tuple[gdb.Type, int]]]] = None
        """Numbered types by name, form and size, during one question or one source file: two functions may have types
        of one name."""
        self._depth = 0
        """How deeply the type now being numbered is nested."""
        self._members_left: Optional[int] = None
        self._variables = variables(target, self)

    # types

    def facts(self, type: int) -> TypeFacts:
        if type not in self._facts:
            known = self._known[type]
            name = spelled(known.name)
            try:
                with self._one_question():
                    facts = self._describe(known) if known.complete else TypeFacts(name, known.form, 0)
            except (gdb.error, RuntimeError, ValueError, TypeError, AttributeError):
                facts = TypeFacts(name, "other", known.type.sizeof or 0, language=known.language)
            self._facts[type] = facts
        return self._facts[type]

    def _describe(self, known: _Known) -> TypeFacts:
        kind, form, language = known.type, known.form, known.language
        facts = TypeFacts(spelled(known.name), form, kind.sizeof or 0, language=language)
        if form in ("struct", "union"):
            fields = self._fields(kind, language)
            return facts._replace(
                fields=fields,
                arguments=self._arguments(kind, language),
                polymorphic=self._is_polymorphic(kind),
                bits=[*self._bits(kind)],
                tag=self._tag(kind) if form == "union" and language == "rust" else None,
            )
        if form in ("pointer", "reference"):
            target = kind.target()
            is_void = self.plain(target).code == gdb.TYPE_CODE_VOID
            return facts._replace(target=None if is_void else self._number(target, language, of=kind))
        if form == "array":
            return facts._replace(target=self._number(kind.target(), language), length=_length(kind))
        if form == "enum":
            values = {each.name.rpartition("::")[2]: int(each.enumval) for each in self._members(kind) if each.name}
            return facts._replace(enumerators=values, signed=any(value < 0 for value in values.values()))
        if form in ("integer", "character"):
            return facts._replace(signed=_is_signed(kind))
        return facts

    def _fields(self, kind: gdb.Type, language: str) -> list[StructField]:
        fields = []
        for each in self._members(kind):
            # static members and virtual bases have no offset
            place: Optional[int] = getattr(each, "bitpos", None)
            if place is None or each.bitsize or place % 8 or each.type is None:
                continue
            # a Rust enum's discriminant is no field: see _tag
            if each.artificial and not each.name and language == "rust":
                continue
            number = self._number(each.type, language)
            fields.append(StructField(each.name or "", place // 8, number, bool(each.is_base_class)))
        return fields

    def _tag(self, kind: gdb.Type) -> Optional[StructField]:
        """The discriminant of a Rust enum."""
        for each in self._members(kind):
            if each.artificial and not each.name and each.type is not None and each.bitpos is not None:
                return StructField("", each.bitpos // 8, self._number(each.type, "rust"))
        return None

    def _arguments(self, kind: gdb.Type, language: str) -> list[TemplateArgument]:
        arguments: list[TemplateArgument] = []
        for index in range(MAX_ARGUMENTS):
            try:
                argument: Union[gdb.Type, gdb.Value] = kind.template_argument(index)
            except (gdb.error, RuntimeError, ValueError):
                break
            if isinstance(argument, gdb.Type):
                arguments.append(TemplateArgument(type=self._number(argument, language)))
            else:
                try:
                    arguments.append(TemplateArgument(value=int(argument)))
                except (gdb.error, RuntimeError, TypeError, ValueError, OverflowError):
                    arguments.append(TemplateArgument())
        return arguments

    def by_name(self, name: str) -> Optional[int]:
        if name not in self._names:
            depth, self._depth = self._depth, 0
            try:
                found = {self._named(symbol, name) for symbol in self.type_symbols(name)} - {None}
            finally:
                self._depth = depth
            self._names[name] = found.pop() if len(found) == 1 else None
        return self._names[name]

    def _named(self, symbol: gdb.Symbol, name: str) -> Optional[int]:
        """The number of a symbol's type, if the type is complete and GDB has the right file."""
        if symbol.type is None or not self.believes(symbol.symtab):
            return None
        with suppress(gdb.error, RuntimeError):
            kind = self.plain(symbol.type)
            if FORMS.get(kind.code) in ("struct", "union", "enum") and kind.sizeof:
                return self._number(kind, _language(symbol.symtab), named=name)
        return None

    def type_symbols(self, name: str) -> Iterator[gdb.Symbol]:
        if name.startswith(NAMELESS_NAMESPACE) or f"::{NAMELESS_NAMESPACE}" in name:
            # each source file may have its own type of this name
            with suppress(gdb.error):
                yield from gdb.lookup_static_symbols(name, gdb.SYMBOL_STRUCT_DOMAIN)
        yield from _symbols_in(gdb.objfiles(), name)

    def classes_at(self, code: int) -> Sequence[int]:
        function: Optional[gdb.Symbol] = None
        with suppress(gdb.error, RuntimeError):
            block = gdb.block_for_pc(code)
            # the outermost function has the code; the others are inlined
            while block is not None and not block.is_static and not block.is_global:
                function = block.function or function
                block = block.superblock
            if function is not None and block is not None and self.believes(function.symtab):
                owner = spelled(within(function.name)[0])
                classes = self._classes_in(block.static_block, block.global_block)
                alike = classes.get(owner.partition("<")[0], ())
                found = {self._named(each, owner) for each in alike if spelled(each.name) == owner}
                return sorted(each for each in found if each is not None)
        return ()

    def _classes_in(self, *of_file: Optional[gdb.Block]) -> Mapping[str, Sequence[gdb.Symbol]]:
        """Classes by name without template arguments: methods and classes spell these differently."""
        blocks = [each for each in of_file if each is not None]
        key = tuple((each.start, each.end) for each in blocks)
        if key not in self._classes:
            known = self._classes[key] = defaultdict(list)
            for symbol in (symbol for block in blocks for symbol in block):
                if symbol.addr_class == gdb.SYMBOL_LOC_TYPEDEF:
                    known[symbol.name.partition("<")[0]].append(symbol)
        return self._classes[key]

    def pointer_to(self, type: int) -> int:
        known = self._known[type]
        return self._number(known.type.pointer(), known.language)

    def array_of(self, type: int, length: int) -> int:
        """Number of an array type with this many elements, for an array whose length only a process tells."""
        known = self._known[type]
        return self._number(known.type.target().array(length - 1), known.language)

    def structs(self, of_program: bool = False) -> Iterator[SizedStruct]:
        """Structs of all source files that have a function.

        Not by `info types`, which takes seconds. Nor by GDB/MI's list: GDB 13 writes a second one to the stream of the
        first, which may be closed.
        """
        found: set[int] = set()
        for blocks in self._source_files(of_program):
            # one question per file: each type is compared only once, although in CPython a hundred structs may have it
            # as a member
            with self._one_question():
                symbols = (each for block in blocks for each in block if each.addr_class == gdb.SYMBOL_LOC_TYPEDEF)
                numbers = dict.fromkeys(self._named(each, each.name) for each in symbols)
            for number in (each for each in numbers if each is not None and each not in found):
                if self._known[number].form in ("struct", "union"):
                    found.add(number)
                    yield SizedStruct(number, self._known[number].type.sizeof)

    def _source_files(self, of_program: bool) -> Iterator[Sequence[gdb.Block]]:
        """The global and static block of each source file."""
        seen: set[tuple[int, int]] = set()
        modules = modules_with_structs(self._target, of_program)
        for address in (address for region in modules for address in self._target.functions(region)):
            block = gdb.block_for_pc(address)
            if block is None or (block.global_block.start, block.global_block.end) in seen:
                continue
            seen.add((block.global_block.start, block.global_block.end))
            yield [each for each in (block.global_block, block.static_block) if each is not None]

    def without(self) -> Sequence[str]:
        described: set[Optional[str]] = set()
        for file in gdb.objfiles():
            if file.is_valid() and self._believes_file(file) and has_debug_information(file_name(file)):
                owner = file.owner or file
                described.update((getattr(file, "build_id", None), file_name(owner)))
        modules = ((region.path, build_id) for region, build_id in self._target.module_files())
        return [*dict.fromkeys(path for path, build_id in modules if not described & {build_id or path, path})]

    # trust in files

    def believes(self, symtab: Optional[gdb.Symtab]) -> bool:
        return symtab is not None and self._believes_file(symtab.objfile)

    def _believes_file(self, file: Optional[gdb.Objfile]) -> bool:
        """Whether this is the file that is in memory. Types without a file are the debugger's own."""
        if file is None:
            return True
        if file not in self._believed:
            build_id: Optional[str] = getattr(file, "build_id", None)
            is_there = build_id is None or self._target.is_mapped(build_id)
            self._believed[file] = self._target.is_believed(build_id) and is_there
        return self._believed[file]

    # numbers

    def number(self, type: gdb.Type, symtab: Optional[gdb.Symtab]) -> int:
        """The number of a type that a symbol of this source file has."""
        return self._number(type, _language(symtab))

    @contextmanager
    def _one_question(self) -> Iterator[None]:
        """Compares each type with similar ones only once within the block. Otherwise a struct with two members of a
        second struct, which has two of a third, would take 2^n comparisons."""
        before, self._alike = self._alike, {} if self._alike is None else self._alike
        try:
            yield
        finally:
            self._alike = before

    def _members(self, kind: gdb.Type) -> list[gdb.Field]:
        if self._members_left is None:
            sizes = (os.stat(file_name(each)).st_size for each in gdb.objfiles() if os.path.isfile(file_name(each)))
            self._members_left = MOST_MEMBERS + sum(sizes) // BYTES_PER_MEMBER
        if self._members_left < 0:
            raise Endless
        members = kind.fields()
        self._members_left -= 1 + len(members)
        return members

    def _number(self, type: gdb.Type, language: str, of: Optional[gdb.Type] = None, named: str = "") -> int:
        """The number of a type without its typedefs and const. `of`: a pointer to it, which tells its file: GDB
        completes declarations from other files."""
        if self._depth:
            return self._number_within(type, language, of, named)
        try:
            with self._one_question():
                return self._number_within(type, language, of, named)
        except Endless:
            # its contents stay unknown
            name = named or type.name or ""
            return self._add(("endless", name), _Known(type, name, "other", language, complete=False))

    def _number_within(self, type: gdb.Type, language: str, of: Optional[gdb.Type], named: str) -> int:
        if self._depth > DEEPEST:
            raise Endless
        self._depth += 1
        try:
            file = getattr(of or type, "objfile", None)
            declared, typedef = _without_typedefs(type)
            named = typedef or named
            kind = declared.strip_typedefs().unqualified()
            name = kind.name or ""
            if not name and FORMS.get(kind.code) in ("struct", "union", "enum"):
                # typedef struct { … } NAME
                name = named
            if len(name) > LONGEST_NAME:
                raise Endless
            is_completed = file is not getattr(kind, "objfile", None) and FORMS.get(kind.code) in ("struct", "union")
            if is_completed and name and self.by_name(name) is None:
                # completed from another module, while several modules have types of this name
                return self._add(("declared", name), _Known(declared, name, "struct", language, complete=False))
            return self._intern(kind, name, language)
        finally:
            self._depth -= 1

    def _intern(self, kind: gdb.Type, name: str, language: str) -> int:
        form = FORMS.get(kind.code, "other")
        if self._alike is None or form not in ("struct", "union"):
            return self._intern_anew(kind, name, form, language)
        alike = self._alike.setdefault((name, form, kind.sizeof), [])
        number = next((number for known, number in alike if known == kind), None)
        if number is None:
            number = self._intern_anew(kind, name, form, language)
            if len(alike) < MOST_ALIKE:
                alike.append((kind, number))
        return number

    def _intern_anew(self, kind: gdb.Type, name: str, form: Form, language: str) -> int:
        if form == "struct" and self._has_variants(kind):
            form = "union"
        if form == "integer" and kind.sizeof == 1 and name.endswith("char"):
            form = "character"
        if not self._believes_file(getattr(kind, "objfile", None)):
            return self._add(("strange", name), _Known(kind, name, form, language, complete=False))
        if form in ("struct", "union") and not kind.sizeof and name:
            complete = self.by_name(name)
            if complete is not None:
                return complete
        return self._add(self._key(kind, name, form, language), _Known(kind, name, form, language))

    def _add(self, key: Key, known: _Known) -> int:
        number = self._numbers.setdefault(key, len(self._known))
        if number == len(self._known):
            self._known.append(known)
        return number

    def _key(self, kind: gdb.Type, name: str, form: Form, language: str) -> Key:
        """The key that equal types share, whichever source file or module declares them."""
        if form in ("pointer", "reference"):
            return form, kind.code, self._number(kind.target(), language, of=kind)
        if form == "array":
            return form, self._number(kind.target(), language), _length(kind)
        if form == "function" or (not name and form == "other"):
            return form, str(kind) if self._parameters(kind, MOST_PARAMETERS) > 0 else ""
        if form == "enum":
            return form, name, kind.sizeof, tuple((each.name, each.enumval) for each in self._members(kind))
        if form in ("struct", "union"):
            # templates of several lambdas in a function have the same name
            arguments = self._arguments(kind, language) if LAMBDA in name else ()
            members = tuple(self._member_key(each, language) for each in self._members(kind))
            return form, name, kind.sizeof, members, tuple(arguments)
        return form, name, kind.sizeof

    def _member_key(self, field: gdb.Field, language: str) -> Key:
        place: Optional[int] = getattr(field, "bitpos", None)
        if place is None or field.type is None:
            return (field.name,)
        return field.name, place, field.bitsize, self._shape(field.type, language)

    def _shape(self, type: gdb.Type, language: str) -> Key:
        """A member's part of the key. A pointer's target counts by name alone: it may lead back to this type."""
        kind = self.plain(type)
        form = FORMS.get(kind.code)
        if form in ("pointer", "reference"):
            target = self.plain(kind.target())
            return kind.code, target.code, target.name, target.sizeof
        sizes: list[object] = []
        while form == "array":
            if len(sizes) > DEEPEST:
                raise Endless
            sizes.append(kind.sizeof)
            type = kind.target()
            kind = self.plain(type)
            form = FORMS.get(kind.code)
            if form in ("pointer", "reference"):
                return (*sizes, *self._shape(type, language))
        return (*sizes, self._number(type, language))

    @staticmethod
    def plain(type: gdb.Type) -> gdb.Type:
        """The type without typedefs. Raises Endless if these lead back to themselves: GDB would follow them forever."""
        return _without_typedefs(type)[0].strip_typedefs()

    def _parameters(self, kind: gdb.Type, most: int) -> int:
        """How many more parameters are allowed after this type's; 0 if it has too many."""
        left = most
        for _ in range(DEEPEST):
            if kind.name or not left:
                return left
            if kind.code in (gdb.TYPE_CODE_FUNC, gdb.TYPE_CODE_METHOD):
                for each in self._members(kind):
                    left = self._parameters(each.type, left - 1) if each.type is not None and left else left
            try:
                kind = kind.target()
            except RuntimeError:
                # it has no target
                return left
        return 0

    def _bits(self, kind: gdb.Type) -> Iterator[BitField]:
        for each in self._members(kind):
            place: Optional[int] = getattr(each, "bitpos", None)
            if place is not None and each.bitsize and each.name and each.type is not None:
                inner = self.plain(each.type)
                yield BitField(each.name, place, each.bitsize, inner.code == gdb.TYPE_CODE_INT and _is_signed(inner))

    def _is_polymorphic(self, kind: gdb.Type) -> bool:
        left, seen = [kind], set[tuple[Optional[str], int]]()
        while left:
            kind = left.pop()
            if (kind.name, kind.sizeof) in seen:
                continue
            seen.add((kind.name, kind.sizeof))
            members = self._members(kind)
            if any((each.name or "").startswith(("_vptr.", "_vptr$")) for each in members):
                return True
            left += [self.plain(each.type) for each in members if each.is_base_class and each.type is not None]
        return False

    def _has_variants(self, kind: gdb.Type) -> bool:
        """Whether it is a Rust enum: GDB makes it a struct whose members are all as large as the whole."""
        members = self._members(kind)
        whole = [each for each in members if getattr(each, "bitpos", None) == 0 and not each.is_base_class]
        structs = [each for each in whole if each.name and each.type and self.plain(each.type).sizeof == kind.sizeof]
        return len(structs) > 1 or (len(structs) == 1 and any(each.artificial and not each.name for each in whole))


def _without_typedefs(type: gdb.Type) -> tuple[gdb.Type, str]:
    """The type without typedefs and const, and the name of its innermost typedef."""
    named = ""
    for _ in range(MOST_TYPEDEFS):
        if type.code != gdb.TYPE_CODE_TYPEDEF:
            return type.unqualified(), named
        named = type.name or named
        type = type.target()
    raise Endless


def _symbols_in(files: Sequence[gdb.Objfile], name: str) -> Iterator[gdb.Symbol]:
    """Type symbols of this name, at most one static and one global per file, though several source files may have
    one."""
    for file in files:
        for lookup in (file.lookup_static_symbol, file.lookup_global_symbol):
            with suppress(gdb.error):
                symbol = lookup(name, gdb.SYMBOL_STRUCT_DOMAIN)
                if symbol is not None:
                    yield symbol


def _length(kind: gdb.Type) -> Optional[int]:
    each = GdbTypes.plain(kind.target()).sizeof
    if not kind.sizeof:
        # GDB 13 gives a flexible array the range (0, 0)
        return None if each else 0
    return kind.sizeof // each if each else None


def _is_signed(kind: gdb.Type) -> bool:
    told: Optional[bool] = getattr(kind, "is_signed", None)  # GDB 12
    return bool(gdb.Value(-1).cast(kind) < 0) if told is None else told


def file_name(of: Union[gdb.Objfile, gdb.Symtab]) -> str:
    """Empty if there is no name, or it is not UTF-8."""
    with suppress(UnicodeDecodeError):
        return of.filename or ""
    return ""


def _language(symtab: Optional[gdb.Symtab]) -> str:
    return language_of(getattr(symtab, "producer", None) or "", file_name(symtab)) if symtab is not None else ""
