"""Modules of a process by their files alone, for a debugger that has these files and no process."""

from __future__ import annotations

import json
from typing import NamedTuple, Optional, Sequence

from ..base.errors import MemoryReadError
from .elf.address_names import AddressNames
from .target import ByteOrder, Region


class ModuleFile(NamedTuple):
    """A module, and the local files that are proven to have its build-id."""

    build_id: str
    bias: int
    """The number added to the addresses that the file was linked for."""
    is_program: bool
    symbols: str
    """The file with its table of symbols."""
    load: str
    """The file with its debug information, or a link to that."""
    regions: Sequence[Region]
    """Including the nameless mapping behind them: its .bss."""


class Files(NamedTuple):
    """A debugger's files."""

    modules: Sequence[ModuleFile]
    may_open: Optional[Sequence[str]]
    """The only other files that it opens; None: any that these files name."""


def from_line(line: str) -> Files:
    rows, may_open = json.loads(line)
    modules: list[ModuleFile] = [ModuleFile(*row) for row in rows]
    regions = ([Region(*region) for region in each.regions] for each in modules)
    return Files([each._replace(regions=own) for each, own in zip(modules, regions)], may_open)


class ModuleFiles(AddressNames):
    """A Target as far as types need one. It has no memory but what the files have."""

    def __init__(self, modules: Sequence[ModuleFile]) -> None:
        super().__init__(())
        self.modules = modules
        self._by_path = {each.regions[0].path: each for each in modules}
        self._build_ids = {each.build_id for each in modules}
        with open(modules[0].symbols, "rb") as file:
            ident = file.read(6)
        self.pointer_size = 4 if ident[4] == 1 else 8
        self.byte_order: ByteOrder = "little" if ident[5] == 1 else "big"

    # as Named

    def read(self, address: int, size: int) -> bytes:
        for module in self.modules:
            for region in module.regions:
                if region.path and region.start <= address and address + size <= region.end:
                    with open(module.symbols, "rb") as file:
                        file.seek(region.offset + address - region.start)
                        data = file.read(size)
                    if len(data) == size:
                        return data
        raise MemoryReadError(address, size)

    def regions(self) -> Sequence[Region]:
        return sorted(region for module in self.modules for region in module.regions)

    def open_file(self, region: Region) -> Optional[str]:
        module = self._by_path.get(region.path)
        return module.symbols if module is not None else None

    # as a debugger's Target

    def build_id_at(self, address: int) -> Optional[str]:
        found = (each for each in self.modules if each.regions[0].start <= address < each.regions[-1].end)
        return next((each.build_id for each in found), None)

    def module_files(self) -> list[tuple[Region, Optional[str]]]:
        return [(each.regions[0], each.build_id) for each in self.modules]

    def is_believed(self, build_id: Optional[str], address: Optional[int] = None) -> bool:
        """Tells whether a module has this build-id: files that the modules' own lead to must be of the same build."""
        return build_id in self._build_ids

    def is_mapped(self, build_id: Optional[str]) -> bool:
        return build_id in self._build_ids

    def mask(self) -> int:
        return (1 << 64) - 1
