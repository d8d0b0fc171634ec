"""The shell as a Controller: a guard process holds every thread, without a debugger (sources/live/thread_calls.py)."""

from __future__ import annotations

import os
import signal
import struct
from bisect import bisect_left
from functools import cached_property
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..base.errors import EndedError, RefusedError
from ..base.heap_model import allows_more
from ..commands.framework.command import FunctionCall
from ..commands.trim import ELSEWHERE, LOCK_WAITS, gone, taken_back
from ..glibc.find.inside_malloc import StackFrame
from ..session.session import Session
from ..sources.elf.elf_file import ElfSymbol, dynamic_symbols
from ..sources.elf.modules import modules_of
from ..sources.elf.unwind import Unwinder, UnwindTables, by_number
from ..sources.live import injection, messages, proc_tables
from ..sources.live.injection_aarch64 import Aarch64
from ..sources.live.injection_x86_64 import X8664
from ..sources.live.live_target import ProcessTarget
from ..sources.live.pagemap import last_guard
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
        caught = int(proc_tables.status_row(self.target.image.pid, "SigCgt") or "0", 16)
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
        tid, pid = (proc_tables.inner_number(task, row) for row in ("NSpid", "NStgid"))
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


PROCESSORS: Sequence[injection.Processor] = (X8664(), Aarch64())
SLICES = (0.0002, 0.001, 0.005, 0.02)
"""Seconds for which a thread runs before it is examined again."""
CALLERS = 10
"""How often each of these times is tried if no thread can make a call just now."""
DOUBTS = 5
"""How often each of these times is tried for a thread that may be inside malloc. On aarch64 PLT stubs have no unwind
table, and a thread that calls in a loop is often found in one."""


