"""Doing what `heap trim` planned, in the live process, and only when nothing is inside malloc.

An arena's mutex alone proves nothing: a single-threaded program takes none (since 2.27). So every thread must be out
of malloc, by its frames. Threads that are inside are let run alone until they are out, one after the other; then
everything is read again, as they may have changed it.
"""

from __future__ import annotations

import time
from typing import AbstractSet, Callable, Iterator, NamedTuple, Optional, Protocol, Sequence

from ...base.errors import RefusedError
from ...base.model import Range
from ...base.printable import one_line
from ...glibc.find.inside_malloc import LOAD_SYMBOLS, UNKNOWN_CODE, MallocCode, StackFrame, ThreadStacks
from ...glibc.find.libc_file import exported
from ...glibc.find.thread_pointers import complete
from ...session.session import Session
from ...session.trims import code_of
from ...sources.live.procfiles import is_zombie, name_of, seccomp_modes, status_number
from ...sources.target import ThreadInfo

MADV_DONTNEED = 4
SECCOMP_STRICT = 1
STEP_SECONDS = (0.1, 0.5, 2.0)
"""How long a thread may take to leave malloc; each is tried until none leaves in that time."""
CALL_SECONDS = 120.0
ELSEWHERE = "use --apply from GDB or LLDB"
ANOTHER_WAY = "let the process run for a moment, then try again"
ROUNDS = 20
"""Of a controller that can stop a thread just where it leaves malloc."""
FRAMES = 1 << 14
"""How many frames of a thread are read: of a deeper stack the words are examined instead."""

LOCK_WAITS = ("__lll_lock_wait_private", "__lll_lock_wait", "__GI___lll_lock_wait_private", "__GI___lll_lock_wait")

DEBUGGERS = ("gdb", "lldb")
"""Names of programs that may have these commands, lldb-server among them, begin so."""

FATAL_SIGNALS = ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS")
"""Raised by what the call itself does: to deliver one of these would end the process."""


# what every Controller says alike


def locked_out() -> RefusedError:
    return RefusedError(
        "call-waited-for-lock", "the call waited for a lock that nobody gave back, and was taken back", ANOTHER_WAY
    )


def still_at_work() -> RefusedError:
    return RefusedError(
        "call-at-work", "the call is still at work and must not be broken off", "`continue` lets it finish"
    )


def taken_back(signal: str) -> RefusedError:
    """The call was unwound at one of the fatal signals."""
    return RefusedError(
        "call-taken-back",
        f"the call was taken back at {signal}, which would have ended the process",
        "check shows the heap; an arena that was locked then still is",
    )


def gone(thread: ThreadInfo) -> RefusedError:
    return RefusedError("thread-gone", f"thread {thread.tid} is gone", "try again")


class FunctionCall(NamedTuple):
    """A function to be called in the process."""

    address: int
    arguments: Sequence[int]
    lock: Optional[int] = None
    """What must be held meanwhile, where a controller's own end would let other threads run."""

    @property
    def expression(self) -> str:
        """In C, which every debugger takes."""
        types = ", ".join("unsigned long" for _ in self.arguments)
        values = ", ".join(f"{value}UL" for value in self.arguments)
        return f"((long (*) ({types})) {self.address:#x}) ({values})"


class Controller(Protocol):
    """What a door needs to be able to do to a live process, beyond looking."""

    rounds: int
    """How often threads are let run before they are given up."""

    def frames(self, thread: ThreadInfo, limit: int) -> Sequence[StackFrame]: ...

    def step_out(self, thread: ThreadInfo, depth: int, seconds: float) -> bool:
        """Lets this thread alone run until its frame `depth` has returned; False where it does not within the time.

        Who cannot stop it just there lets it run for a moment, many `rounds`; False where it went nowhere.
        """

    def let_run(self, thread: ThreadInfo, times: int) -> bool:
        """Lets this thread alone run for a moment, as it may be inside; after so many `times` a longer one. False where
        that was often enough, or can only be done up to a place that a guess names."""

    def can_call(self, times: int) -> bool:
        """False where no thread could be made to call at this moment, and one was let run to get out of that: then all
        must be looked at again. `times` it was so before."""

    def call(self, what: FunctionCall, seconds: float, is_lock_wait: Callable[[str], bool]) -> int:
        """Calls a function in the process while every other thread is held; RefusedError where it does not return."""


