"""Whether a thread is inside malloc, by its stack: by frames as far as they can be believed, else by every word of it.

A debugger's list of frames ends silently where unwinding fails, and may leave out what a signal handler interrupted.
So it is believed as far as unwind tables cover it, and known to be all only where it ends at its thread's start.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

from ...base.errors import MemoryReadError
from ...sources.elf.unwind import MACHINES, Unwinder, UnwindTables
from ...sources.memory import Memory
from ...sources.target import Region, RegionIndex, Span, ThreadInfo
from .malloc_code import MallocCode, StackFrame

START = 64 << 10
"""A thread's first frame lies within this distance of its control block, below TLS variables."""
MAX_BYTES = 64 << 20
"""How many bytes of a stack are searched."""
STACKS = 16
"""How many stacks one thread may be on: a handler's, what that interrupted, and so on."""
RETURNS = 4
"""How many words of a stack may lie above the return address of a function that malloc calls (brk, mprotect)."""
SAVED = 10
"""How many more where that is sbrk, which saves registers. Further words may be left from long ago."""
# struct rt_sigframe of x86-64 (asm/ucontext.h), in words from uc_flags on: uc_link, rsp, rip and the segments, of
# which cs and ss are the same in every 64-bit process
UC_LINK, UC_SP, UC_PC, UC_SEGMENTS = 1, 20, 21, 23
CS, SS = 0x33, 0x2B
MAIN = "[stack]"
ADDRESS_BITS = {"aarch64": 48}
"""Above them a return address may be signed (pointer authentication)."""
CALLS_PUSH = ("x86_64", "x32", "i386")
"""Machines on which a call leaves its return address on the stack; on others it is in a register at first."""


class Interrupted(NamedTuple):
    """Where a signal handler's frame says that it came from."""

    pc: int
    stack_pointer: int


class Believed(NamedTuple):
    """The frames of a thread's stack that are certain, innermost first."""

    frames: Sequence[StackFrame]
    whole: bool
    """Whether they reach to the thread's start."""


