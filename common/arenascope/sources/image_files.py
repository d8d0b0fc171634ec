"""An image with its bytes, as a Target uses it; and its modules without a local file that is provably theirs, whose
symbols are unknown."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Callable, Iterator, Mapping, Optional, Sequence, TypeVar

from ..base.heap_model import OTHER_FILES, Statement
from ..base.printable import first_few
from .elf.address_names import DEBUG_FOLDERS, AddressNames, local_file
from .elf.elf_file import AT_SECURE, build_id_in_memory, differ, machine_name
from .elf.modules import Module, Modules, programs_of
from .elf.sysroot import file_within
from .memory import Fill, Read
from .target import ByteOrder, Image, MemoryPiece, Region, RegisterSets, Target, ThreadInfo

if TYPE_CHECKING:
    from .types_by_engine import TypesByEngine

AnySource = TypeVar("AnySource", bound="Source")
Pieces = Callable[[int, int], Optional[Sequence[MemoryPiece]]]


class Source(Image, ABC):
    """The source of an image's bytes: /proc/PID, the file of a core, or a debugger's own reads."""

    kind: str
    pid: Optional[int]
    pointer_size: int
    byte_order: ByteOrder
    page_size: int
    auxv: Mapping[int, int] = {}
    """The auxiliary vector, as far as it is known."""
    memory_tid: Optional[int] = None
    """As in Target."""
    machine: int = 0
    """The machine's number in an ELF header; 0: not known."""

    @property
    def machine_name(self) -> str:
        """As in Target.machine."""
        return machine_name(self.machine, self.pointer_size)

    @abstractmethod
    def read(self, address: int, size: int) -> bytes:
        """As in Target, like those that follow."""

    def fill(self, address: int, block: memoryview) -> int:
        block[:] = self.read(address, len(block))
        return len(block)

    def pieces(self, start: int, end: int) -> Optional[Sequence[MemoryPiece]]:
        return None

    def close(self) -> None:
        """Closes its open files."""

    def __enter__(self: AnySource) -> AnySource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def regions(self) -> Sequence[Region]: ...

    def threads(self) -> Sequence[ThreadInfo]:
        """Returns the threads without what is missing: /proc has no thread pointers."""
        return ()

    def register_sets(self) -> Sequence[RegisterSets]:
        """Returns the registers that are known: a process that is not held shows none."""
        return ()

    def environment(self) -> Optional[Mapping[str, str]]:
        return None

    def is_secure(self) -> Optional[bool]:
        secure = self.auxv.get(AT_SECURE)
        return None if secure is None else bool(secure)

    def open_file(self, region: Region, likely: Sequence[str]) -> Optional[str]:
        """As Target.open_file; `likely` are the places to try."""
        return local_file(likely)


AnyTarget = TypeVar("AnyTarget", bound="ImageTarget")


class ImageTarget(AddressNames):
    """A Target without what a door adds: symbols, structs, expressions, and the registers of a live process."""

    door: str

    def own_files(self, region: Region) -> Sequence[str]:
        """Returns the files that a debugger has loaded for a module, that with its debug information first."""
        return ()

    def __init__(self, image: Source, folders: Sequence[str] = DEBUG_FOLDERS, sysroot: Optional[str] = None) -> None:
        super().__init__(folders, sysroot)
        self.image = image
        self.kind = image.kind
        self.pid = image.pid
        self.pointer_size = image.pointer_size
        self.byte_order = image.byte_order
        self.page_size = image.page_size
        self.machine = image.machine_name
        self.read: Read = image.read
        self.fill: Fill = image.fill
        self.pieces: Pieces = image.pieces
        self.stop_if_asked: Callable[[], None] = lambda: None
        self.memory_tid = image.memory_tid

    @cached_property
    def types(self) -> Optional[TypesByEngine]:
        """As in Target."""
        return None

    def forget_types(self) -> None:
        # not if nobody has asked for them yet
        types: Optional[TypesByEngine] = vars(self).get("types")
        if types is not None:
            types.forget()

    def close(self) -> None:
        """Closes the image; nothing can be read from then on."""
        self.image.close()

    def __enter__(self: AnyTarget) -> AnyTarget:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def regions(self) -> Sequence[Region]:
        return self.image.regions()

    def threads(self) -> Sequence[ThreadInfo]:
        return self.image.threads()

    def register_sets(self) -> Sequence[RegisterSets]:
        return self.image.register_sets()

    def environment(self) -> Optional[Mapping[str, str]]:
        return self.image.environment()

    def is_secure(self) -> Optional[bool]:
        return self.image.is_secure()

    def loaded_build_id(self, region: Region) -> Optional[str]:
        return None

    def open_file(self, region: Region) -> Optional[str]:
        return self.image.open_file(region, self.local_paths(region))

    def local_paths(self, region: Region) -> Sequence[str]:
        """Returns the places to try for the file of a mapping, the likeliest first."""
        if self.sysroot is None:
            return [region.path]
        found = file_within(self.sysroot, region.path)
        return [found] if found is not None else []

    @property
    def root(self) -> str:
        """The root of the image's host: the sysroot, or the process's own root (a container)."""
        if self.sysroot is not None:
            return self.sysroot
        own = f"/proc/{self.pid}/root"
        try:
            if self.door == "shell" and self.kind == "live" and not os.path.samefile(own, "/"):
                return own
        except OSError:
            pass
        return "/"

    def place_below_sysroot(self, region: Region) -> Optional[str]:
        """Returns where the file of a mapping is searched, by the path that the user knows on that host; None without a
        sysroot."""
        return None if self.sysroot is None else os.path.join(self.sysroot, region.path.lstrip("/"))


def other_files(target: Target) -> Optional[Statement]:
    """Reports which they are; None if there are none."""
    unproven = [*unproven_modules(target)]
    if not unproven:
        return None
    names = sorted({os.path.basename(module.name) for module in unproven})
    said = {"named": first_few(names), "door": target.door, "kind": target.kind, **_tried(target, unproven)}
    return Statement(OTHER_FILES, {"modules": len(names)}, said)


def _tried(target: Target, modules: Sequence[Module]) -> dict[str, str]:
    """Returns what was tried: below a sysroot, a file of another build, or the first path that was missing."""
    tried: dict[str, str] = {}
    if not isinstance(target, ImageTarget):
        return tried
    for module in modules:
        place = target.place_below_sysroot(module.regions[0])
        if place is not None and target.local_paths(module.regions[0]):
            return {"unlike": place}
        tried = tried or ({} if place is None else {"absent": place})
    return tried


def unproven_modules(target: Target) -> Iterator[Module]:
    """Returns the modules whose files are not proven; one whose build-id cannot be read does not count."""
    modules = Modules(target, programs_of(target.regions()))
    for module in modules.all:
        inside = build_id_in_memory(target.read, module.base)
        loaded = target.loaded_build_id(module.regions[0])
        if inside is not None and (differ(inside, loaded) or (loaded is None and modules.file_of(module) is None)):
            yield module
