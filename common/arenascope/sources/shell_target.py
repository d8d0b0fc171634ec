"""Images as Targets, for the shell door: symbols out of libc's debug file, no debugger.

What processes and cores have in common; each has a file of its own, as a look needs but one of them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Mapping, Optional, Sequence, Union

from ..errors import ArenascopeError, UsageError
from ..memory import Fill
from ..target import MappingUse, Region, Residency, StructInfo, Symbol, ThreadInfo
from .elf.file import ElfFile, module_build_id
from .elf.machines import machine_name
from .elf.naming import DEBUG_FOLDERS, Naming, files_of
from .elf.symbols import find_symbols

if TYPE_CHECKING:
    from .core.image import CoreImage
    from .live.process import ProcessImage

    Image = Union[ProcessImage, CoreImage]

EXPORTED = ("__curbrk",)
WANTED = ("main_arena", "mp_", *EXPORTED)


class ShellTarget:
    """What both kinds of image have in common."""

    door = "shell"

    def __init__(self, image: Image, kind: str, folders: Sequence[str]) -> None:
        self.image = image
        self.kind = kind
        self.pid: Optional[int] = image.pid
        self.pointer_size = image.pointer_size
        self.byte_order = image.byte_order
        self.page_size = image.page_size
        self.machine = machine_name(image.machine, image.pointer_size)
        self.read = image.read
        self.use_symbols = True
        self._folders = [*folders, *DEBUG_FOLDERS]
        self._symbols: Optional[dict[str, Symbol]] = None
        self._regions: Optional[Sequence[Region]] = None
        self._naming: Optional[Naming] = None

    def regions(self) -> Sequence[Region]:
        if self._regions is None:
            self._regions = self.image.regions()
        return self._regions

    def fill(self, address: int, block: memoryview) -> int:
        return self.image.fill(address, block)

    @property
    def threaded_fill(self) -> Fill:
        return self.image.fill

    def window(self, address: int) -> Optional[tuple[memoryview, int, int]]:
        return None

    def shortage(self) -> Optional[str]:
        return None

    def memory_use(self) -> Optional[tuple[int, int]]:
        return None

    def mapping_use(self) -> Optional[Sequence[MappingUse]]:
        return None

    def processors(self) -> Optional[int]:
        return None

    def environment(self) -> Optional[Mapping[str, str]]:
        return self.image.environment()

    def symbol(self, name: str) -> Optional[Symbol]:
        if self._symbols is None:
            self._symbols = self._load_symbols()
        return self._symbols.get(name)

    def _load_symbols(self) -> dict[str, Symbol]:
        """Of the first module that has main_arena: libc by its debug file, a static program by its own table.

        Where none has it, what the first libc exports still helps.
        """
        best: dict[str, Symbol] = {}
        for region in self.regions():
            if not region.is_file or region.offset:
                continue
            name = os.path.basename(region.path)
            if not (name.startswith(("libc.so", "libc-2.")) or region is self._program()):
                continue
            found = self._symbols_of(region, module_build_id(self.read, region.start))
            if "main_arena" in found:
                return found
            best = best or found
        return best

    def _program(self) -> Optional[Region]:
        return next((region for region in self.regions() if region.is_file), None)

    def _symbols_of(self, region: Region, build_id: Optional[str]) -> dict[str, Symbol]:
        if build_id is None:
            return {}
        wanted = WANTED if self.use_symbols else EXPORTED
        for path in files_of(self, region, build_id, self._folders if self.use_symbols else ()):
            try:
                with ElfFile(path) as file:
                    if file.build_id() != build_id:
                        continue
                    bias = region.start - file.first_address
                    symbols = find_symbols(file, wanted)
            except ArenascopeError:
                continue
            if symbols:
                return {name: Symbol(entries[0].value + bias, build_id) for name, entries in symbols.items()}
        return {}

    def symbol_files(self, region: Region, build_id: str) -> Sequence[str]:
        return files_of(self, region, build_id, self._folders) if self.use_symbols else ()

    def describe(self, address: int) -> Optional[str]:
        if self._naming is None:
            self._naming = Naming(self._folders if self.use_symbols else ())
        return self._naming.describe(self, address)

    def own_name(self, address: int) -> Optional[tuple[str, int]]:
        return None

    def struct(self, name: str) -> Optional[StructInfo]:
        return None

    def thread_local(self, name: str, thread: ThreadInfo) -> Optional[int]:
        return None

    def evaluate(self, expression: str) -> int:
        try:
            return int(expression, 0)
        except ValueError:
            raise UsageError(f"{expression!r} is no address", "write it as 0x7f12a4000030") from None

    def open_file(self, region: Region) -> Optional[str]:
        return region.path if os.path.isfile(region.path) else None

    def threads(self) -> Sequence[ThreadInfo]:
        return self.image.threads()

    def residency(self) -> Optional[Residency]:
        return None

    def locked(self) -> Sequence[tuple[int, int]]:
        return ()