class DebuggerController:
    """What is the same for every debugger."""

    rounds = ROUNDS

    def let_run(self, thread: ThreadInfo, times: int) -> bool:
        return False  # nor stopped by anything but a breakpoint, and where it would return to is a guess

    def can_call(self, times: int) -> bool:
        return True  # a debugger calls wherever a thread stands


class Whereabouts(NamedTuple):
    """Where one thread is."""

    thread: ThreadInfo
    depth: Optional[int] = None
    """The outermost of malloc's frames on its stack."""
    waits: bool = False
    """For a lock."""
    unsure: Optional[str] = None
    """Why it may be inside malloc, although no trusted frame is."""


def settle(controller: Controller, session: Session) -> None:
    """Brings every thread out of malloc, or RefusedError with the name of one that stays, or may be inside."""
    if session.located.other_file:
        raise RefusedError(
            "other-libc-loaded",
            "the debugger has loaded another libc than the process runs on: where its threads stand is not known",
            "arenascope trim --apply in the shell needs no files",
        )
    code = code_of(session)
    if not code.known:
        raise RefusedError(
            "malloc-code-unknown", UNKNOWN_CODE, ELSEWHERE if session.located.located_by == "symbols" else LOAD_SYMBOLS
        )
    patience = iter(STEP_SECONDS)
    seconds = next(patience)
    doubts = waits = 0
    suspects: Optional[set[int]] = None
    for _ in range(controller.rounds):
        inside = list(_inside(controller, session, code, suspects))
        if not inside and suspects is not None:
            # nobody else ran: it is asked of all once more all the same
            inside = list(_inside(controller, session, code))
        if not inside:
            if controller.can_call(waits):
                return
            waits, suspects = waits + 1, None
            continue
        suspects = {each.thread.tid for each in inside}
        unsure = next((each for each in inside if each.unsure), None)
        if unsure is not None:
            if controller.let_run(unsure.thread, doubts):
                doubts += 1
                continue  # it may stand elsewhere now
            raise RefusedError(
                "perhaps-inside-malloc",
                f"{_who(unsure.thread)} may be inside malloc: its stack cannot be followed to its end, "
                f"and {unsure.unsure}",
                ANOTHER_WAY,
            )
        # whoever holds a lock must go first: those that wait would only keep waiting
        runnable = [each for each in inside if not each.waits] or inside
        out = [controller.step_out(each.thread, each.depth or 0, seconds) for each in runnable]
        if any(out):
            continue
        # one that ran may by now wait for what another holds, so all are tried again, for longer
        longer = next(patience, None)
        if longer is None:
            raise _stuck(runnable[0].thread, session)
        seconds = longer
    raise RefusedError("threads-keep-entering-malloc", "threads keep entering malloc", ANOTHER_WAY)


def _inside(
    controller: Controller, session: Session, code: MallocCode, among: Optional[AbstractSet[int]] = None
) -> Iterator[Whereabouts]:
    """The threads (among these) that are inside malloc, or may be. Read again each time, as the process has run."""
    now = Session(session.target, session.libc)
    regions = now.regions
    where = now.memory, now.target.machine, session.located.libc, regions
    threads = complete(*where, threads=now.target.threads(), pid=now.target.pid)
    stacks = ThreadStacks(now.memory, now.target.machine, regions, code, pid=now.target.pid)
    for thread in threads:
        if among is not None and thread.tid not in among:
            continue
        if thread.runs:
            continue  # it leaves malloc by itself
        if thread.lone and not thread.stack_pointer:
            continue  # io_uring's: nothing of the process's own is ever run by it
        if thread.tid == now.target.pid and is_zombie(thread.tid, thread.tid):
            continue  # main's, which pthread_exit() ended: the kernel keeps no more of it than a name
        frames = controller.frames(thread, FRAMES)
        believed = stacks.believed(frames, thread)
        depths = [depth for depth, frame in enumerate(believed.frames) if code.owns(frame)]
        waits = any(frame.name in LOCK_WAITS for frame in believed.frames[:3])
        if depths and depths[-1] + 1 < len(believed.frames):
            yield Whereabouts(thread, depths[-1], waits)
        elif depths:
            yield Whereabouts(thread, unsure="what called malloc is not known")
        elif not believed.whole:
            reason = stacks.why_unsure(thread, frames[1].pc if len(believed.frames) == 1 < len(frames) else None)
            if reason is not None:
                yield Whereabouts(thread, unsure=reason)