class ShellController:
    """Runs single threads of a held process, and makes one of them call a function and return to where it was."""

    rounds = 500
    """Many: the guard cannot stop a thread exactly where it leaves malloc. It lets it run for a moment and looks
    again."""

    def __init__(self, target: ProcessTarget, freeze: Freeze) -> None:
        if freeze.how != "ptrace":
            raise RefusedError(
                "held-by-signal", "a process that is held by a signal cannot be made to call anything", "--stop ptrace"
            )
        machine = os.uname().machine
        processor = next((each for each in PROCESSORS if each.machine == target.machine == machine), None)
        if processor is None or target.pointer_size != 8:
            names = " and ".join(each.machine.replace("_", "-") for each in PROCESSORS)
            other = "" if target.machine == machine else f", from Python for {machine}"
            raise RefusedError(
                "other-processor",
                f"the shell calls into {names} processes alone, and this is {target.machine}{other}",
                ELSEWHERE,
            )
        why = processor.refusal(target.image.pid)
        if why is not None:
            raise RefusedError("calls-forbidden", why, ELSEWHERE)
        self.target, self.freeze, self.processor = target, freeze, processor
        self._moment: Optional[HeldProcess] = None

    @property
    def _now(self) -> HeldProcess:
        if self._moment is None:
            self._moment = HeldProcess(self.target, self.freeze, self.processor)
        return self._moment

    def _run(self, tid: int, *pieces: float) -> bool:
        """Runs this thread alone; returns whether it moved. What is known of all other threads stays valid, unless
        threads have come or gone."""
        ran = self.freeze.obey(messages.RunAlone(tid, pieces), messages.Ran, MOVES_IN)
        self.target.moved(tid if ran.same else None)
        self._moment = self._now.after(tid) if ran.same else None
        return ran.moved

    def frames(self, thread: ThreadInfo, limit: int) -> Sequence[StackFrame]:
        return list(self._now.frames(thread.tid, limit))

    def step_out(self, thread: ThreadInfo, depth: int, seconds: float) -> bool:
        """Whether the thread moved; the caller then examines it again."""
        # for a thread that waits, more time only helps if the event comes from outside
        return self._run(thread.tid, *SLICES, max(seconds - sum(SLICES), 0.0))

    def let_run(self, thread: ThreadInfo, times: int) -> bool:
        if times >= len(SLICES) * DOUBTS:
            return False
        # on a slow machine, a thread in a chain of signal handlers needs long to return from all
        self._run(thread.tid, SLICES[times // DOUBTS])
        return True

    def can_call(self, times: int) -> bool:
        now = self._now
        base = now.session.located.libc.base
        if base is None or times >= len(SLICES) * CALLERS or next(now.callers(base), None) is not None:
            return True
        passing = now.passing()
        if not passing:
            return True
        # the first thread is tried every other time, as it often creates threads; the others take turns
        chosen = passing[times // 2 % len(passing) if times % 2 else 0]
        self._run(chosen, SLICES[times // CALLERS])
        return False

    def call(self, what: FunctionCall, seconds: float, is_lock_wait: Callable[[str], bool]) -> int:
        """Calls the function. Returns 0: the result is not available, only its effect."""
        lock = what.lock
        steps = [injection.InjectedCall(what.address, what.arguments, unlocks=lock)]
        if lock is not None:
            take = self._now.exported(LOCK, self._now.base_of(what.address))
            if take is None:
                raise RefusedError("lock-not-found", f"{LOCK} was not found in this process", ELSEWHERE)
            give = injection.InjectedCall(0, injection.unlocking(lock), system_call="futex")
            # run alone, the thread releases the lock before any other can run
            steps = [injection.InjectedCall(take.value, [lock], unlocks=lock), *steps, give]
        became, number = self._make(what.address, steps, seconds)
        if became == "returned":
            return 0
        if became == "at signal":
            raise taken_back(signal.Signals(number).name)
        if became == "ended":
            raise EndedError(f"of {signal.Signals(number & 127).name}" if number & 127 else f"status {number >> 8}")
        if became == "at work":
            raise RefusedError(
                "call-at-work", "the call is still at work; the process was let go and finishes it by itself"
            )
        raise RefusedError("no-thread-can-call", "no thread could be made to call", "try again")

    def _make(self, function: int, steps: Sequence[injection.InjectedCall], seconds: float) -> messages.CallEnded:
        now = self._now
        base = now.base_of(function)
        gadgets = now.gadgets(base)
        # part of the hold limit is needed for the answer; a call that has not returned by then ends by itself
        seconds = min(seconds, self.freeze.left)
        if seconds <= 0:
            raise RefusedError(
                "no-time-for-a-call",
                "no time is left for a call, as the process has stood still for long",
                allows_more(self.freeze.at_most),
            )
        for caller in now.callers(base):
            stand, thread, at_end = caller.stand, caller.thread, caller.at_end
            stack_pointer = stand.registers[self.processor.stack]
            frames = self.processor.frames(thread, gadgets)
            layout = injection.StackLayout(frames, thread, stack_pointer, steps, signal=at_end)
            if layout.base - injection.ROOM < caller.stack.start:
                now.why_none = f"has too little room left on the stack of thread {stand.tid}"
                continue
            ready = layout.prepared()
            order = messages.MakeCall(
                tid=stand.tid,
                general=stand.general,
                # a timed wait must be resumed by the kernel itself, from the registers that it left
                back=stand.general
                if self.processor.is_timed(stand.registers)
                else self.processor.packed(thread.registers),
                sets=list(self.processor.put_back(stand.sets) or ()),
                mask=stand.mask,
                meanwhile=ready.mask,
                block=ready.block,
                room=injection.ROOM,
                entries=[self.processor.packed(each) for each in ready.entries],
                stops=list(ready.stops),
                stands_in=self.processor.stands_in,
                errno=(thread.errno_at, struct.pack("<I", thread.errno)),
                at_end=at_end,
                seconds=seconds,
            )
            return self.freeze.obey(order, messages.CallEnded, seconds + MOVES_IN)
        raise RefusedError(
            "no-thread-can-call",
            f"no thread can be made to call and put back as it was: the process {now.why_none}",
            ELSEWHERE,
        )
