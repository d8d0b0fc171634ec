"""Finds a thread of a held process that can be made to call a function, and reads the state of all threads."""

from __future__ import annotations

import signal
from bisect import bisect_left
from functools import cached_property
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from ..base.errors import RefusedError
from ..commands.framework.apply_trim import ELSEWHERE, LOCK_WAITS, gone
from ..glibc.find.inside_malloc import StackFrame
from ..session.session import Session
from ..sources.elf.address_names import modules_of
from ..sources.elf.symbols import ElfSymbol, dynamic_symbols
from ..sources.elf.unwind import Unwinder, UnwindTables, by_number
from ..sources.live import injection, messages, procfiles
from ..sources.live.live_target import ProcessTarget
from ..sources.live.pagekinds import last_guard
from ..sources.live.process_hold import Freeze
from ..sources.target import Region, RegionIndex, Span, ThreadInfo

MAIN, VDSO = "[stack]", "[vdso]"
LARGEST_STACK = 1 << 28
"""How far below the stack pointer to search for the stack's guard page."""
AT_END = (signal.SIGURG, signal.SIGWINCH, signal.SIGCHLD)
"""Signals that do nothing in a process without a handler for them."""
LOCK = "__lll_lock_wait_private"
MOVES_IN = 30.0
"""Seconds; longer than the guard needs to hold a thread again that it let run."""
NOBODY = "has none that stands on the stack it was started with, in nothing that cannot be left"


class Stand(NamedTuple):
    """A thread's state, as the guard read it."""

    tid: int
    general: bytes
    sets: injection.Sets
    mask: int
    free: bool
    registers: Mapping[str, int]


class Caller(NamedTuple):
    """A thread that can be made to call."""

    stand: Stand
    stack: Region
    thread: injection.Thread
    at_end: int
    """The signal that marks the end of the call."""


