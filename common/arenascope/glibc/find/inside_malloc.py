"""Tells whether a thread is inside malloc, by its stack: by frames as far as they are reliable, else by every word of
it.

A debugger's list of frames ends silently where unwinding fails, and may leave out what a signal handler interrupted. So
it is trusted as far as unwind tables cover it, and complete only if it ends at its thread's start.
"""

from __future__ import annotations

from typing import Callable, Iterator, NamedTuple, Optional, Sequence

from ...base.errors import MemoryReadError
from ...sources.elf.modules import modules_of
from ...sources.elf.unwind import MACHINES, Unwinder, UnwindTables
from ...sources.memory import Memory
from ...sources.target import Region, RegionIndex, Span, SymbolPlace, Target, ThreadInfo
from .libc_file import Libc, exported_symbols, lies_in_libc

EDGES = (
    "malloc",
    "free",
    "calloc",
    "realloc",
    "memalign",
    "malloc_trim",
    "mallopt",
    "malloc_info",
    "malloc_stats",
    "malloc_usable_size",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "mallinfo",
    "mallinfo2",
)
"""Functions that malloc.o exports under these names, in every release."""
FAMILY = frozenset(
    [
        *EDGES,
        "aligned_alloc",
        "cfree",
        "__libc_malloc",
        "__libc_malloc2",
        "__libc_calloc2",
        "__libc_free",
        "__libc_calloc",
        "__libc_realloc",
        "__libc_memalign",
        "__libc_pvalloc",
        "__libc_valloc",
        "__posix_memalign",
        "_int_malloc",
        "_int_free",
        "_int_realloc",
        "_int_memalign",
        "_mid_memalign",
        "sysmalloc",
        "sysmalloc_mmap",
        "sysmalloc_mmap_fallback",
        "systrim",
        "malloc_printerr",
        "alloc_perturb",
        "detach_arena",
        "mtrim",
        "malloc_consolidate",
        "unlink_chunk",
        "munmap_chunk",
        "mremap_chunk",
        "heap_trim",
        "grow_heap",
        "shrink_heap",
        "new_heap",
        "alloc_new_heap",
        "arena_get2",
        "arena_get_retry",
        "reused_arena",
        "_int_new_arena",
        "ptmalloc_init",
        "tcache_init",
        "tcache_get",
        "tcache_put",
        "tcache_thread_shutdown",
        "__malloc_arena_thread_freeres",
        "__malloc_fork_lock_parent",
        "__malloc_fork_unlock_parent",
        "__malloc_fork_unlock_child",
        "_int_free_chunk",
        "_int_free_merge_chunk",
        "_int_free_create_chunk",
        "_int_free_maybe_consolidate",
        "_int_free_maybe_trim",
        "int_mallinfo",
        "__malloc_info",
        "__malloc_trim",
    ]
)
"""Functions of malloc.c and arena.c, in every release."""
FORKS = ("fork", "_Fork", "__libc_fork")
"""Functions elsewhere that hold malloc's locks for a while."""
STATICS_IN_FRONT = 0x4900
"""malloc.o's static functions come before its exported ones: 0x3c00 (armhf) to 0x4900 (s390x) bytes of them."""
LAST_FUNCTION = 0x600
"""The assumed size of a function of unknown length."""
BESIDE = ("timer_", "__timer_", "sem_", "__new_sem_", "pthread_", "__pthread_", "___pthread_", "__futex_")
"""Names in files that are linked in front of malloc.o (since 2.34; in static programs others than in libc.so), where
threads wait. None of them is malloc's."""


UNKNOWN_CODE = "where malloc's code lies is not known: a thread could be inside"
LOAD_SYMBOLS = "load libc's symbols"


class StackFrame(NamedTuple):
    """One frame of a thread, innermost first."""

    pc: int
    name: Optional[str]
    stack_pointer: Optional[int] = None


class MallocCode:
    """Malloc's code in one libc, or in the program itself if that is static."""

    def __init__(
        self, target: Target, memory: Memory, libc: Libc, regions: Sequence[Region], symbols: bool = False
    ) -> None:
        """`symbols`: the target's symbols are this libc's."""
        self.libc = _code_of(libc, regions)
        edges, forks = _functions(target, memory, libc, EDGES), _functions(target, memory, libc, FORKS)
        self._sbrk = _functions(target, memory, libc, ("sbrk",))
        self.known = bool(edges)
        first = min((start for start, _ in edges), default=0)
        self._exported = Span(first, max((end for _, end in edges), default=0))
        self._ranges = [Span(first - STATICS_IN_FRONT, self._exported.end), *forks] if edges else forks
        # where names of static functions were stripped, an address has the name of whatever lies in front of it
        named = symbols and target.symbol("_int_malloc") is not None
        self._describe: Callable[[int], Optional[SymbolPlace]] = target.describe if named else lambda address: None
        self._has_names = lies_in_libc(libc)

    def holds(self, address: int) -> bool:
        return any(low <= address < high for low, high in self._ranges) and not self._is_beside(address)

    def _is_beside(self, address: int) -> bool:
        """Tells whether it certainly belongs to another file, although it may look like malloc's."""
        place = self._describe(address) if address < self._exported.start else None
        return place is not None and place.name.startswith(BESIDE)

    def owns(self, frame: StackFrame) -> bool:
        """Tells whether it is malloc's: by place; by name only within libc itself, where compilers move cold code
        (`free.cold`)."""
        if self.holds(frame.pc):
            return True
        return self._has_names and plain_name(frame.name) in FAMILY and self.in_libc(frame.pc)

    def in_sbrk(self, address: int) -> bool:
        """Tells whether it is in a function of libc's that malloc calls, and which calls brk() in turn."""
        return any(low <= address < high for low, high in self._sbrk)

    def in_libc(self, address: int) -> bool:
        return any(region.contains(address) for region in self.libc)


