"""What a root is called: a variable, a function's frame on a thread's stack, a thread's variable."""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError
from ...glibc.find.thread_pointers import Dtv
from ...session.session import Session
from ...sources.elf.address_names import names_of, place_of
from ...sources.elf.elf_file import PT_TLS, Elf, proven_files
from ...sources.elf.modules import Module
from ...sources.elf.registers import GENERAL
from ...sources.elf.symbols import STT_TLS
from ...sources.elf.unwind import MACHINES, Unwinder, UnwindTables, UnwoundFrame, by_number
from ...sources.target import SymbolPlace, text_of
from ..recognise.module_memory import ground_of
from .roots import Root
from .threads import NUMBERS

FRAMES = 256
COUNTERS = {"x86_64": "rip", "aarch64": "pc"}


class _Variables(NamedTuple):
    """A module's thread-local variables, by where they lie in its block."""

    size: int
    offsets: Sequence[int]
    names: Sequence[str]
    sizes: Sequence[int]


class Names:
    """Of one image; each is looked up when it is asked for."""

    def __init__(self, session: Session, dtvs: Sequence[Dtv]) -> None:
        self._session = session
        self._dtvs = {each.tid: each for each in dtvs}
        ground = ground_of(session)
        self._modules, self._memory = ground.modules, ground.constants
        self._frames: dict[int, list[UnwoundFrame]] = {}
        self.main_thread = session.target.pid
        self._threads = {each.tid: each.name for each in session.target_threads}
        self._tls: Optional[list[_Variables]] = None
        self._tables = UnwindTables(self._memory, session.regions)

    def of(self, root: Root, address: int) -> Optional[str]:
        return text_of(self.place(root, address))

    def place(self, root: Root, address: int) -> Optional[SymbolPlace]:
        if root.kind == "global":
            return self._session.target.describe(address)
        if root.kind == "stack":
            return self.function(root.tid, address)
        if root.kind == "tls":
            return self.variable(root.tid, address)
        return SymbolPlace(root.path, 0) if root.path else None

    def thread(self, tid: Optional[int]) -> Optional[str]:
        return self._threads.get(tid) if tid is not None else None

    # frames

    def function(self, tid: Optional[int], address: int) -> Optional[SymbolPlace]:
        """The function whose frame has this word of a stack."""
        frames = self._frames_of(tid) if tid is not None else []
        index = bisect_right([each.stack_pointer for each in frames], address) - 1
        if not frames or index + 1 == len(frames):
            return None  # beyond the last that tables lead to
        # what is below all is the innermost's red zone; whoever called has its call in front of where it goes on
        told = self._session.target.describe(frames[index].pc - 1 if index > 0 else frames[0].pc)
        return told._replace(offset=0) if told is not None and not told.in_file else told

    def _frames_of(self, tid: int) -> list[UnwoundFrame]:
        if not self._frames:
            self._frames = {each.tid: self._unwound(each.general) for each in self._session.target.register_sets()}
        return self._frames.get(tid, [])

    def _unwound(self, general: bytes) -> list[UnwoundFrame]:
        machine = self._session.target.machine
        if machine not in MACHINES:
            return []
        names = GENERAL[NUMBERS[machine]]
        values = dict(zip(names, self._session.memory.unpack_words(general)))
        if COUNTERS[machine] not in values:
            return []
        unwinder = Unwinder(self._memory, self._tables, machine)
        return list(unwinder.frames(by_number(machine, values), values[COUNTERS[machine]], FRAMES))

    # thread-local variables

    def variable(self, tid: Optional[int], address: int) -> Optional[SymbolPlace]:
        dtv = self._dtvs.get(tid) if tid is not None else None
        for block in dtv.blocks if dtv is not None else ():
            known = self._variables
            module = known[block.module - 1] if block.module <= len(known) else None
            if module is None or not block.start <= address < block.start + module.size:
                continue
            index = bisect_right(module.offsets, address - block.start) - 1
            past = address - block.start - module.offsets[index] if index >= 0 else 0
            if index >= 0 and past < max(1, module.sizes[index]):
                return place_of(module.names[index], past)
        return None

    @property
    def _variables(self) -> list[_Variables]:
        """By the number of the module: ld.so counts those with such variables as it loads them."""
        if self._tls is None:
            order = self._modules.in_order or self._modules.all
            self._tls = [each for each in map(self._variables_of, order) if each.size]
        return self._tls

    def _variables_of(self, module: Module) -> _Variables:
        nothing = _Variables(0, (), (), ())
        try:
            elf = Elf(lambda address, size: self._modules.read(module, address, size), module.base, mapped=True)
            segment = next((each for each in elf.segments if each.type == PT_TLS), None)
            build_id = elf.build_id() if segment is not None else None
        except (ArenascopeError, struct.error):
            return nothing
        if segment is None:
            return nothing
        region = module.regions[0]
        paths = self._session.target.symbol_files(region, build_id) if build_id is not None else ()
        for file in proven_files(paths, build_id or ""):
            variables = names_of(file, (STT_TLS,))
            if variables:
                offsets, sizes, names = zip(*variables)
                return _Variables(segment.memory_size, offsets, names, sizes)
        return nothing._replace(size=segment.memory_size)
