"""The image that a debugger has open, opened beside the debugger, so that its door need not ask the debugger.

/proc/PID and a mapped core give bytes ten to a hundred times faster than a debugger's own read, and also mappings,
residency and environment, which no debugger's API provides. They are used only if they are provably the same image;
what only the debugger can reach is read through it.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import cached_property
from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..base.errors import ArenascopeError, MemoryReadError, TargetError, UsageError
from .core.core_image import CoreImage
from .elf.address_names import DEBUG_FOLDERS
from .elf.elf_file import EM_AARCH64, NT_ARM_TLS, NT_VECTORS, OWN, build_id_in_memory, differ
from .elf.modules import programs_of
from .elf.registers import GENERAL, NUMBERS, WIDE, WIDE_BYTES
from .image_files import ImageTarget, Source
from .live.proc_tables import read_bytes, read_regions, status_number, thread_ids, thread_state
from .live.process import ProcessImage
from .memory import BlockCache, Read
from .target import ByteOrder, Region, RegisterSet, RegisterSets, Span, StructInfo, Symbol, SymbolPlace, ThreadInfo
from .types_by_engine import TypesByEngine

PLACES = 8
"""The number of places in a core that are compared with the debugger's reads."""
PLACE_SIZE = 64
MAX_ANCESTORS = 8


class RemoteImage(Source):
    """An image that only the debugger reaches: a process behind a remote stub, or a core whose file was not found."""

    page_size = 4096

    def __init__(self, kind: str, pid: Optional[int], pointer_size: int, byte_order: ByteOrder, read: Read) -> None:
        """`read` is the debugger's own."""
        self.kind = kind
        self.pid = pid
        self.pointer_size = pointer_size
        self.byte_order = byte_order
        self._blocks = BlockCache(read)
        self.told_regions: Callable[[], Sequence[Region]] = tuple
        self.told_environment: Optional[Mapping[str, str]] = None

    def read(self, address: int, size: int) -> bytes:
        return self._blocks.read(address, size)

    def regions(self) -> Sequence[Region]:
        return self.told_regions()

    def environment(self) -> Optional[Mapping[str, str]]:
        return self.told_environment


def running(command: str) -> TargetError:
    return TargetError("the process is running", f"{command} first, then ask again")


def nothing_there(commands: str) -> TargetError:
    return TargetError("there is no process and no core to look at", f"{commands} first")


def no_address(expression: str, why: object) -> UsageError:
    return UsageError(f"{expression!r} is no address: {why}")


class DebuggerName(NamedTuple):
    """The debugger's own name of an address, and the build-id of the file that it is from (None: not known)."""

    place: SymbolPlace
    build_id: Optional[str]


class DebuggerStruct(NamedTuple):
    """A struct, and the build-id of its file."""

    struct: StructInfo
    build_id: Optional[str]


class _OtherModules(NamedTuple):
    """Modules for which the debugger has loaded another file: its symbols do not apply."""

    build_ids: frozenset[str]
    spans: Sequence[Span]


TYPES = "ARENASCOPE_DECLARED"
"""The environment variable that says whether the program's own types are used: not if it is 0."""