class Stacks:
    """The stacks of one process at one moment."""

    def __init__(
        self, memory: Memory, machine: str, regions: Sequence[Region], code: MallocCode, pid: Optional[int]
    ) -> None:
        self.memory, self.machine, self.regions, self.code, self.pid = memory, machine, regions, code, pid
        self.tables = UnwindTables(memory, regions)
        self._writable = RegionIndex([each for each in regions if each.writable])
        self._main = next((each for each in regions if each.path == MAIN), None)
        self._unsigned = (1 << ADDRESS_BITS.get(machine, 8 * memory.pointer_size)) - 1

    # frames

    def believed(self, frames: Sequence[StackFrame], thread: ThreadInfo) -> Believed:
        """The frames that were unwound by tables."""
        exact = True
        unwind = None
        for index, frame in enumerate(frames):
            # a call may be its function's last instruction: what follows is another's; inlined frames share one place
            same = not index or frame.pc == frames[index - 1].pc
            exact = (exact and same) or (unwind is not None and unwind.entry.is_signal)
            unwind = self.tables.find(frame.pc if exact else frame.pc - 1)
            if unwind is None:
                return Believed(frames[: index + 1], whole=False)
        at_start = unwind is not None and unwind.is_start and self._is_own(frames[-1].stack_pointer, thread)
        return Believed(frames, whole=at_start)

    def _is_own(self, pointer: Optional[int], thread: ThreadInfo) -> bool:
        """Whether a first frame lies where threads begin, and not on a stack that the program made (makecontext)."""
        if pointer is None:
            return False
        if thread.thread_pointer is not None and 0 <= thread.thread_pointer - pointer < START:
            return True
        region = self._writable.find(pointer)
        return region is not None and region.path == MAIN

    # words

    def why_unsure(self, thread: ThreadInfo, caller: Optional[int] = None) -> Optional[str]:
        """Why a thread may be inside malloc, where its frames are not known to the end; None where it cannot be.

        `caller`: where a debugger says that its innermost function was called, of which no table tells.
        """
        if self.machine not in CALLS_PUSH:
            links = [each for each in (thread.link_register, caller) if each is not None]
            if any(self.code.holds(each & self._unsigned) for each in links):
                return "malloc's code is where its innermost function returns to"
        if thread.stack_pointer is None:
            return "where its stack lies is not known"
        own = self._own_stack(thread)
        if own is None:
            return "where its stack lies is not known"
        parts: list[Span] = []
        # a handler's stack can lie in the middle of the thread's own, beyond what was interrupted
        todo = [thread.stack_pointer] if self._tells_handlers else [thread.stack_pointer, own.start]
        while todo and len(parts) < STACKS:
            start = todo.pop()
            end = self._end(start, thread)
            if end is None:
                return f"its stack at {start:#x} is not mapped"
            if any(low <= start < high for low, high in parts):
                continue
            parts.append(Span(start, end))
            hit = self._hit(start, end)
            if hit is not None:
                return hit
            todo += [each.stack_pointer for each in self.interrupted(start, end)]
        if todo:
            return "it is on more stacks than can be followed"
        reached = any(own.start <= each.start < own.end for each in parts)
        return None if reached else self._hit(*own)

    def _hit(self, start: int, end: int) -> Optional[str]:
        if end - start > MAX_BYTES:
            return f"its stack from {start:#x} on is too large to be looked through"
        word = self.memory.pointer_size
        start = -(-start // word) * word
        try:
            for at, value in self._words(start, end):
                if self.code.holds(value):
                    return f"malloc's code is on its stack at {at:#x}"
        except MemoryReadError:
            return f"its stack from {start:#x} on cannot be read"
        return None

    def _words(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(address, value) of every word that malloc's module could hold."""
        word = self.memory.pointer_size
        low = min((region.start for region in self.code.libc), default=0)
        high = max((region.end for region in self.code.libc), default=1 << (8 * word))
        while start < end:
            size = min(end - start, Memory.BLOCK) // word * word
            values = self.memory.words(start, size // word)
            if self.machine in ADDRESS_BITS:
                values = tuple(value & self._unsigned for value in values)
            yield from [(start + word * at, value) for at, value in enumerate(values) if low <= value < high]
            if not size:
                return
            start += size

    def _own_stack(self, thread: ThreadInfo) -> Optional[Span]:
        """The stack that the thread was started with."""
        main = self._main
        if main is not None and (thread.tid == self.pid or main.contains(thread.stack_pointer or 0)):
            return Span(main.start, main.end)
        if thread.lone:
            # what clone(2) was given: its thread pointer is that of another thread, and so is the stack below that
            given = self._writable.find(thread.stack_pointer)
            return Span(given.start, given.end) if given is not None else None
        region = self._writable.find(thread.thread_pointer)
        return Span(region.start, thread.thread_pointer or region.end) if region is not None else None

    def _end(self, start: int, thread: ThreadInfo) -> Optional[int]:
        """Where the stack that holds this address ends: at the thread's control block, or with its mapping."""
        region = self._writable.find(start)
        if region is None:
            return None
        pointer = thread.thread_pointer or 0
        return pointer if region.contains(pointer) and pointer > start else region.end

    # signal handlers

    @property
    def _tells_handlers(self) -> bool:
        return self.machine == "x86_64"

    def interrupted(self, start: int, end: int) -> list[Interrupted]:
        """What signal handlers interrupted whose frames lie in this part of a stack, innermost first."""
        if not self._tells_handlers:
            return []
        contexts: list[Interrupted] = []
        try:
            words = self.memory.words(start, (end - start) // 8)
        except MemoryReadError:
            return []
        for at, value in enumerate(words):
            if value & 0xFFFF != CS or value >> 48 not in (SS, 0):
                continue
            first = at - UC_SEGMENTS
            # in front of uc_flags lies where the handler returns to
            if first < 1 or words[first + UC_LINK] or not self._is_signal_return(words[first - 1]):
                continue
            contexts.append(Interrupted(words[first + UC_PC], words[first + UC_SP]))
        return contexts

    def _is_signal_return(self, address: int) -> bool:
        """__restore_rt: mov $15, %eax; syscall."""
        code = self.memory.try_read(address, 9)
        return code is not None and code[-2:] == b"\x0f\x05" and code[-6:-2] == b"\x0f\0\0\0"

    def in_malloc(self, thread: ThreadInfo) -> bool:
        """Whether it stands in malloc or in what malloc called, or a handler that it is in interrupted it there.

        For a look: no word that may be left from long ago counts.
        """
        if thread.program_counter is None:
            return False
        places = [Interrupted(thread.program_counter, thread.stack_pointer or 0)]
        if thread.stack_pointer is not None:
            starts, seen = [thread.stack_pointer], {0}
            while starts and len(seen) < STACKS:
                start = starts.pop()
                end = self._end(start, thread)
                if end is None or start in seen:
                    continue
                seen.add(start)
                below = self.interrupted(start, min(end, start + LOOK))
                places += below
                starts += [each.stack_pointer for each in below if not start <= each.stack_pointer < end]
        return any(self._is_inside(place) for place in places)

    def _is_inside(self, place: Interrupted) -> bool:
        for place in self._callers(place):  # noqa: B020
            if self.code.holds(place.pc):
                return True
            if not self.code.in_libc(place.pc):
                return False
        # one of the words above tells who called this
        pc, at, word = *place, self.memory.pointer_size
        above = [self.memory.try_word(at + n * word) for n in range(RETURNS)]
        if any(value is not None and self.code.in_sbrk(value) for value in (pc, *above)):
            above = [self.memory.try_word(at + n * word) for n in range(RETURNS + SAVED)]
        return any(value is not None and self.code.holds(value & self._unsigned) for value in above)

    def _callers(self, place: Interrupted) -> Sequence[Interrupted]:
        """This, and the places that unwind tables tell of by the stack pointer alone, innermost first."""
        machine = MACHINES.get(self.machine)
        if machine is None:
            return [place]
        frames = Unwinder(self.memory, self.tables, self.machine).frames(
            {machine.stack: place.stack_pointer}, place.pc, STACKS
        )
        return [Interrupted(frame.pc, frame.stack_pointer) for frame in frames]


LOOK = 8 << 20
"""How far up a stack the frames of signal handlers are searched for."""