def _who(thread: ThreadInfo) -> str:
    return f"thread {thread.tid} ({thread.name or 'no name'})"


def _stuck(thread: ThreadInfo, session: Session) -> RefusedError:
    locked = [f"arena {header.index}" for header in Session(session.target, session.libc).headers if header.mutex]
    where = f" while {' and '.join(locked)} {'is' if len(locked) == 1 else 'are'} locked" if locked else ""
    return RefusedError("inside-malloc", f"{_who(thread)} is inside malloc and does not leave it{where}", ANOTHER_WAY)


def check_tracer(pid: int) -> None:
    """RefusedError where somebody else traces the process, as the kernel lets only one."""
    tracer = status_number(pid, "TracerPid")
    if not tracer:
        return
    name = one_line(name_of(tracer)) or "a program"
    there = "type `heap trim --apply` there, or detach it" if name.startswith(DEBUGGERS) else "end that first"
    raise RefusedError("traced-by-another", f"{name} ({tracer}) traces process {pid}, and only one can", there)


def check_filters(pid: int, insist: bool) -> None:
    """RefusedError where a seccomp filter may end the process at a system call that it never made by itself."""
    try:
        modes = seccomp_modes(pid)
    except OSError:
        raise RefusedError("seccomp-unknown", "whether a seccomp filter forbids madvise cannot be read") from None
    strict = next((tid for tid, mode in modes.items() if mode == SECCOMP_STRICT), None)
    if strict is not None:
        raise RefusedError("seccomp-strict", f"thread {strict} is in seccomp's strict mode, in which madvise ends it")
    filtered = next((tid for tid, mode in modes.items() if mode), None)
    if filtered is not None and not insist:
        raise RefusedError(
            "seccomp-filter",
            f"thread {filtered} is under a seccomp filter, which may end the process at madvise or brk",
            "--even-under-seccomp insists",
        )


def check_tops(session: Session) -> None:
    """RefusedError where a thread that runs on could take memory from a top while its pages are given back."""
    running = next((thread for thread in session.target_threads if thread.runs), None)
    if running is not None:
        raise RefusedError(
            "thread-not-held",
            f"{_who(running)} is not held by this debugger: it could be taking memory from a top at that moment",
            "leave out --tops",
        )


def check_locks(session: Session) -> None:
    """RefusedError where an arena is locked although no thread is inside malloc (a fork in progress, a lost lock)."""
    for header in session.headers:
        if header.mutex:
            raise RefusedError(
                "arena-locked", f"arena {header.index} is locked, and no thread is seen inside malloc", ANOTHER_WAY
            )


def call_trim(controller: Controller, session: Session) -> None:
    address = _function(session, "malloc_trim")
    controller.call(FunctionCall(address, [0]), CALL_SECONDS, lambda name: name in LOCK_WAITS)


def release_tops(controller: Controller, session: Session, tops: Sequence[tuple[int, Range]]) -> int:
    """madvise(MADV_DONTNEED): takes none of malloc's locks, and top's pages after its header hold nothing.

    Each with the address of its arena. How many of them the kernel is known to have refused.
    """
    address = _function(session, "madvise")
    mutex = session.layout.arena["mutex"]
    return sum(
        controller.call(
            FunctionCall(address, [each.address, each.bytes, MADV_DONTNEED], arena + mutex),
            CALL_SECONDS,
            lambda name: False,
        )
        != 0
        for arena, each in tops
    )


def _function(session: Session, name: str) -> int:
    """libc's own, from its tables in memory: the debugger's may be another library's."""
    address = exported(session.memory, session.located.libc, name).get(name)
    if address is None:
        symbol = session.target.symbol(name)
        address = symbol.address if symbol else None
    if address is None:
        raise RefusedError("function-not-found", f"{name} was not found in this process", "load libc's symbols")
    return address


class Stopwatch:
    """The seconds that a piece of work took."""

    def __enter__(self) -> Stopwatch:
        self.started = time.monotonic()
        self.seconds = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self.started