class DebuggedTarget(ImageTarget, ABC):
    """The part of a Target that is the same for every debugger."""

    def __init__(self, image: Source, machine: str) -> None:
        """`machine` is the debugger's, used if the image has none: it may be wrong if the debugger cannot open the
        program's file."""
        super().__init__(image)
        self.machine = self.machine or machine

    def threads(self) -> Sequence[ThreadInfo]:
        """Prefers a core's notes, which have more of its threads than a debugger; only the debugger has a live
        process's registers."""
        if self.kind == "core":
            return super().threads() or self.own_threads()
        held = self.own_threads()
        return [*held, *_running(self.image, held)] if isinstance(self.image, ProcessImage) else held

    @abstractmethod
    def own_threads(self) -> Sequence[ThreadInfo]:
        """Returns the threads as the debugger has them."""

    def register_sets(self) -> Sequence[RegisterSets]:
        """Prefers a core's notes, which have vector registers, too."""
        return (super().register_sets() if self.kind == "core" else ()) or self.own_register_sets()

    @abstractmethod
    def own_register_sets(self) -> Sequence[RegisterSets]:
        """Returns the registers as the debugger has them."""

    def registers_by_name(
        self, tid: int, ask: Callable[[str], Optional[int]], ask_wide: Callable[[str], bytes]
    ) -> RegisterSets:
        """Returns a thread's registers that the debugger has names for. `ask_wide` reads a vector register, or b""."""
        machine = NUMBERS.get(self.machine, 0)
        names = GENERAL.get(machine, ())
        size, order = self.pointer_size, self.byte_order
        # what LLDB does not have is 0, but orig_rax and its like: of these -1 is none
        unknown = [self.mask() if name.startswith("orig") else 0 for name in names]
        values = [ask(name) for name in names]
        numbers = [other if value is None else value & self.mask() for value, other in zip(values, unknown)]
        general = b"".join(number.to_bytes(size, order) for number in numbers)
        pointer = ask("tpidr") if machine == EM_AARCH64 else None
        others = [] if pointer is None else [RegisterSet("LINUX", NT_ARM_TLS, pointer.to_bytes(size, order))]
        wide = [ask_wide(name)[:WIDE_BYTES].ljust(WIDE_BYTES, b"\0") for name in WIDE.get(machine, ())]
        others += [RegisterSet(OWN, NT_VECTORS, b"".join(wide))] if wide else []
        return RegisterSets(tid, general, others)

    # symbols and types

    @property
    def type_folders(self) -> Sequence[str]:
        """Returns folders of separate debug files with types."""
        return DEBUG_FOLDERS

    @cached_property
    def types(self) -> Optional[TypesByEngine]:
        return TypesByEngine(self, self.type_folders, None) if os.environ.get(TYPES) != "0" else None

    def own_files(self, region: Region) -> Sequence[str]:
        inside, loaded = self.build_id_at(region.start), self.loaded_build_id(region)
        return () if loaded is None or loaded != (inside or loaded) else self.loaded_files(region, loaded)

    @abstractmethod
    def loaded_files(self, region: Region, build_id: str) -> Sequence[str]:
        """As own_files: those of this build-id, or "" if they have none."""

    def symbol(self, name: str) -> Optional[Symbol]:
        return next((each for each in self.own_symbols(name) if self.is_believed(each.build_id, each.address)), None)

    @abstractmethod
    def own_symbols(self, name: str) -> Iterator[Symbol]:
        """Returns the debugger's symbols of that name, the likeliest first."""

    def own_name(self, address: int) -> Optional[SymbolPlace]:
        told = self.name_in_debugger(address)
        return told.place if told is not None and self.is_believed(told.build_id, address) else None

    @abstractmethod
    def name_in_debugger(self, address: int) -> Optional[DebuggerName]:
        """Returns the debugger's symbol at or before an address, and the distance past it."""

    def struct(self, name: str) -> Optional[StructInfo]:
        return next((each.struct for each in self.own_structs(name) if self.is_believed(each.build_id)), None)

    @abstractmethod
    def own_structs(self, name: str) -> Iterator[DebuggerStruct]:
        """Returns the debugger's structs of that name, the likeliest first."""

    # whose they are

    def loaded_build_id(self, region: Region) -> Optional[str]:
        return self._loaded.get(region.start)

    @abstractmethod
    def own_build_id(self, module: Sequence[Region]) -> Optional[str]:
        """As loaded_build_id, from a module's mappings."""

    def is_believed(self, build_id: Optional[str], address: Optional[int] = None) -> bool:
        """Whether a file's facts can be used: false if they are proven to be about another module than the one in
        memory."""
        strange = self._strange
        if build_id is not None and build_id in strange.build_ids:
            return False
        return address is None or not any(start <= address < end for start, end in strange.spans)

    @cached_property
    def _modules(self) -> list[list[Region]]:
        return [*programs_of(self.regions())]

    @cached_property
    def _loaded(self) -> dict[int, Optional[str]]:
        """The loaded build-ids by the module's first address."""
        return {each[0].start: self.own_build_id(each) for each in self._modules}

    def build_id_at(self, address: int) -> Optional[str]:
        """Returns the build-id, in memory, of the module there."""
        module = self.module_at(address)
        return self._inside.get(module[0].start) if module is not None else None

    def is_mapped(self, build_id: Optional[str]) -> bool:
        """Whether a module in memory has it. If memory lacks the module's header, as in gcore's cores, the debugger's
        loaded file counts."""
        known = (inside or self._loaded[start] for start, inside in self._inside.items())
        return build_id is not None and build_id in known

    @cached_property
    def _inside(self) -> dict[int, Optional[str]]:
        """The build-ids in memory by the module's first address."""
        return {each[0].start: build_id_in_memory(self.read, each[0].start) for each in self._modules}

    @cached_property
    def _strange(self) -> _OtherModules:
        inside = self._inside
        strange = {start for start, loaded in self._loaded.items() if differ(inside[start], loaded)}
        named = {loaded for start, loaded in self._loaded.items() if start in strange and loaded}
        spans = [Span(each[0].start, each[-1].end) for each in self._modules if each[0].start in strange]
        return _OtherModules(frozenset(named.difference(each for each in inside.values() if each)), spans)

    def mask(self) -> int:
        """Returns a mask for addresses, which debuggers may give as negative numbers."""
        return (1 << (8 * self.pointer_size)) - 1


