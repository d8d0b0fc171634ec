"""Reads one module's types and functions from LLDB's debug information."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Iterator, Mapping, Optional, Sequence

import lldb

from arenascope.sources.debug_info_types import BitField
from arenascope.sources.elf.demangle import demangle
from arenascope.sources.type_spelling import parts_of, spelled, within

if TYPE_CHECKING:
    # to mypy this folder is a part of LLDB's own package
    from lldb.heap_target import LldbTarget

METHODS_ASKED = 8
MOST_PARAMETERS = 300
"""The most parameters of a function type, nested ones included: LLDB's name for it contains them all."""
DEEPEST = 100
"""How deeply pointers may be nested."""
UNITS_ASKED = 64
"""How many source files to check for the module's languages."""
STRUCTS = lldb.eTypeClassStruct | lldb.eTypeClassClass | lldb.eTypeClassUnion
CLOSURE = "Ul"
"""The mark of a lambda in mangled names."""
C = (lldb.eLanguageTypeC, lldb.eLanguageTypeC89, lldb.eLanguageTypeC99, lldb.eLanguageTypeC11)


class DescribedModule:
    """A module whose debug information matches what is in memory."""

    def __init__(self, module: lldb.SBModule) -> None:
        self.module = module
        self._closures: Optional[dict[tuple[str, str], list[lldb.SBType]]] = None
        """By source file and name: lambdas of two files may have the same name."""

    @cached_property
    def languages(self) -> set[str]:
        count = min(self.module.GetNumCompileUnits(), UNITS_ASKED)
        return {_language_of(self.module.GetCompileUnitAtIndex(index)) for index in range(count)}

    @cached_property
    def units(self) -> Mapping[str, Sequence[lldb.SBCompileUnit]]:
        """Compile units by the source file's name, without folders."""
        found: dict[str, list[lldb.SBCompileUnit]] = {}
        for index in range(self.module.GetNumCompileUnits()):
            unit = self.module.GetCompileUnitAtIndex(index)
            found.setdefault(unit.GetFileSpec().basename or "", []).append(unit)
        return found

    def structs(self, with_typedefs: bool) -> Sequence[lldb.SBType]:
        """Structs and unions. With `with_typedefs` also those that only a typedef names, once per name and size: LLDB
        lists them again for each source file."""
        typedefs = self.module.GetTypes(lldb.eTypeClassTypedef) if with_typedefs else ()
        apart = {(each.GetName(), each.GetByteSize()): each for each in typedefs}
        return [*self.module.GetTypes(STRUCTS), *apart.values()]

    @cached_property
    def templates(self) -> Mapping[str, Sequence[lldb.SBType]]:
        """Class templates' instances by name without arguments: FindTypes misses those with an enumerator as
        argument."""
        table: dict[str, list[lldb.SBType]] = {}
        # C has none, and listing all its structs takes long
        for kind in self.module.GetTypes(STRUCTS) if self.languages != {"c"} else ():
            template, has_arguments, _ = (kind.GetName() or "").partition("<")
            if has_arguments:
                table.setdefault(template, []).append(kind)
        return table

    def is_nameless(self, kind: lldb.SBType, raw: str) -> bool:
        """Whether it is a lambda, which LLDB names after a typedef such as std::remove_reference's `type`."""
        methods = (kind.GetMemberFunctionAtIndex(index) for index in range(kind.GetNumberOfMemberFunctions()))
        is_callable = any(each.GetName() == "operator()" for each in methods)
        return is_callable and not raw.endswith(">") and not self.has(kind, raw)

    def named_by_methods(self, kind: lldb.SBType, raw: str) -> Optional[str]:
        """The class's name according to its methods' symbols, if it is the same name with more arguments."""
        for index in range(min(kind.GetNumberOfMemberFunctions(), METHODS_ASKED)):
            mangled = kind.GetMemberFunctionAtIndex(index).GetMangledName() or ""
            readable = demangle(mangled)
            told = spelled(within(readable)[0]) if readable != mangled else ""
            if told and _is_longer(told, raw):
                return told
        return None

    def this_of(self, function: lldb.SBFunction, target: lldb.SBTarget) -> Optional[lldb.SBType]:
        """The type of `this` in a function; None if it is no method, or static."""
        given = _arguments(function.GetBlock(), target)
        return next((kind.GetPointeeType() for name, kind in given if name == "this"), None)

    def closure(self, name: str, beside: lldb.SBAddress, target: LldbTarget) -> Optional[lldb.SBType]:
        """A lambda's type, by its name in symbols and the source file of the function at `beside`.

        Types of functions are no help: LLDB merges templates of lambdas that are spelled alike.
        """
        if self._closures is None:
            self._closures = {}
            for owner, start in _of_lambdas(beside, target):
                place, parts = target.target.ResolveLoadAddress(start), parts_of(owner)
                given = _called_on(place, target.target) if parts is None else _handed_on(place, target.target)
                own = owner if parts is None else parts.arguments[-1]
                known = self._closures.setdefault((_unit_of(place), own), [])
                known += [each for each in given if each not in known]
        found = self._closures.get((_unit_of(beside), name), ())
        return found[0] if len(found) == 1 else None

    def has(self, kind: lldb.SBType, name: str) -> bool:
        """Whether the debug information itself has the type under this name."""
        own = within(name)[1]
        return any(
            each.GetCanonicalType() == kind and each.GetTypeClass() & (STRUCTS | lldb.eTypeClassEnumeration)
            for text in (own, spelled(own).replace(">>", "> >"))
            for each in self.module.FindTypes(text)
        )

    # one type at a time

    @staticmethod
    def members(kind: lldb.SBType) -> Sequence[lldb.SBTypeMember]:
        return [kind.GetFieldAtIndex(index) for index in range(kind.GetNumberOfFields())]

    @staticmethod
    def enumerators(kind: lldb.SBType) -> Iterator[tuple[str, int]]:
        members = kind.GetEnumMembers()
        # LLDB 16 and later
        integer = kind.GetEnumerationIntegerType() if hasattr(kind, "GetEnumerationIntegerType") else None
        is_signed = integer is None or bool(integer.GetCanonicalType().GetTypeFlags() & lldb.eTypeIsSigned)
        for index in range(members.GetSize()):
            each = members.GetTypeEnumMemberAtIndex(index)
            yield each.GetName() or "", each.GetValueAsSigned() if is_signed else each.GetValueAsUnsigned()

    def bits(self, kind: lldb.SBType) -> Iterator[BitField]:
        for each in (field for field in self.members(kind) if field.IsBitfield() and field.GetName()):
            is_signed = bool(each.GetType().GetCanonicalType().GetTypeFlags() & lldb.eTypeIsSigned)
            yield BitField(each.GetName() or "", each.GetOffsetInBits(), each.GetBitfieldSizeInBits(), is_signed)

    def shape_of(self, kind: lldb.SBType) -> tuple[object, ...]:
        """The layout that two declarations of the same type share."""
        bases = [kind.GetDirectBaseClassAtIndex(index) for index in range(kind.GetNumberOfDirectBaseClasses())]
        members = []
        for each in (*bases, *self.members(kind)):
            of = each.GetType().GetCanonicalType()
            own = each.GetName(), each.GetOffsetInBits(), each.GetBitfieldSizeInBits()
            name = "" if self.has_endless_name(of) else of.GetName() or ""
            members.append((*own, name, of.GetByteSize()))
        return (*members, *self.enumerators(kind))

    @staticmethod
    def has_endless_name(kind: lldb.SBType) -> bool:
        """Whether it is, or leads to, a function type with too many parameters that are functions themselves."""
        return not _parameters_left(kind, MOST_PARAMETERS)


