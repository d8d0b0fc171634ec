"""LLDB as a TypeSource: reads the program's types from LLDB's debug information."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

import lldb

from arenascope.sources.debug_info_types import Form, SizedStruct, StructField, TemplateArgument, TypeFacts
from arenascope.sources.debugged_variables import WithVariables, modules_with_structs
from arenascope.sources.elf.debug_entries import DescribedClass, DescribedType
from arenascope.sources.elf.demangle import demangle
from arenascope.sources.type_spelling import LONGEST, literal, number_in, parts_of, spelled, within

if TYPE_CHECKING:
    # to mypy this folder is a part of LLDB's own package
    from lldb.heap_modules import DescribedModule
    from lldb.heap_target import LldbTarget
    from lldb.heap_variables import LldbVariables

MAX_ARGUMENTS = 64
DEEPEST = 60
"""How deeply types may be nested (types whose numbers need another type's number, pointers to pointers)."""
MOST_ALIKE = 500
"""Types of one name and size that a type is compared with."""
FORMS: Mapping[int, Form] = {
    lldb.eTypeClassStruct: "struct",
    lldb.eTypeClassClass: "struct",
    lldb.eTypeClassUnion: "union",
    lldb.eTypeClassArray: "array",
    lldb.eTypeClassVector: "array",
    lldb.eTypeClassPointer: "pointer",
    lldb.eTypeClassReference: "reference",
    lldb.eTypeClassEnumeration: "enum",
    lldb.eTypeClassFunction: "function",
}
CHARACTERS = ("char", "signed char", "unsigned char", "wchar_t", "char8_t", "char16_t", "char32_t")
NAMELESS = re.compile(r"\((?:unnamed|anonymous) (?:struct|class|union|enum)[^()]*\)$")
MADE_UP = re.compile(r"\bvoid\b|<>|\(unnamed |\(anonymous (?!namespace)|'lambda|\(lambda")
"""Marks in LLDB's names of types that have no name, or that it cannot read."""
OF_VOID = re.compile(r"<.*\bvoid\b")
OFTEN_OF_VOID = tuple(f"std::{name}" for name in ("allocator", "less", "equal_to", "shared_ptr", "weak_ptr", "hash"))

Key = tuple[object, ...]


class Endless(Exception):
    """A type whose name or number would take for ever."""


class _Known(NamedTuple):
    """A type that has a number."""

    type: lldb.SBType
    """Without const or typedefs. An SBType does not know its module."""
    module: DescribedModule
    name: str
    form: Form


class LldbTypes(WithVariables):
    """Reads the types of an LldbTarget, for one command."""

    def __init__(
        self,
        target: LldbTarget,
        variables: Callable[[LldbTarget, LldbTypes], LldbVariables],
        module: Callable[[lldb.SBModule], DescribedModule],
    ) -> None:
        self._target = target
        self._known: list[_Known] = []
        self._numbers: dict[Key, int] = {}
        self._shapes: dict[int, Key] = {}
        self._named: dict[Key, list[int]] = {}
        """Structs, unions and enums by form, name and size, which are quick to compare."""
        self._facts: dict[int, TypeFacts] = {}
        self._names: dict[str, Optional[int]] = {}
        self._several: set[str] = set()
        """Names that several types have."""
        self._made: set[int] = set()
        self._depth = 0
        """How deeply the type now being numbered is nested."""
        self._module = module
        self.read_here = ReadHere(target, self)
        self._variables = variables(target, self)

    @cached_property
    def modules(self) -> list[DescribedModule]:
        """Modules that LLDB describes. Rust's are left out: LLDB reads Rust as C++, without enums' variants and with
        other names."""
        modules = [self._module(each) for each in self._target.target.modules if self._target.believes(each)]
        return [each for each in modules if each.languages and "rust" not in each.languages]

    # types

    def facts(self, type: int) -> TypeFacts:
        if type not in self._facts:
            self._facts[type] = self._describe(self._known[type])
        return self._facts[type]

    def _describe(self, known: _Known) -> TypeFacts:
        kind, form = known.type, known.form
        facts = TypeFacts(known.name, form, kind.GetByteSize(), language=_language(known))
        if form in ("struct", "union"):
            if not facts.size and not kind.GetNumberOfFields():
                return facts
            fields = list(self._fields(known))
            return facts._replace(
                fields=[*fields, *self.read_here.left_out(kind, known.name, known.module, fields)],
                arguments=list(self._arguments(known)),
                polymorphic=kind.IsPolymorphicClass(),
                bits=list(known.module.bits(kind)),
            )
        if form in ("pointer", "reference"):
            return facts._replace(target=self._target_of(kind, known.module, form))
        if form == "array":
            target, length = self.number(_element(kind), known.module), _length(kind)
            # for int[] LLDB reports the size of one element
            return facts._replace(target=target, length=length, size=facts.size if length else 0)
        if form == "enum":
            values = dict(known.module.enumerators(kind))
            return facts._replace(enumerators=values, signed=any(value < 0 for value in values.values()))
        if form in ("integer", "character"):
            return facts._replace(signed=bool(kind.GetTypeFlags() & lldb.eTypeIsSigned))
        if form in ("function", "void"):
            return facts._replace(size=1)
        return facts

    def _fields(self, known: _Known) -> Iterator[StructField]:
        kind, module = known.type, known.module
        # a `void` here may stand for a type that LLDB cannot read
        is_doubtful = OF_VOID.search(_raw(kind)) is not None and "void" not in known.name
        virtual = {
            _raw(kind.GetVirtualBaseClassAtIndex(index).GetType())
            for index in range(kind.GetNumberOfVirtualBaseClasses())
        }
        for index in range(kind.GetNumberOfDirectBaseClasses()):
            base = kind.GetDirectBaseClassAtIndex(index)
            if _raw(base.GetType()) not in virtual:
                number = self.number(base.GetType(), module)
                yield StructField(self._known[number].name, base.GetOffsetInBytes(), number, True)
        for field in module.members(kind):
            number = self.number(field.GetType(), module)
            is_read = not is_doubtful or not self._leads_to_void(number)
            told = number if is_read else self.read_here.element_pointer(_raw(kind), module)
            if not field.IsBitfield() and told is not None:
                yield StructField(field.GetName() or "", field.GetOffsetInBytes(), told)

    def _leads_to_void(self, number: int) -> bool:
        facts = self.facts(number)
        return facts.form == "pointer" and facts.target is None

    def _arguments(self, known: _Known) -> Iterator[TemplateArgument]:
        kind = known.type
        parts, named = parts_of(_raw(kind)), parts_of(known.name)
        texts = parts.arguments if parts is not None else ()
        for index in range(min(kind.GetNumberOfTemplateArguments(), MAX_ARGUMENTS)):
            form = kind.GetTemplateArgumentKind(index)
            given = kind.GetTemplateArgumentType(index)
            if form == lldb.eTemplateArgumentKindType:
                # LLDB shows void for a type that it cannot read
                is_void = _form(given.GetCanonicalType()) == "void"
                told = named.arguments[index] if named is not None and index < len(named.arguments) else ""
                if is_void and told != "void":
                    yield TemplateArgument(type=self.read_here.named(told, known.module) if told else None)
                else:
                    yield TemplateArgument(type=self.number(given, known.module))
            elif form == lldb.eTemplateArgumentKindIntegral:
                yield TemplateArgument(value=_value(texts[index], given, known.module) if index < len(texts) else None)

    def by_name(self, name: str) -> Optional[int]:
        if name not in self._names:
            wanted = spelled(name)
            found = {number for number in self._alike(wanted) if self._known[number].name == wanted}
            if len(found) > 1:
                self._several.add(wanted)
            self._names[name] = found.pop() if len(found) == 1 else None
        return self._names[name]

    def has_several(self, name: str) -> bool:
        """Whether by_name() found nothing because several types have the name."""
        return spelled(name) in self._several

    def _alike(self, name: str) -> Iterator[int]:
        """Complete structs, unions and enums whose name is the same but for scope or arguments."""
        template, has_arguments, _ = name.partition("<")
        for module in self.modules:
            is_template = has_arguments and parts_of(name) is not None
            kinds = module.templates.get(template, ()) if is_template else module.module.FindTypes(within(name)[1])
            for each in kinds:
                kind = each.GetCanonicalType()
                if _form(kind) in ("struct", "union", "enum") and kind.GetByteSize():
                    yield self.number(kind, module)

    def classes_at(self, code: int) -> Sequence[int]:
        """The class of the method at `code`. LLDB has no way from a method to its class, so `this` tells it; for a
        static method, the lambda in its name."""
        address = self._target.target.ResolveLoadAddress(code)
        function, symbol = address.GetFunction(), address.GetSymbol()
        # LLDB 16 does not find functions whose cold part lies elsewhere
        begins = function.IsValid() and symbol.GetStartAddress() == address
        for module in (each for each in self.modules if begins and each.module == address.GetModule()):
            this = module.this_of(function, self._target.target)
            if this is None:
                return self._with_lambda(demangle(symbol.GetMangledName() or ""), address, module)
            number = self.number(this, module)
            if self._known[number].name:
                return [number]
            name = spelled(within(function.GetName() or "")[0])
            return [self._add(("of a method", number, name), self._known[number]._replace(name=name))]
        return ()

    def _with_lambda(self, symbol: str, address: lldb.SBAddress, module: DescribedModule) -> Sequence[int]:
        """A class template whose last argument is a lambda. Its other arguments stay unknown."""
        name = spelled(within(symbol)[0])
        parts = parts_of(name)
        closure = module.closure(parts.arguments[-1], address, self._target) if parts and parts.arguments else None
        if parts is None or closure is None:
            return ()
        held = self.number(closure, module)
        number = self._add(("with a lambda", name, held), _Known(closure, module, name, "struct"))
        arguments = [*[TemplateArgument()] * (len(parts.arguments) - 1), TemplateArgument(type=held)]
        self._facts[number] = TypeFacts(name, "struct", 1, arguments=arguments)
        return [number]

    def pointer_to(self, type: int) -> int:
        known = self._known[type]
        kind = known.type.GetPointerType()
        if type not in self._made:
            return self.number(kind, known.module)
        number = self._add(("pointer", False, type), _Known(kind, known.module, "", "pointer"))
        self._facts[number] = TypeFacts("", "pointer", kind.GetByteSize(), target=type)
        return number

    def reference_to(self, type: int) -> int:
        return self.number(self._known[type].type.GetReferenceType(), self._known[type].module)

    def add_class(self, facts: TypeFacts, module: DescribedModule) -> int:
        """Adds a class that LLDB cannot read."""
        void = module.module.GetBasicType(lldb.eBasicTypeVoid)
        number = self._add(("read here", len(self._known)), _Known(void, module, facts.name, "struct"))
        self._made.add(number)
        self._facts[number] = facts
        return number

    def set_facts(self, number: int, facts: TypeFacts) -> None:
        self._facts[number] = facts

    def structs(self, of_program: bool = False) -> Iterator[SizedStruct]:
        asked = {each.start for each in modules_with_structs(self._target, of_program)}
        others, told = {region.start for region, _ in self._target.module_files()} - asked, set[int]()
        for module in (each for each in self.modules if self._target.start_of(each.module) not in others):
            # skip types without a name: LLDB lists them once per source file, tens of thousands in CPython
            listed = module.structs(with_typedefs=of_program)
            for each in (each for each in listed if not NAMELESS.search(each.GetName() or "")):
                is_struct = _form(each.GetCanonicalType()) in ("struct", "union") and each.GetByteSize()
                number = self.number(each, module) if is_struct else -1
                if number not in told and number >= 0 and self._known[number].name:
                    told.add(number)
                    yield SizedStruct(number, each.GetByteSize())

    def without(self) -> Sequence[str]:
        modules = [each.module for each in self.modules]
        described = {self._target.build_id_of(each) or each.GetFileSpec().fullpath for each in modules}
        files = ((region.path, build_id) for region, build_id in self._target.module_files())
        return [*dict.fromkeys(path for path, build_id in files if (build_id or path) not in described)]

    # numbers

    def number(self, type: lldb.SBType, module: DescribedModule) -> int:
        """The number of a type without its typedefs and const."""
        if self._depth:
            return self._number_within(type, module)
        try:
            return self._number_within(type, module)
        except Endless:
            number = self._add(("endless",), _Known(type, module, "", "other"))
            self._facts[number] = TypeFacts("", "other", 0)
            return number

    def _number_within(self, type: lldb.SBType, module: DescribedModule) -> int:
        if self._depth > DEEPEST:
            raise Endless
        self._depth += 1
        try:
            return self._number_of(type.GetCanonicalType().GetUnqualifiedType(), module)
        finally:
            self._depth -= 1

    def _number_of(self, kind: lldb.SBType, module: DescribedModule) -> int:
        form = _form(kind)
        if form in ("struct", "union", "enum"):
            return self._number_of_named(kind, module, form)
        if module.has_endless_name(kind):
            raise Endless
        raw = _raw(kind)
        if form in ("pointer", "reference"):
            key: Key = form, raw.endswith("&&"), self._target_of(kind, module, form)
        elif form == "array":
            key = form, self.number(_element(kind), module), _length(kind)
        else:
            key = form, raw, kind.GetByteSize()
        has_name = kind.GetTypeClass() in (lldb.eTypeClassBuiltin, lldb.eTypeClassComplexFloat)
        return self._add(key, _Known(kind, module, spelled(raw) if has_name else "", form))

    def _target_of(self, kind: lldb.SBType, module: DescribedModule, form: Form) -> Optional[int]:
        target = kind.GetPointeeType() if form == "pointer" else kind.GetDereferencedType()
        return None if _form(target.GetCanonicalType()) == "void" else self.number(target, module)

    def _number_of_named(self, kind: lldb.SBType, module: DescribedModule, form: Form) -> int:
        """One number for all types of the same name and layout, whichever source file or module declares them."""
        if form != "enum" and not kind.GetByteSize() and not kind.GetNumberOfFields():
            return self._number_of_incomplete(kind, module, form)
        raw = _raw(kind)
        if len(raw) > LONGEST:
            # a template's doubles with each level of its arguments
            raise Endless
        known = self._named.setdefault((form, raw, kind.GetByteSize()), [])
        for number in known:
            if self._known[number].type == kind:
                return number
        name, shape = self._name(kind, module), module.shape_of(kind)
        # types without a name are equal only if LLDB says so
        for number in known if name else ():
            if self._shapes[number] == shape and self._known[number].name == name:
                return number
        number = self._add((form, len(self._known)), _Known(kind, module, name, form))
        self._shapes[number] = shape
        if len(known) < MOST_ALIKE:
            known.append(number)
        return number

    def _number_of_incomplete(self, kind: lldb.SBType, module: DescribedModule, form: Form) -> int:
        raw = _raw(kind)
        name = "" if NAMELESS.search(raw) else spelled(raw)
        complete = self.by_name(name) if name else None
        return self._add((form, raw), _Known(kind, module, name, form)) if complete is None else complete

    def _add(self, key: Key, known: _Known) -> int:
        number = self._numbers.setdefault(key, len(self._known))
        if number == len(self._known):
            self._known.append(known)
        return number

    # names

    def _name(self, kind: lldb.SBType, module: DescribedModule) -> str:
        """The name as symbols have it; "" if there is none, or LLDB made it up."""
        raw = _raw(kind)
        if NAMELESS.search(raw) or module.is_nameless(kind, raw):
            return ""
        parts = parts_of(raw)
        if parts is None:
            return "" if "<" in raw and MADE_UP.search(raw) else spelled(raw)
        told = module.named_by_methods(kind, raw)
        if told is not None and not MADE_UP.search(raw):
            return told
        arguments = self._texts_of(kind, parts.arguments, module)
        if told is not None and all(arguments):
            return told
        # LLDB omits an argument that it cannot read, or shows void for it
        is_doubtful = "void" in parts.arguments and parts.template not in OFTEN_OF_VOID
        if is_doubtful or not all(arguments) or (not parts.arguments and not module.has(kind, raw)):
            return ""
        return f"{spelled(parts.template)}<{', '.join(arguments)}>"

    def _texts_of(self, kind: lldb.SBType, texts: Sequence[str], module: DescribedModule) -> list[str]:
        """A template's arguments as symbols spell them: "(Color)5", where LLDB has the enumerator's name."""
        if kind.GetNumberOfTemplateArguments() != len(texts):
            return [spelled(each) for each in texts]
        found = []
        for index, text in enumerate(texts):
            form, given = kind.GetTemplateArgumentKind(index), kind.GetTemplateArgumentType(index)
            value = _value(text, given, module) if form == lldb.eTemplateArgumentKindIntegral else None
            if value is not None:
                text = literal(spelled(_raw(given.GetCanonicalType())), value)
            elif form == lldb.eTemplateArgumentKindType:
                text = self._text_of(given, text, module)
            found.append(spelled(text))
        return found

    def _text_of(self, type: lldb.SBType, text: str, module: DescribedModule) -> str:
        kind = type.GetCanonicalType()
        while _form(kind) in ("pointer", "reference"):
            kind = kind.GetPointeeType() if _form(kind) == "pointer" else kind.GetDereferencedType()
        kind = kind.GetUnqualifiedType()
        if _form(kind) not in ("struct", "union"):
            return text
        name = self._known[self.number(kind, module)].name
        return text.replace(_raw(kind), name) if name else ""


def _language(known: _Known) -> str:
    languages, is_cplusplus = known.module.languages, "::" in known.name or "<" in known.name
    return "c++" if is_cplusplus else next(iter(languages)) if len(languages) == 1 else ""


def _raw(kind: lldb.SBType) -> str:
    return kind.GetName() or ""


def _form(kind: lldb.SBType) -> Form:
    number = kind.GetTypeClass()
    if number != lldb.eTypeClassBuiltin:
        return FORMS.get(number, "other")
    name, flags = _raw(kind.GetUnqualifiedType()), kind.GetTypeFlags()
    if name == "void":
        return "void"
    if name in ("bool", "_Bool"):
        return "boolean"
    if name in CHARACTERS:
        return "character"
    if flags & lldb.eTypeIsFloat:
        return "float"
    return "integer" if flags & lldb.eTypeIsInteger else "other"


def _element(kind: lldb.SBType) -> lldb.SBType:
    is_vector = kind.GetTypeClass() == lldb.eTypeClassVector
    return kind.GetVectorElementType() if is_vector else kind.GetArrayElementType()


def _length(kind: lldb.SBType) -> Optional[int]:
    element = _element(kind)
    if _raw(kind).count("[]") > _raw(element).count("[]") or not element.GetByteSize():
        return None
    return kind.GetByteSize() // element.GetByteSize() or None


def _value(text: str, of: lldb.SBType, module: DescribedModule) -> Optional[int]:
    kind = of.GetCanonicalType()
    return number_in(text, dict(module.enumerators(kind)) if _form(kind) == "enum" else {})


GAP = 8
"""A gap of so many bytes between members may hide a member that LLDB cannot read."""
VECTOR, ALLOCATOR = "std::_Vector_base", "std::allocator"


class ReadHere:
    """Describes classes of an LldbTarget, for one command."""

    def __init__(self, target: LldbTarget, types: LldbTypes) -> None:
        self._target = target
        self._types = types
        self._classes: dict[tuple[str, int], int] = {}

    def named(self, name: str, module: DescribedModule) -> Optional[int]:
        """The number of a type by name, even if LLDB cannot read it."""
        number = self._types.by_name(name)
        return self._class(spelled(name), module) if number is None and not self._types.has_several(name) else number

    def by_parts(self, type: DescribedType, module: DescribedModule) -> Optional[int]:
        """The number of a type with its pointers and references."""
        number = self.named(type.name, module)
        if number is None:
            void = module.module.GetBasicType(lldb.eBasicTypeVoid)
            plain = [void] if type.name == "void" else module.module.FindTypes(type.name)
            builtin = (each for each in plain if each.GetTypeClass() == lldb.eTypeClassBuiltin)
            number = next((self._types.number(each, module) for each in builtin), None)
        for mark in type.marks:
            if number is not None:
                number = self._types.pointer_to(number) if mark == "*" else self._types.reference_to(number)
        return number

    def left_out(
        self, kind: lldb.SBType, name: str, module: DescribedModule, fields: Sequence[StructField]
    ) -> list[StructField]:
        """Members of a class that LLDB 22 omits from its fields."""
        size, start = kind.GetByteSize(), 0
        found: list[StructField] = []
        if "<" not in name or kind.GetNumberOfVirtualBaseClasses():
            return found
        whole = ((each.offset, self._types.facts(each.type)) for each in fields)
        places = [(offset, offset + each.size) for offset, each in whole if each.size > 1 or each.form != "struct"]
        for offset, end in (*sorted(places), (size, size)):
            told = self._described(name, module) if offset - start >= GAP else None
            for each in self._members_of(told, module) if told is not None and told.size == size else ():
                ends = each.offset + self._types.facts(each.type).size
                if start <= each.offset and ends <= offset and each not in fields:
                    found.append(each)
            start = max(start, end)
        return found

    def element_pointer(self, name: str, module: DescribedModule) -> Optional[int]:
        """The type of a vector's pointers to its elements, where LLDB shows void*: found by the name of a class within
        std::_Vector_base."""
        parts = parts_of(within(name)[0])
        allocator = parts_of(parts.arguments[-1]) if parts is not None and parts.template == VECTOR else None
        if parts is None or allocator is None or allocator.template != ALLOCATOR or parts.arguments[0] != "void":
            return None
        element = self.named(allocator.arguments[0], module)
        return self._types.pointer_to(element) if element is not None else None

    def _class(self, name: str, module: DescribedModule) -> Optional[int]:
        """An instance of a class template for which LLDB has another instance."""
        key = name, self._target.start_of(module.module)
        told = self._described(name, module) if key not in self._classes and parts_of(name) is not None else None
        if told is not None:
            facts = TypeFacts(name, "struct", told.size, language="c++")
            # add it before its members: they may refer to it
            number = self._classes[key] = self._types.add_class(facts, module)
            fields = list(self._members_of(told, module))
            of_bases = any(each.is_base and self._types.facts(each.type).polymorphic for each in fields)
            is_polymorphic = of_bases or any(each.name.startswith("_vptr") for each in fields)
            self._types.set_facts(number, facts._replace(fields=fields, polymorphic=is_polymorphic))
        return self._classes.get(key)

    def _members_of(self, told: DescribedClass, module: DescribedModule) -> Iterator[StructField]:
        for each in told.members:
            number = self.by_parts(each.type, module)
            if number is not None:
                name = self._types.facts(number).name if each.is_base else each.name
                yield StructField(name, each.offset, number, each.is_base)

    def _described(self, name: str, module: DescribedModule) -> Optional[DescribedClass]:
        return self._target.described_class(name, self._target.start_of(module.module))