def _running(process: ProcessImage, held: Sequence[ThreadInfo]) -> Iterator[ThreadInfo]:
    """Returns threads of the same process that the debugger does not have. GDB attaches to all by the main thread's
    number alone; if that one has exited, only to the thread whose number it is given."""
    known = {thread.tid for thread in held}
    try:
        others = [tid for tid in thread_ids(process.pid) if tid not in known]
    except OSError:
        return
    for tid in others:
        if thread_state(process.pid, tid) not in "ZX":
            yield ThreadInfo(tid, process.thread_name(tid), runs=True)


def open_process(pid: int) -> Optional[ProcessImage]:
    """Opens the live process if this debugger traces it: then no other process has this number here."""
    try:
        return ProcessImage(pid) if is_traced_by_us(pid) else None
    except ArenascopeError:
        return None


def is_traced_by_us(pid: int) -> bool:
    """Tells whether, by the kernel's word, this very process or a server that it started traces the process of that
    number."""
    tracer = status_number(pid, "TracerPid")
    for _ in range(MAX_ANCESTORS):
        if not tracer:
            return False
        if tracer == os.getpid():
            return True
        tracer = status_number(tracer, "PPid")
    return False


def held_files() -> list[str]:
    """Lists files that this debugger has open or mapped, or was called with: its API may not tell the core's name."""
    held = [path for path in map(_opened, os.listdir("/proc/self/fd")) if path]
    with suppress(OSError):
        held += [region.path for region in read_regions(os.getpid()) if region.is_file]
        held += [os.fsdecode(word) for word in read_bytes("/proc/self/cmdline").split(b"\0")]
    return [path for path in dict.fromkeys(held) if os.path.isfile(path)]


def _opened(descriptor: str) -> Optional[str]:
    """Returns a descriptor's target; None if another thread has closed it meanwhile, such as listdir's own."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None


def find_core(paths: Iterable[str], tids: Iterable[int], read: Read) -> Optional[CoreImage]:
    """Finds the core among these files that has these threads and holds what the debugger reads."""
    wanted = set(tids)
    for path in paths:
        try:
            image = CoreImage(path)
        except ArenascopeError:
            continue
        listed = {thread.tid for thread in image.threads()}
        # GDB also has a main thread that had exited, which the kernel dumps no registers of
        if wanted in (listed, {*listed, image.pid}) and _same_bytes(image, read):
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
