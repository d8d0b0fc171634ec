"""Describes classes that LLDB cannot read or find, from the DWARF that arenascope reads itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, Optional, Sequence

import lldb

from arenascope.sources.debug_info_types import StructField, TypeFacts
from arenascope.sources.elf.debug_entries import DescribedClass, DescribedType
from arenascope.sources.type_spelling import parts_of, spelled, within

if TYPE_CHECKING:
    # to mypy this folder is a part of LLDB's own package
    from lldb.heap_modules import DescribedModule
    from lldb.heap_target import LldbTarget
    from lldb.heap_types import LldbTypes

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
