"""The image that a debugger looks at, opened beside the debugger: what its door then need not ask it for.

/proc/PID and a mapped core give bytes ten to a hundred times faster than a debugger's own read, and mappings, residency
and environment, which no debugger's API tells. They are used only where they are provably the same image.
"""

from __future__ import annotations

import os
from typing import Iterable, Mapping, Optional, Sequence, Union

from ..errors import ArenascopeError, MemoryReadError
from ..memory import BlockCache, Fill, Read, Window
from ..target import MappingUse, Region, Residency
from .core.holes import core_mappings, core_residency
from .core.image import CoreImage
from .elf.naming import DEBUG_FOLDERS, Naming, files_of
from .live.pagemap import PagemapResidency
from .live.process import ProcessImage
from .live.procfiles import mappings_of, memory_of, online_processors, read_bytes, read_maps, unreleasable_ranges

Image = Union[ProcessImage, CoreImage]
PLACES = 8
"""How many places of a core are compared with what the debugger reads."""
PLACE_SIZE = 64
MOST_ANCESTORS = 8


class DebuggedTarget:
    """The half of a Target that does not differ from debugger to debugger."""

    def __init__(self, image: Optional[Image], kind: str, pid: Optional[int], read: Read) -> None:
        self.image = image
        self.kind = kind
        self.pid = pid
        self.page_size = image.page_size if image else 4096
        self._naming = Naming(DEBUG_FOLDERS)
        self.read: Read = image.read if image else BlockCache(read).read
        self.fill: Fill = image.fill if image else self._fill
        self.threaded_fill: Optional[Fill] = image.fill if image else None
        self.window: Window = image.window if isinstance(image, CoreImage) else lambda address: None

    def _fill(self, address: int, block: memoryview) -> int:
        block[:] = self.read(address, len(block))
        return len(block)

    def regions(self) -> Sequence[Region]:
        return self.image.regions() if self.image else ()

    def residency(self) -> Optional[Residency]:
        if isinstance(self.image, CoreImage):
            return core_residency(self.image)
        return PagemapResidency(self.image.pid, self.page_size) if self.image else None

    def shortage(self) -> Optional[str]:
        return self.image.shortage() if isinstance(self.image, CoreImage) else None

    def locked(self) -> Sequence[tuple[int, int]]:
        return unreleasable_ranges(self.image.pid) if isinstance(self.image, ProcessImage) else ()

    def memory_use(self) -> Optional[tuple[int, int]]:
        # a remote process has its number on another machine: here it would be somebody else's
        return memory_of(self.image.pid) if isinstance(self.image, ProcessImage) else None

    def mapping_use(self) -> Optional[Sequence[MappingUse]]:
        if isinstance(self.image, CoreImage):
            return core_mappings(self.image)
        return mappings_of(self.image.pid) if self.image else None

    def processors(self) -> Optional[int]:
        return online_processors() if isinstance(self.image, ProcessImage) else None

    def environment(self) -> Optional[Mapping[str, str]]:
        return self.image.environment() if self.image else None

    def open_file(self, region: Region) -> Optional[str]:
        if isinstance(self.image, ProcessImage):
            return self.image.open_file(region)
        return next((path for path in self.local_paths(region) if os.path.isfile(path)), None)

    def symbol_files(self, region: Region, build_id: str) -> Sequence[str]:
        return files_of(self, region, build_id, DEBUG_FOLDERS)

    def describe(self, address: int) -> Optional[str]:
        return self._naming.describe(self, address)

    def own_name(self, address: int) -> Optional[tuple[str, int]]:
        """The debugger's symbol at or before an address, and how far behind it: where no file's own table has one."""
        return None

    def local_paths(self, region: Region) -> Sequence[str]:
        """Where this machine may have the file of a mapping, the likeliest first."""
        return [region.path]


def open_process(pid: int) -> Optional[ProcessImage]:
    """The live process, where this debugger is what traces it: then no other has this number here."""
    try:
        return ProcessImage(pid) if is_traced_by_us(pid) else None
    except ArenascopeError:
        return None


def is_traced_by_us(pid: int) -> bool:
    """The kernel's word that this very process, or a server that it started, traces the process of that number."""
    tracer = _status_number(pid, b"TracerPid")
    for _ in range(MOST_ANCESTORS):
        if not tracer:
            return False
        if tracer == os.getpid():
            return True
        tracer = _status_number(tracer, b"PPid")
    return False


def _status_number(pid: int, key: bytes) -> int:
    try:
        rows = read_bytes(f"/proc/{pid}/status").splitlines()
    except OSError:
        return 0
    return next((int(row.split()[1]) for row in rows if row.startswith(key + b":")), 0)


def held_files() -> list[str]:
    """Files that this debugger has open or mapped, or was called with: its API may not tell the core's name."""
    held: list[str] = []
    try:
        held += [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_link(fd)]
        held += [line.region.path for line in read_maps(os.getpid()) if line.region.is_file]
        held += [os.fsdecode(word) for word in read_bytes("/proc/self/cmdline").split(b"\0")]
    except OSError:
        pass
    return [path for path in dict.fromkeys(held) if os.path.isfile(path)]


def _is_link(descriptor: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{descriptor}")


def find_core(paths: Iterable[str], tids: Iterable[int], read: Read) -> Optional[CoreImage]:
    """The core among these files that has these threads and holds what the debugger reads."""
    wanted = sorted(tids)
    for path in paths:
        try:
            image = CoreImage(path)
        except ArenascopeError:
            continue
        if sorted(thread.tid for thread in image.threads()) == wanted and _same_bytes(image, read):
            return image
        image.close()
    return None


def _same_bytes(image: CoreImage, read: Read) -> bool:
    present = [region for region in image.regions() if region.present]
    # a core of a filter without memory has headers of files at most: its threads must do
    places = [region for region in present if region.writable] or present
    for region in places[:: max(1, len(places) // PLACES)]:
        try:
            if image.read(region.start, PLACE_SIZE) != read(region.start, PLACE_SIZE):
                return False
        except MemoryReadError:
            return False
    return True
