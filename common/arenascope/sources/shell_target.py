"""Process and core images as Targets, for the shell door: symbols out of libc's debug file, no debugger."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Mapping, Optional, Sequence, Union

from ..errors import ArenascopeError, UsageError
from ..memory import Fill
from ..target import MappingUse, Region, Residency, StructInfo, Symbol, ThreadInfo
from .core import CoreImage
from .elf import ElfFile, find_debug_file, module_build_id
from .freeze import Freeze
from .machines import machine_name
from .naming import DEBUG_FOLDERS, Naming
from .process import ProcessImage
from .procfiles import mappings_of, unreleasable_ranges
from .registers import thread_from_record
from .residency import PagemapResidency, core_mappings, core_residency
from .symbols import find_symbols

if TYPE_CHECKING:
    from .compressed import Say

EXPORTED = ("__curbrk",)
WANTED = ("main_arena", "mp_", *EXPORTED)
Image = Union[ProcessImage, CoreImage]


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
        return self.image.window(address) if isinstance(self.image, CoreImage) else None

    def shortage(self) -> Optional[str]:
        return None

    def memory_use(self) -> Optional[tuple[int, int]]:
        return None

    def mapping_use(self) -> Optional[Sequence[MappingUse]]:
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
        paths = [find_debug_file(build_id, self._folders) if self.use_symbols else None, self.open_file(region)]
        wanted = WANTED if self.use_symbols else EXPORTED
        for path in paths:
            if path is None:
                continue
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

    def describe(self, address: int) -> Optional[str]:
        if self._naming is None:
            self._naming = Naming(self.read, self.regions, self.open_file, self._folders if self.use_symbols else ())
        return self._naming.describe(address)

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


class CoreTarget(ShellTarget):
    """A core file."""

    def __init__(self, path: str, folders: Sequence[str] = (), say: Say = lambda text: None) -> None:
        self.core = CoreImage(path, say)
        super().__init__(self.core, "core", folders)

    def shortage(self) -> Optional[str]:
        return self.core.shortage()

    def residency(self) -> Optional[Residency]:
        return core_residency(self.core)

    def mapping_use(self) -> Optional[Sequence[MappingUse]]:
        return core_mappings(self.core)


class ProcessTarget(ShellTarget):
    """A live process, held by `freeze` or running on."""

    def __init__(self, pid: int, freeze: Optional[Freeze], folders: Sequence[str] = ()) -> None:
        self.process = ProcessImage(pid)
        self.freeze = freeze
        super().__init__(self.process, "live", folders)

    def held_by(self, freeze: Optional[Freeze]) -> ProcessTarget:
        """The same process once it stands still: symbols stay, mappings are read anew."""
        held = ProcessTarget(self.process.pid, freeze)
        held._folders, held._symbols, held.use_symbols = self._folders, self._symbols, self.use_symbols
        return held

    def threads(self) -> Sequence[ThreadInfo]:
        named = self.process.threads()
        if self.freeze is None:
            return named
        image = self.process
        held = {record.tid: thread_from_record(image.machine, image.pointer_size, image.byte_order, record)
                for record in self.freeze.records()}  # fmt: skip
        return [replace(held[each.tid], name=each.name) if each.tid in held else each for each in named]

    def open_file(self, region: Region) -> Optional[str]:
        return self.process.open_file(region)

    def residency(self) -> Optional[Residency]:
        return PagemapResidency(self.process.pid, self.page_size)

    def mapping_use(self) -> Optional[Sequence[MappingUse]]:
        return mappings_of(self.process.pid)

    def locked(self) -> Sequence[tuple[int, int]]:
        return unreleasable_ranges(self.process.pid)