def _parameters_left(kind: lldb.SBType, left: int) -> int:
    """How many more parameters are allowed after this type's; 0 if it has too many."""
    for _ in range(DEEPEST):
        kind = kind.GetCanonicalType()
        form = kind.GetTypeClass()
        if form == lldb.eTypeClassPointer:
            kind = kind.GetPointeeType()
        elif form == lldb.eTypeClassReference:
            kind = kind.GetDereferencedType()
        elif form == lldb.eTypeClassArray:
            kind = kind.GetArrayElementType()
        elif form == lldb.eTypeClassFunction:
            given = kind.GetFunctionArgumentTypes()
            for index in range(given.GetSize()):
                left = _parameters_left(given.GetTypeAtIndex(index), left - 1) if left else 0
            kind = kind.GetFunctionReturnType()
        else:
            return left
        if not left:
            return 0
    return 0


def _is_longer(told: str, raw: str) -> bool:
    """Whether it is the same name with arguments that LLDB omits."""
    own, parts = parts_of(told), parts_of(raw)
    if own is None or parts is None or spelled(parts.template) != own.template or not own.arguments:
        return False
    return len(own.arguments) > len(parts.arguments) or "void" not in own.arguments


def _of_lambdas(beside: lldb.SBAddress, target: LldbTarget) -> Iterator[tuple[str, int]]:
    """Class name and address of each lambda's operator(), and of std::function's functions that call one."""
    start = beside.GetLoadAddress(target.target)
    for method in ("operator()(", "_M_invoke("):
        mangled = "_cl" if method == "operator()(" else "9_M_invokeE"
        # some versions or builds of LLDB find these symbols only by name
        for symbol in target.symbols_with(mangled, start):
            owner, own = within(demangle(symbol.text)) if CLOSURE in symbol.text else ("", "")
            if own.startswith(method):
                yield spelled(owner), symbol.value


def _unit_of(place: lldb.SBAddress) -> str:
    return place.GetCompileUnit().GetFileSpec().fullpath or ""


def _called_on(place: lldb.SBAddress, target: lldb.SBTarget) -> list[lldb.SBType]:
    """The class of a lambda whose operator() is at `place`."""
    given = _arguments(place.GetFunction().GetBlock(), target)
    return [_plain(kind.GetPointeeType()) for name, kind in given if name in ("__closure", "this")]


def _handed_on(place: lldb.SBAddress, target: lldb.SBTarget) -> list[lldb.SBType]:
    """The argument that std::function's _M_invoke passes to __invoke_r, which is inlined into it."""
    found = []
    block = place.GetFunction().GetBlock().GetFirstChild()
    while block.IsValid():
        given = _arguments(block, target)
        found += [_plain(kind.GetDereferencedType()) for name, kind in given if name in ("__fn", "__f")]
        block = block.GetSibling()
    return found


def _arguments(block: lldb.SBBlock, target: lldb.SBTarget) -> Iterator[tuple[str, lldb.SBType]]:
    for each in block.GetVariables(target, True, False, False):
        # LLDB 22 crashes when it makes synthetic children for a type that it cannot read
        value = each.GetStaticValue().GetNonSyntheticValue()
        yield value.GetName() or "", value.GetType()


def _plain(kind: lldb.SBType) -> lldb.SBType:
    return kind.GetCanonicalType().GetUnqualifiedType()


def _language_of(unit: lldb.SBCompileUnit) -> str:
    number = unit.GetLanguage()
    if number in C:
        return "c"
    name: str = lldb.SBLanguageRuntime.GetNameForLanguageType(number) or ""
    return "rust" if name == "rust" else "c++" if name.startswith("c++") else "c" if name.startswith("c") else ""
