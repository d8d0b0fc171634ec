"""A core file as a Target, for the shell door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Sequence

from ...target import MappingUse, Residency
from ..shell_target import ShellTarget
from .image import CoreImage

if TYPE_CHECKING:
    from .compressed import Say


class CoreTarget(ShellTarget):
    """A core file."""

    def __init__(self, path: str, folders: Sequence[str] = (), say: Say = lambda text: None) -> None:
        self.core = CoreImage(path, say)
        super().__init__(self.core, "core", folders)

    def window(self, address: int) -> Optional[tuple[memoryview, int, int]]:
        return self.core.window(address)

    def shortage(self) -> Optional[str]:
        return self.core.shortage()

    def residency(self) -> Optional[Residency]:
        from .holes import core_residency

        return core_residency(self.core)

    def mapping_use(self) -> Optional[Sequence[MappingUse]]:
        from .holes import core_mappings

        return core_mappings(self.core)
