"""Doing what `heap trim` planned, in the live process, and only when nothing is inside malloc.

An arena's mutex alone proves nothing: a single-threaded program takes none (since 2.27). So every thread must be out
of malloc, by its frames. Threads that are inside are let run alone until they are out, one after the other; then
everything is looked at afresh, as they may have changed it.
"""

from __future__ import annotations

import time
from typing import Callable, NamedTuple, Optional, Protocol, Sequence

from .errors import RefusedError
from .glibc.brk import exported
from .glibc.libc_file import Libc
from .session import Session
from .target import ThreadInfo

MADV_DONTNEED = 4
STEP_SECONDS = (0.1, 0.5, 2.0)
"""How long a thread may take out of malloc, until none gets out in so long a time."""
CALL_SECONDS = 120.0
ROUNDS = 20
FRAMES = 256

FAMILY = frozenset(
    [
        "malloc",
        "free",
        "calloc",
        "realloc",
        "reallocarray",
        "memalign",
        "aligned_alloc",
        "posix_memalign",
        "valloc",
        "pvalloc",
        "cfree",
        "mallopt",
        "malloc_trim",
        "malloc_info",
        "malloc_stats",
        "mallinfo",
        "mallinfo2",
        "malloc_usable_size",
        "fork",
        "_Fork",
        "vfork",
        "__libc_malloc",
        "__libc_malloc2",
        "__libc_calloc2",
        "__libc_free",
        "__libc_calloc",
        "__libc_realloc",
        "__libc_memalign",
        "__libc_fork",
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
LOCK_WAITS = ("__lll_lock_wait_private", "__lll_lock_wait", "__GI___lll_lock_wait_private", "__GI___lll_lock_wait")
EDGES = ("malloc", "free", "calloc", "realloc", "memalign", "malloc_trim", "mallopt", "malloc_info", "reallocarray")
STATICS_IN_FRONT = 0x4900
"""malloc.o's static functions come before its exported ones: 0x3c00 (armhf) to 0x4900 (s390x) bytes of them."""
LAST_FUNCTION = 0x600


class StackFrame(NamedTuple):
    """One frame of a thread, innermost first."""

    pc: int
    name: Optional[str]


class Controller(Protocol):
    """What a door needs to be able to do to a live process, beyond looking."""

    def frames(self, thread: ThreadInfo, most: int) -> Sequence[StackFrame]: ...

    def step_out(self, thread: ThreadInfo, depth: int, seconds: float) -> bool:
        """Lets this thread alone run until its frame `depth` has returned; False where it does not within the time."""

    def call(self, address: int, arguments: Sequence[int], seconds: float, is_lock_wait: Callable[[str], bool]) -> int:
        """Calls a function in the process while every other thread is held; RefusedError where it does not return."""


class Applied(NamedTuple):
    """What was done, and what it brought: in bytes of Anonymous and Rss out of smaps_rollup."""

    rss_before: int
    rss_after: int
    predicted_bytes: Optional[int]
    released_bytes: int
    seconds: float
    done: Sequence[str]


class MallocCode:
    """Tells whether a frame belongs to malloc: by name where libc's symbols are loaded, by place where they are not."""

    def __init__(self, session: Session, by_name: bool) -> None:
        self.by_name = by_name
        self.low, self.high = _code_range(session, session.located.libc)

    def owns(self, frame: StackFrame) -> bool:
        # __GI_: glibc's mark of a name that is hidden within it (__GI___libc_malloc)
        if frame.name is not None and frame.name.split(".")[0].split("@")[0].removeprefix("__GI_") in FAMILY:
            return True
        return not self.by_name and self.low <= frame.pc < self.high


def _code_range(session: Session, libc: Libc) -> tuple[int, int]:
    found = list(exported(session.memory, libc, *EDGES).values())
    return (min(found) - STATICS_IN_FRONT, max(found) + LAST_FUNCTION) if found else (0, 0)


def settle(controller: Controller, session: Session) -> None:
    """Brings every thread out of malloc, or RefusedError with the name of one that stays."""
    code = MallocCode(session, session.located.located_by == "symbols")
    threads = session.target.threads()
    patience = iter(STEP_SECONDS)
    seconds = next(patience)
    for _ in range(ROUNDS):
        inside = [(thread, depth, waits) for thread in threads
                  for depth, waits in [_depth_in_malloc(controller, code, thread)] if depth is not None]  # fmt: skip
        if not inside:
            return
        # who holds a lock must go first: those that wait would only wait on
        runnable = [entry for entry in inside if not entry[2]] or inside
        out = [controller.step_out(thread, depth, seconds) for thread, depth, _ in runnable]
        if any(out):
            continue
        # one that ran may by now wait for what another one holds, so all are tried again, and longer
        longer = next(patience, None)
        if longer is None:
            raise _stuck(runnable[0][0], session)
        seconds = longer
    raise RefusedError("threads keep entering malloc", "let the process run for a moment, then try again")


def _stuck(thread: ThreadInfo, session: Session) -> RefusedError:
    locked = [f"arena {header.index}" for header in Session(session.target, session.libc).headers if header.mutex]
    where = f" while {' and '.join(locked)} {'is' if len(locked) == 1 else 'are'} locked" if locked else ""
    who = f"thread {thread.tid} ({thread.name or 'no name'})"
    return RefusedError(f"{who} is inside malloc and does not leave it{where}",
                        "let the process run for a moment, then try again")  # fmt: skip


def _depth_in_malloc(controller: Controller, code: MallocCode, thread: ThreadInfo) -> tuple[Optional[int], bool]:
    """The outermost frame of malloc's on this thread's stack (None: none), and whether it waits for a lock."""
    frames = controller.frames(thread, FRAMES)
    depths = [depth for depth, frame in enumerate(frames) if code.owns(frame)]
    waits = any(frame.name in LOCK_WAITS for frame in frames[:3])
    return (depths[-1] if depths else None), waits


def check_locks(session: Session) -> None:
    """RefusedError where an arena is locked although no thread is inside malloc (a fork in progress, a lost lock)."""
    for header in session.headers:
        if header.mutex:
            raise RefusedError(f"arena {header.index} is locked, and no thread is seen inside malloc",
                               "let the process run for a moment, then try again")  # fmt: skip


def call_trim(controller: Controller, session: Session) -> None:
    address = _function(session, "malloc_trim")
    controller.call(address, [0], CALL_SECONDS, lambda name: name in LOCK_WAITS)


def release_tops(controller: Controller, session: Session, ranges: Sequence[tuple[int, int]]) -> None:
    """madvise(MADV_DONTNEED): takes none of malloc's locks, and top's pages behind its header hold nothing."""
    address = _function(session, "madvise")
    for start, size in ranges:
        controller.call(address, [start, size, MADV_DONTNEED], CALL_SECONDS, lambda name: False)


def _function(session: Session, name: str) -> int:
    """libc's own, out of its tables in memory: the debugger's may be another library's."""
    found = exported(session.memory, session.located.libc, name).get(name)
    if found is None:
        symbol = session.target.symbol(name)
        found = symbol.address if symbol else None
    if found is None:
        raise RefusedError(f"{name} was not found in this process", "load libc's symbols")
    return found


class Stopwatch:
    """Seconds that a piece of work took."""

    def __enter__(self) -> Stopwatch:
        self.started = time.monotonic()
        self.seconds = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self.started
