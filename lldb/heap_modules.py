"""A module as LLDB's debug information describes it."""

from __future__ import annotations

from functools import cached_property
from typing import Mapping, Sequence

import lldb

from arenascope.sources.type_spelling import spelled, within

UNITS_ASKED = 64
"""So many source files of a module tell its languages."""
STRUCTS = lldb.eTypeClassStruct | lldb.eTypeClassClass | lldb.eTypeClassUnion
C = (lldb.eLanguageTypeC, lldb.eLanguageTypeC89, lldb.eLanguageTypeC99, lldb.eLanguageTypeC11)


class DescribedModule:
    """One that has debug information of what is in memory."""

    def __init__(self, module: lldb.SBModule) -> None:
        self.module = module

    @cached_property
    def languages(self) -> set[str]:
        count = min(self.module.GetNumCompileUnits(), UNITS_ASKED)
        return {_language_of(self.module.GetCompileUnitAtIndex(index)) for index in range(count)}

    @cached_property
    def units(self) -> Mapping[str, Sequence[lldb.SBCompileUnit]]:
        """By the source file's name, without folders."""
        found: dict[str, list[lldb.SBCompileUnit]] = {}
        for index in range(self.module.GetNumCompileUnits()):
            unit = self.module.GetCompileUnitAtIndex(index)
            found.setdefault(unit.GetFileSpec().basename or "", []).append(unit)
        return found

    @cached_property
    def templates(self) -> Mapping[str, Sequence[lldb.SBType]]:
        """By their names up to the arguments: FindTypes finds none that has an enumerator among them."""
        table: dict[str, list[lldb.SBType]] = {}
        # to list all of C's takes long, and there are none
        for kind in self.module.GetTypes(STRUCTS) if self.languages != {"c"} else ():
            template, has_arguments, _ = (kind.GetName() or "").partition("<")
            if has_arguments:
                table.setdefault(template, []).append(kind)
        return table

    def has(self, kind: lldb.SBType, name: str) -> bool:
        """Whether it is by this name in the debug information itself."""
        own = within(name)[1]
        return any(
            each.GetCanonicalType() == kind and each.GetTypeClass() & (STRUCTS | lldb.eTypeClassEnumeration)
            for text in (own, spelled(own).replace(">>", "> >"))
            for each in self.module.FindTypes(text)
        )


def _language_of(unit: lldb.SBCompileUnit) -> str:
    number = unit.GetLanguage()
    if number in C:
        return "c"
    name: str = lldb.SBLanguageRuntime.GetNameForLanguageType(number) or ""
    return "rust" if name == "rust" else "c++" if name.startswith("c++") else "c" if name.startswith("c") else ""
