"""What threads hold: the part of its stack that each uses, its own variables, its registers."""

from __future__ import annotations

from collections import Counter
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from ...glibc.find.inside_malloc import MAIN
from ...glibc.find.thread_pointers import AT_BLOCK, Dtv, UsedStack, used_stacks
from ...session.session import Session
from ...sources.elf.elf_file import EM_386, EM_AARCH64, EM_X86_64, NT_FPREGSET, NT_VECTORS, NT_X86_XSTATE, OWN
from ...sources.elf.registers import GENERAL, WIDE_BYTES
from ...sources.memory import Memory
from ...sources.target import Region, RegionIndex, RegisterSet, RegisterSets, Span, ThreadInfo
from .blocks import SpanMark

RED_ZONE = {"x86_64": 128, "ppc64": 512}
"""How far below its stack pointer a function may keep words: the ABI's word."""
VECTOR = "vector-register"
CONTROL = 0x1000
"""struct pthread is shorter on every machine; where TLS lies below the thread pointer it begins there."""
NUMBERS = {"x86_64": EM_X86_64, "i386": EM_386, "aarch64": EM_AARCH64}
# of NT_X86_XSTATE, in the standard form that ptrace gives: where each part lies, bytes of a register, its name
X86_PARTS = ((160, 16, 16, "xmm"), (576, 16, 16, "ymm"), (1152, 32, 16, "zmm"), (1664, 64, 16, "zmm"))


class RegisterWord(NamedTuple):
    """A word that a register holds."""

    tid: int
    name: str
    value: int
    stale: Optional[str] = None
    """Why it is perhaps old."""