def plain_name(name: Optional[str]) -> str:
    """Removes what compilers and linkers add; __GI_ marks a name that is hidden within glibc."""
    return (name or "").split(".")[0].split("@")[0].removeprefix("__GI_")


def _code_of(libc: Libc, regions: Sequence[Region]) -> list[Region]:
    module = next((each for each in modules_of(regions) if each[0].start == libc.base), [])
    return [region for region in module if region.executable] or list(module)


def _functions(target: Target, memory: Memory, libc: Libc, names: Sequence[str]) -> list[Span]:
    """Returns libc's functions from its own tables, as the debugger's may be another library's."""
    symbols = exported_symbols(memory, libc, names)
    if symbols:
        return [Span(each.value, each.value + (each.size or LAST_FUNCTION)) for each in symbols.values()]
    if lies_in_libc(libc):
        return []
    told = [target.symbol(name) for name in names]
    return [Span(each.address, each.address + LAST_FUNCTION) for each in told if each is not None]


START = 64 << 10
"""A thread's first frame lies within this distance of its control block, below TLS variables."""
MAX_BYTES = 64 << 20
"""The most bytes of a stack that are searched."""
STACKS = 16
"""The most stacks that one thread may be on: a handler's, what that interrupted, and so on."""
RETURNS = 4
"""The most words of a stack above the return address of a function that malloc calls (brk, mprotect)."""
SAVED = 10
"""How many more if that is sbrk, which saves registers. Further words may be left from long ago."""
# struct rt_sigframe of x86-64 (asm/ucontext.h), in words from uc_flags on: uc_link, rsp, rip and the segments, of
# which cs and ss are the same in every 64-bit process
UC_LINK, UC_SP, UC_PC, UC_SEGMENTS = 1, 20, 21, 23
CS, SS = 0x33, 0x2B
MAIN = "[stack]"
ADDRESS_BITS = {"aarch64": 48}
"""Bits above these may be a signature of a return address (pointer authentication)."""
CALLS_PUSH = ("x86_64", "x32", "i386")
"""Machines where a call leaves its return address on the stack; on others it is in a register at first."""


class Interrupted(NamedTuple):
    """The place that a signal handler's frame returns to."""

    pc: int
    stack_pointer: int


class Believed(NamedTuple):
    """The reliable frames of a thread's stack, innermost first."""

    frames: Sequence[StackFrame]
    whole: bool
    """Whether they reach to the thread's start."""


class ThreadStacks:
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
        """Returns the frames that were unwound by tables."""
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
        """Tells whether a first frame lies where threads begin, and not on a stack that the program made
        (makecontext)."""
        if pointer is None:
            return False
        if thread.thread_pointer is not None and 0 <= thread.thread_pointer - pointer < START:
            return True
        region = self._writable.find(pointer)
        return region is not None and region.path == MAIN

    # words

    def why_unsure(self, thread: ThreadInfo, caller: Optional[int] = None) -> Optional[str]:
        """Returns why a thread may be inside malloc, if its frames are not known to the end; None if it cannot be.

        `caller`: the caller of its innermost function by a debugger, if no table tells it.
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
        """Yields (address, value) of every word that may point into malloc's module."""
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
        """Returns the stack that the thread was started with."""
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
        """Returns the end of the stack that holds this address: the thread's control block, or the mapping's end."""
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
        """Returns what signal handlers interrupted whose frames lie in this part of a stack, innermost first."""
        if not self._tells_handlers:
            return []
        contexts: list[Interrupted] = []
        words = self.memory.try_words(start, (end - start) // 8) or ()
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
        """Recognises __restore_rt: mov $15, %eax; syscall."""
        code = self.memory.try_read(address, 9)
        return code is not None and code[-2:] == b"\x0f\x05" and code[-6:-2] == b"\x0f\0\0\0"

    def in_malloc(self, thread: ThreadInfo) -> bool:
        """Tells whether it is in malloc or in what malloc called, or a handler that it is in interrupted it there.

        This serves a look: no word that may be left from long ago counts.
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
        """Yields this place and its callers by unwind tables, using the stack pointer alone, innermost first."""
        machine = MACHINES.get(self.machine)
        if machine is None:
            return [place]
        frames = Unwinder(self.memory, self.tables, self.machine).frames(
            {machine.stack: place.stack_pointer}, place.pc, STACKS
        )
        return [Interrupted(frame.pc, frame.stack_pointer) for frame in frames]


LOOK = 8 << 20
"""How far up a stack the frames of signal handlers are searched for."""
