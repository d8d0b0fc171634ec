"""A live process as a Target, for the shell door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Sequence

from ...target import MappingUse, Region, Residency, ThreadInfo
from ..elf.registers import thread_from_record
from ..shell_target import ShellTarget
from .pagemap import PagemapResidency
from .process import ProcessImage
from .procfiles import mappings_of, online_processors, unreleasable_ranges

if TYPE_CHECKING:
    from .freeze import Freeze


class ProcessTarget(ShellTarget):
    """A live process, held by `freeze` or running on."""

    def __init__(self, process: ProcessImage, freeze: Optional[Freeze], folders: Sequence[str] = ()) -> None:
        self.process = process
        self.freeze = freeze
        super().__init__(self.process, "live", folders)

    def held_by(self, freeze: Optional[Freeze]) -> ProcessTarget:
        """The same process once it stands still: symbols stay, mappings are read anew.

        And the same image: were it another program's by now, its memory would say so.
        """
        held = ProcessTarget(self.process, freeze)
        held._folders, held._symbols, held.use_symbols = self._folders, self._symbols, self.use_symbols
        if freeze is not None:
            freeze.on_end(self.process.give_up)
        return held

    def threads(self) -> Sequence[ThreadInfo]:
        named = self.process.threads()
        if self.freeze is None:
            return named
        image = self.process
        held = {
            record.tid: thread_from_record(image.machine, image.pointer_size, image.byte_order, record)
            for record in self.freeze.records()
        }
        return [held[each.tid]._replace(name=each.name) if each.tid in held else each for each in named]

    def open_file(self, region: Region) -> Optional[str]:
        return self.process.open_file(region)

    def residency(self) -> Optional[Residency]:
        return self.process.guarded(lambda: PagemapResidency(self.process.pid, self.page_size))

    def mapping_use(self) -> Optional[Sequence[MappingUse]]:
        return self.process.all_of(lambda: mappings_of(self.process.pid))

    def processors(self) -> Optional[int]:
        return online_processors()

    def locked(self) -> Sequence[tuple[int, int]]:
        return self.process.guarded(lambda: unreleasable_ranges(self.process.pid))
