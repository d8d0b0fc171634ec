"""An image as a Target without a debugger, for the shell door: symbols come from libc's debug file."""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Optional, Sequence

from ..base.errors import ArenascopeError, UsageError
from .elf.address_names import DEBUG_FOLDERS
from .elf.elf_file import find_symbols
from .image_files import ImageTarget, Source
from .target import Region, StructInfo, Symbol, ThreadInfo

if TYPE_CHECKING:
    from .types_by_engine import TypesByEngine

EXPORTED = ("__curbrk",)
WANTED = ("main_arena", "mp_", "global_max_fast", "perturb_byte", *EXPORTED)


class ShellTarget(ImageTarget):
    """A core, or a process that runs on."""

    door = "shell"

    def __init__(
        self,
        image: Source,
        folders: Sequence[str] = (),
        symbols: bool = True,
        sysroot: Optional[str] = None,
        declared: Optional[bool] = False,
    ) -> None:
        """Without `symbols`, only names exported by the files themselves are known. `declared`: whether types are read
        from debug information; None: unless there is too much of it."""
        super().__init__(image, [*folders, *DEBUG_FOLDERS] if symbols else (), sysroot)
        self.symbols_from = (folders, symbols, sysroot, declared)
        """Another image of the same process, whose symbols this one uses."""
        self._use_symbols = symbols
        self._reads_types = symbols and declared is not False
        self.debug_folders: Sequence[str] = [
            *self._folders,
            *([sysroot + folder for folder in DEBUG_FOLDERS] if sysroot else []),
        ]
        self._symbols: Optional[dict[str, Symbol]] = None
        self._regions: Optional[Sequence[Region]] = None

    @cached_property
    def types(self) -> Optional[TypesByEngine]:
        if not self._reads_types:
            return None
        from .types_by_engine import DEFAULT_BYTES, TypesByEngine  # needed by few commands

        *_, declared = self.symbols_from
        return TypesByEngine(self, self.debug_folders, None if declared else DEFAULT_BYTES)

    def regions(self) -> Sequence[Region]:
        if self._regions is None:
            self._regions = super().regions()
        return self._regions

    def symbol(self, name: str) -> Optional[Symbol]:
        if self._symbols is None:
            self._symbols = self._load_symbols()
        return self._symbols.get(name)

    def _load_symbols(self) -> dict[str, Symbol]:
        """Loads symbols of the first module that has main_arena: libc by its debug file, a static program by its own
        table.

        If none has it, the first libc's exports still help.
        """
        best: dict[str, Symbol] = {}
        for region in self.regions():
            if not region.is_file or region.offset:
                continue
            name = os.path.basename(region.path)
            if not (name.startswith(("libc.so", "libc-2.")) or region is self._program()):
                continue
            symbols = self._symbols_of(region)
            if "main_arena" in symbols:
                return symbols
            best = best or symbols
        return best

    def _program(self) -> Optional[Region]:
        return next((region for region in self.regions() if region.is_file), None)

    def _symbols_of(self, region: Region) -> dict[str, Symbol]:
        wanted = WANTED if self._use_symbols else EXPORTED
        for file in self._files(region):
            bias = region.start - file.first_address
            try:
                symbols = find_symbols(file, wanted)
            except ArenascopeError:
                continue
            if symbols:
                build_id = file.build_id()
                return {name: Symbol(entries[0].value + bias, build_id) for name, entries in symbols.items()}
        return {}

    def symbol_files(self, region: Region, build_id: str) -> Sequence[str]:
        return super().symbol_files(region, build_id) if self._use_symbols else ()

    def struct(self, name: str) -> Optional[StructInfo]:
        return None

    def thread_local(self, name: str, thread: ThreadInfo) -> Optional[int]:
        return None

    def evaluate(self, expression: str) -> int:
        try:
            return sum(int(term.replace(" ", ""), 0) for term in re.findall(r"[+-]?[^+-]+", expression) or [expression])
        except ValueError:
            raise UsageError(f"{expression!r} is no address", "write it as 0x7f12a4000030") from None