class HeldProcess:
    """The state of a held process, until a thread runs."""

    def __init__(self, target: ProcessTarget, freeze: Freeze, processor: injection.Processor) -> None:
        self.target, self.freeze, self.processor = target, freeze, processor
        self.session = Session(target)
        self.why_none = NOBODY
        """Why the last search found no caller."""
        self._stands: Optional[dict[int, Stand]] = None
        self._elsewhere: set[int] = set()
        self._gadgets: dict[int, dict[str, int]] = {}
        self._waits: Optional[Span] = None

    def after(self, tid: int) -> HeldProcess:
        """The state after this thread alone ran."""
        now = HeldProcess(self.target, self.freeze, self.processor)
        now._stands, now._elsewhere = self._stands, {*self._elsewhere, tid}
        return now

    @cached_property
    def regions(self) -> Sequence[Region]:
        return self.session.regions

    @cached_property
    def _by_address(self) -> RegionIndex:
        return RegionIndex(self.regions)

    @cached_property
    def _unwinder(self) -> Unwinder:
        memory = self.session.memory
        return Unwinder(memory, UnwindTables(memory, self.regions), self.target.machine)

    @property
    def stands(self) -> dict[int, Stand]:
        if self._stands is None:
            self._stands = self._ask(self.processor.named)
        elif self._elsewhere:
            there = {tid: stand for tid, stand in self._stands.items() if tid not in self._elsewhere}
            self._stands = {**there, **self._ask(self.processor.named, tuple(self._elsewhere))}
        self._elsewhere = set()
        return self._stands

    def _ask(self, kinds: Sequence[int], tids: Optional[Sequence[int]] = None) -> dict[int, Stand]:
        asked = messages.GetStands(self.processor.general_bytes, tuple(kinds), tids)
        return {
            tid: Stand(tid, general, sets, mask, free=free, registers=self.processor.unpacked(general, sets))
            for tid, general, sets, mask, free in self.freeze.obey(asked, messages.Stands, MOVES_IN).threads
        }

    def stand(self, tid: int) -> Stand:
        if tid not in self.stands:
            raise gone(ThreadInfo(tid))
        return self.stands[tid]

    def frames(self, tid: int, limit: int) -> Iterator[StackFrame]:
        registers = self.stand(tid).registers
        numbered = by_number(self.target.machine, registers)
        for frame in self._unwinder.frames(numbered, registers[self.processor.counter], limit):
            yield StackFrame(frame.pc, self._name(frame.pc), frame.stack_pointer)

    def _name(self, pc: int) -> Optional[str]:
        if self._waits is None:
            lock = self.exported(LOCK, self.session.located.libc.base)
            self._waits = Span(lock.value, lock.value + lock.size) if lock is not None else Span(0, 0)
        return LOCK_WAITS[0] if self._waits.start <= pc < self._waits.end else None

    def exported(self, name: str, base: Optional[int]) -> Optional[ElfSymbol]:
        return dynamic_symbols(self.session.memory.read, base, [name]).get(name) if base is not None else None

    def base_of(self, function: int) -> int:
        """The base of the libc that has the function: a process may have several."""
        for module in modules_of(self.regions):
            if any(region.contains(function) for region in module):
                return module[0].start
        raise RefusedError("function-in-no-file", "what would be called lies in no file", ELSEWHERE)

    def gadgets(self, base: int) -> dict[str, int]:
        places = self._gadgets.setdefault(base, {})
        if places:
            return places
        module = next(module for module in modules_of(self.regions) if module[0].start == base)
        kernels = [region for region in self.regions if region.path == VDSO]
        for region in (*module, *kernels):
            if not region.executable:
                continue
            code = self.session.memory.try_read(region.start, region.size) or b""
            for name, instructions in self.processor.gadgets.items():
                at = code.find(instructions)
                if at >= 0:
                    places.setdefault(name, region.start + at)
        if len(places) < len(self.processor.gadgets):
            raise RefusedError(
                "call-instructions-missing", "libc lacks the instructions that a call from outside needs", ELSEWHERE
            )
        return places

    def callers(self, base: int) -> Iterator[Caller]:
        """Threads that can call into the libc at `base`."""
        self.why_none = NOBODY
        for stand, stack in self.candidates():
            thread, self.why_none = self.thread(stand, base)
            at_end = self._at_end(stand)
            if at_end is None:
                self.why_none = "handles or blocks every signal that could tell of the call's end"
            if thread is not None and at_end is not None:
                yield Caller(stand, stack, thread, at_end)

    def candidates(self) -> Iterator[tuple[Stand, Region]]:
        """Threads that stand where a call can be made, the most suitable first, with their stacks."""
        plain = [each for each in self.stands.values() if each.free and self.processor.is_plain(each.registers)]
        pid = self.target.image.pid
        # a timed wait can be repeated exactly only while we live: such threads come last
        for stand in sorted(plain, key=lambda each: (self.processor.is_timed(each.registers), each.tid != pid)):
            stack = self._stack(stand)
            if stack is not None and self._may_be_left(stand):
                # all registers are read only for the threads that are tried
                yield from ((whole, stack) for whole in self._ask(self.processor.sets, (stand.tid,)).values())

    def passing(self) -> list[int]:
        """Threads that cannot call just now but soon can: at a signal's delivery, or while libc blocks all signals to
        create a thread or a process."""
        pid = self.target.image.pid
        stands = sorted(self.stands.values(), key=lambda each: each.tid != pid)
        return [each.tid for each in stands if not each.free or (self._at_end(each) is None and self._free_at_end)]

    @cached_property
    def _free_at_end(self) -> Sequence[int]:
        """The signals of AT_END that the process does not handle."""
        caught = int(procfiles.status_row(self.target.image.pid, "SigCgt") or "0", 16)
        return [int(each) for each in AT_END if not caught >> (each - 1) & 1]

    def _at_end(self, stand: Stand) -> Optional[int]:
        """A signal that the process does not handle and the thread does not block."""
        return next((each for each in self._free_at_end if not stand.mask >> (each - 1) & 1), None)

    def _stack(self, stand: Stand) -> Optional[Region]:
        """The mapping of the thread's stack, if below its stack pointer there is nothing but that stack."""
        pointer = stand.registers[self.processor.stack]
        at = self._by_address.place(pointer)
        if at is None or not self.regions[at].writable:
            return None
        region = self.regions[at]
        if region.path == MAIN:
            return region
        below = self.regions[at - 1] if at else None
        guarded = below is not None and below.end == region.start and not (below.readable or below.writable)
        if not guarded:
            # since glibc 2.42 guard pages are no mappings of their own, and another stack may lie below them
            low = max(region.start, pointer - LARGEST_STACK)
            start = last_guard(self.target.image.memory_tid, low, pointer, self.target.page_size)
            guarded, region = start is not None, region._replace(start=start or region.start)
        name = self.processor.thread
        thread = stand.registers[name]
        # the thread's control block must be above its stack pointer in this mapping
        first = bisect_left(self._thread_pointers, region.start)
        alone = first == len(self._thread_pointers) or self._thread_pointers[first] >= pointer
        below_end = bisect_left(self._heaps, (region.end, 0)) - 1
        is_heap = below_end >= 0 and self._heaps[below_end].end > region.start
        fits = region.contains(thread) and pointer < thread
        return region if guarded and alone and fits and not is_heap and not region.path else None

    @cached_property
    def _thread_pointers(self) -> Sequence[int]:
        return sorted(each.registers[self.processor.thread] for each in self.stands.values())

    @cached_property
    def _heaps(self) -> Sequence[Span]:
        return sorted(Span(part.address, part.end) for parts in self.session.heaps.values() for part in parts)

    def _may_be_left(self, stand: Stand) -> bool:
        """Whether what the thread waits in can be started again by setting registers alone."""
        registers, processor = stand.registers, self.processor
        number = processor.call_under_way(registers, self.session.memory)
        if number is None:
            return True
        if number in processor.never:
            return False
        if number not in processor.with_masks:
            return processor.begins_anew(number, registers)
        register, indirect = processor.with_masks[number]
        pointer: Optional[int] = registers[register]
        if indirect and pointer:
            pointer = self.session.memory.try_word(pointer)
        return pointer == 0

    def thread(self, stand: Stand, base: int) -> tuple[Optional[injection.Thread], str]:
        """All of the thread's state that must be restored, or the reason why it cannot be."""
        registers = dict(stand.registers)
        number = self.processor.call_under_way(registers, self.session.memory)
        if number == injection.UNKNOWN:
            return None, f"waits in a system call that is not known, in thread {stand.tid}"
        if number is not None:
            registers = self.processor.making(registers, number)
        if self.processor.put_back(stand.sets) is None:
            return None, f"uses registers that cannot be put back, in thread {stand.tid}"
        errno_at = self._errno(registers[self.processor.thread], base)
        errno = self.session.memory.try_read(errno_at, 4) if errno_at is not None else None
        if errno_at is None or errno is None:
            return None, "does not show where errno lies"
        task = f"/proc/{self.target.image.pid}/task/{stand.tid}"
        tid, pid = (procfiles.inner_number(task, row) for row in ("NSpid", "NStgid"))
        value = int.from_bytes(errno, "little")
        thread = injection.Thread(
            registers,
            stand.sets,
            stand.mask,
            inner_tid=tid,
            inner_pid=pid,
            errno_at=errno_at,
            errno=value,
        )
        return thread, ""

    def _errno(self, thread: int, base: int) -> Optional[int]:
        at = self.exported("__errno_location", base)
        return self.processor.find_errno(thread, at.value, self.session.memory) if at is not None else None