class StackWords:
    """What of each thread's stack counts."""

    def __init__(
        self, session: Session, threads: Sequence[ThreadInfo], dtvs: Mapping[int, Dtv], constants: Memory
    ) -> None:
        """`constants`: memory together with what files have of it."""
        self._machine = session.target.machine
        self._pid = session.target.pid
        self._page = session.target.page_size
        writable = [each for each in session.regions if each.writable]
        self._region = RegionIndex(writable).find
        self._code = RegionIndex([each for each in session.regions if each.executable]).find
        self._memory = session.memory
        self._by_end = {each.end: each for each in session.regions}
        self._main = next((each for each in writable if each.path == MAIN), None)
        self._threads = threads
        self._dtvs = dtvs
        places = {(each.tid, self._region(at)) for each in threads for at in (each.stack_pointer, each.thread_pointer)}
        self._users = Counter(region for _, region in places)
        self.popped: list[Span] = []
        """Of stacks that the program gave to threads, what lies below the stack pointer: known with the marks."""
        self._known = used_stacks(constants, self._machine, session.located.libc)

    def marks(self) -> Iterator[SpanMark]:
        """Stacks and TLS, and what lies below a stack pointer. Of what bears no mark all counts."""
        for thread in self._threads:
            yield from self._variables(thread)
        for thread in self._threads:
            yield from self._stack(thread)

    def _own(self, thread: ThreadInfo) -> Optional[Region]:
        """Where its first stack lies."""
        main = self._main if thread.tid == self._pid else None
        return main if main is not None else self._region(thread.thread_pointer)

    def _variables(self, thread: ThreadInfo) -> Iterator[SpanMark]:
        """struct pthread and the TLS blocks beside it. What the thread was started with is no variable of its own."""
        pointer, region = thread.thread_pointer, self._region(thread.thread_pointer)
        if pointer is None or region is None:
            return
        dtv = self._dtvs.get(thread.tid)
        beside = [each.start for each in dtv.blocks if region.contains(each.start)] if dtv is not None else []
        if self._machine in AT_BLOCK:
            start, end = min([pointer, *beside]), self._end(thread, pointer)
            control = Span(pointer, min(end, region.end))
        else:
            known = self._stack_of(thread)
            start, end = pointer - CONTROL, known.stack.end if known is not None else region.end
            control = Span(max(start, region.start), pointer)
        for address in self._arguments(control):
            yield SpanMark(address, address + self._memory.pointer_size, "stack", thread.tid)
        yield SpanMark(max(start, region.start), min(end, region.end), "tls", thread.tid)

    def _arguments(self, control: Span) -> Iterator[int]:
        """Where struct pthread has what pthread_create was given: behind the function (start_routine, arg)."""
        word = self._memory.pointer_size
        words = self._memory.try_words(control.start, min(control.bytes, CONTROL) // word) or ()
        for at, value in enumerate(words[:-1], 1):
            if self._code(value) is not None:
                yield control.start + at * word

    def _stack(self, thread: ThreadInfo) -> Iterator[SpanMark]:
        pointer, here = thread.stack_pointer, self._region(thread.stack_pointer)
        own = self._own(thread)
        if own is not None and own != here:
            # it is on another one meanwhile (sigaltstack, swapcontext): all of its own counts
            known = self._stack_of(thread) if own != self._main else None
            start = max(own.start, known.stack.start) if known is not None else own.start
            yield SpanMark(start, self._limit(own, thread), "stack", thread.tid)
        if pointer is None or here is None:
            return
        start = max(here.start, pointer - RED_ZONE.get(self._machine, 0))
        begin, known = self._begin(thread, pointer, here), self._stack_of(thread)
        if begin is not None:
            yield SpanMark(begin, start, None)
        elif known is not None and known.given and known.stack.start <= pointer < known.stack.end:
            self.popped.append(Span(known.stack.start, start))
        yield SpanMark(start, self._limit(here, thread), "stack", thread.tid)

    def _stack_of(self, thread: ThreadInfo) -> Optional[UsedStack]:
        pointer = thread.thread_pointer
        return self._known.get(pointer) if self._known is not None and pointer is not None else None

    def _begin(self, thread: ThreadInfo, at: int, here: Region) -> Optional[int]:
        """Where the stack that a thread is on certainly begins; None: below it may be anything of the program's."""
        if self._known is not None and here != self._main:
            known = self._stack_of(thread)
            sure = known is not None and not known.given and known.stack.start <= at < known.stack.end
            return max(known.stack.start, here.start) if known is not None and sure else None
        # no other thread has anything there
        alone = here == self._own(thread) and self._users[here] == 1
        return here.start if alone and (here == self._main or self._is_guarded(here)) else None

    def _is_guarded(self, region: Region) -> bool:
        """Whether it begins above what nobody may touch: the kernel joins mappings, and a stack can lie in .bss."""
        below = self._by_end.get(region.start)
        if below is None or below.readable or below.is_file:
            return False
        while below is not None and not below.is_file:
            below = self._by_end.get(below.start)
        return below is None or not below.writable

    def _limit(self, region: Region, thread: ThreadInfo) -> int:
        pointer = thread.thread_pointer
        if region.path == MAIN or pointer is None or not region.contains(pointer):
            return region.end
        return min(region.end, self._end(thread, pointer))

    def _end(self, thread: ThreadInfo, pointer: int) -> int:
        """After a thread's control block lies what the kernel has joined with its stack."""
        known = self._stack_of(thread)
        return known.stack.end if known is not None else -(-(pointer + CONTROL) // self._page) * self._page


def registers(session: Session, sets: Sequence[RegisterSets]) -> Iterator[RegisterWord]:
    """Every word of every register that is known."""
    memory = session.memory
    names = GENERAL.get(NUMBERS.get(session.target.machine, 0), ())
    # a process of 32 bits under a kernel of 64 has 32-bit registers here, too
    for thread in sets:
        for index, value in enumerate(memory.unpack_words(thread.general)):
            yield RegisterWord(thread.tid, names[index] if index < len(names) else f"register {index}", value)
        seen: set[tuple[str, int]] = set()
        for each in thread.others:
            for name, value in _vectors(memory, session.target.machine, each):
                if (name, value) not in seen:
                    seen.add((name, value))
                    yield RegisterWord(thread.tid, name, value, VECTOR)


def _vectors(memory: Memory, machine: str, registers: RegisterSet) -> Iterator[tuple[str, int]]:
    word = memory.pointer_size
    for index, value in enumerate(memory.unpack_words(registers.data)):
        at = index * word
        if (registers.owner, registers.type) == (OWN, NT_VECTORS):
            yield f"{'ymm' if at % WIDE_BYTES >= 16 else 'xmm'}{at // WIDE_BYTES}", value
        elif machine == "aarch64" and registers.type == NT_FPREGSET and at < 512:
            yield f"v{at // 16}", value
        elif machine in ("x86_64", "i386") and registers.type in (NT_FPREGSET, NT_X86_XSTATE):
            yield _x86_name(at), value
        else:
            yield "vector register", value


def _x86_name(at: int) -> str:
    for start, size, number, name in X86_PARTS:
        if start <= at < start + size * number:
            return f"{name}{(at - start) // size + (16 if start == X86_PARTS[-1][0] else 0)}"
    return "vector register"
