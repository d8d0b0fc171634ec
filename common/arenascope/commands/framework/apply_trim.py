"""Does in the live process what `heap trim` planned, but only when no thread is inside malloc.

A free arena mutex is no proof: a single-threaded program takes none (since 2.27). So every thread's frames must be
outside malloc. Threads that are inside run alone, one after the other, until they are out. Then everything is read
again, as they may have changed it.
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
"""How long a thread may take to leave malloc. The next time is tried when no thread left within this one."""
CALL_SECONDS = 120.0
ELSEWHERE = "use --apply from GDB or LLDB"
ANOTHER_WAY = "let the process run for a moment, then try again"
ROUNDS = 20
"""Rounds of a controller that can stop a thread exactly where it leaves malloc."""
FRAMES = 1 << 14
"""The most frames read of a thread. Of a deeper stack the words are examined instead."""

LOCK_WAITS = ("__lll_lock_wait_private", "__lll_lock_wait", "__GI___lll_lock_wait_private", "__GI___lll_lock_wait")

DEBUGGERS = ("gdb", "lldb")
"""How the names of debuggers begin that may have these commands (lldb-server is one)."""

FATAL_SIGNALS = ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS")
"""Signals that the call itself may raise: delivering one would end the process."""


# errors that all controllers share


def locked_out() -> RefusedError:
    return RefusedError(
        "call-waited-for-lock", "the call waited for a lock that nobody gave back, and was taken back", ANOTHER_WAY
    )


def still_at_work() -> RefusedError:
    return RefusedError(
        "call-at-work", "the call is still at work and must not be broken off", "`continue` lets it finish"
    )


def taken_back(signal: str) -> RefusedError:
    """The call raised a fatal signal and was unwound."""
    return RefusedError(
        "call-taken-back",
        f"the call was taken back at {signal}, which would have ended the process",
        "check shows the heap; an arena that was locked then still is",
    )


def gone(thread: ThreadInfo) -> RefusedError:
    return RefusedError("thread-gone", f"thread {thread.tid} is gone", "try again")


class FunctionCall(NamedTuple):
    """A function call to be made in the process."""

    address: int
    arguments: Sequence[int]
    lock: Optional[int] = None
    """The lock to hold meanwhile, for a controller whose own end would let other threads run."""

    @property
    def expression(self) -> str:
        """The call as a C expression, which every debugger understands."""
        types = ", ".join("unsigned long" for _ in self.arguments)
        values = ", ".join(f"{value}UL" for value in self.arguments)
        return f"((long (*) ({types})) {self.address:#x}) ({values})"


class Controller(Protocol):
    """What a door must be able to do with a live process besides reading it."""

    rounds: int
    """How many times threads are let run before giving up."""

    def frames(self, thread: ThreadInfo, limit: int) -> Sequence[StackFrame]: ...

    def step_out(self, thread: ThreadInfo, depth: int, seconds: float) -> bool:
        """Runs this thread alone until its frame `depth` has returned; False if it does not in time.

        A controller that cannot stop it exactly there runs it for a moment, in many `rounds`; False if it did not move.
        """

    def let_run(self, thread: ThreadInfo, times: int) -> bool:
        """Runs this thread, which may be inside malloc, alone for a moment; longer after many `times`. False if it was
        tried often enough, or if the controller can run a thread only up to an address, which would be a guess here."""

    def can_call(self, times: int) -> bool:
        """Whether a thread can make the call now. If not, one was let run to change that, and all must be examined
        again. `times`: how often it was so before."""

    def call(self, what: FunctionCall, seconds: float, is_lock_wait: Callable[[str], bool]) -> int:
        """Calls a function in the process while all other threads are held; RefusedError if it does not return."""


class DebuggerController:
    """The behaviour that all debuggers share."""

    rounds = ROUNDS

    def let_run(self, thread: ThreadInfo, times: int) -> bool:
        return False  # a debugger stops a thread only at a breakpoint, and its return address is a guess here

    def can_call(self, times: int) -> bool:
        return True  # a debugger can call from wherever a thread stands


class Whereabouts(NamedTuple):
    """Where a thread is."""

    thread: ThreadInfo
    depth: Optional[int] = None
    """The depth of malloc's outermost frame on its stack."""
    waits: bool = False
    """It waits for a lock."""
    unsure: Optional[str] = None
    """Why it may be inside malloc although no trusted frame is."""


def settle(controller: Controller, session: Session) -> None:
    """Brings every thread out of malloc. RefusedError names a thread that stays, or that may be inside."""
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
            # only suspects ran, but examine all once more to be sure
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
        # lock holders go first: those that wait would only keep waiting
        runnable = [each for each in inside if not each.waits] or inside
        out = [controller.step_out(each.thread, each.depth or 0, seconds) for each in runnable]
        if any(out):
            continue
        # a thread that ran may now wait for another's lock, so try all again, for longer
        longer = next(patience, None)
        if longer is None:
            raise _stuck(runnable[0].thread, session)
        seconds = longer
    raise RefusedError("threads-keep-entering-malloc", "threads keep entering malloc", ANOTHER_WAY)


def _inside(
    controller: Controller, session: Session, code: MallocCode, among: Optional[AbstractSet[int]] = None
) -> Iterator[Whereabouts]:
    """The threads (of `among`) that are or may be inside malloc. Everything is read again, as the process has run."""
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
            continue  # io_uring's thread: it never runs the process's own code
        if thread.tid == now.target.pid and is_zombie(thread.tid, thread.tid):
            continue  # main, ended by pthread_exit(): only its name is left
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
    """RefusedError if another program traces the process: the kernel allows only one."""
    tracer = status_number(pid, "TracerPid")
    if not tracer:
        return
    name = one_line(name_of(tracer)) or "a program"
    there = "type `heap trim --apply` there, or detach it" if name.startswith(DEBUGGERS) else "end that first"
    raise RefusedError("traced-by-another", f"{name} ({tracer}) traces process {pid}, and only one can", there)


def check_filters(pid: int, insist: bool) -> None:
    """RefusedError if a seccomp filter may kill the process for a system call that it never makes itself."""
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
    """RefusedError if a thread that is not held could take memory from a top while its pages are released."""
    running = next((thread for thread in session.target_threads if thread.runs), None)
    if running is not None:
        raise RefusedError(
            "thread-not-held",
            f"{_who(running)} is not held by this debugger: it could be taking memory from a top at that moment",
            "leave out --tops",
        )


def check_locks(session: Session) -> None:
    """RefusedError if an arena is locked although no thread is inside malloc (a fork in progress, a lost lock)."""
    for header in session.headers:
        if header.mutex:
            raise RefusedError(
                "arena-locked", f"arena {header.index} is locked, and no thread is seen inside malloc", ANOTHER_WAY
            )


def call_trim(controller: Controller, session: Session) -> None:
    address = _function(session, "malloc_trim")
    controller.call(FunctionCall(address, [0]), CALL_SECONDS, lambda name: name in LOCK_WAITS)


def release_tops(controller: Controller, session: Session, tops: Sequence[tuple[int, Range]]) -> int:
    """Releases the pages of tops, each given with its arena's address; returns how many the kernel is known to have
    refused.

    It calls madvise(MADV_DONTNEED), which takes no lock of malloc's. The pages after a top's header hold no data.
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
    """The address of libc's function, from libc's tables in memory: the debugger's symbol may be another library's."""
    address = exported(session.memory, session.located.libc, name).get(name)
    if address is None:
        symbol = session.target.symbol(name)
        address = symbol.address if symbol else None
    if address is None:
        raise RefusedError("function-not-found", f"{name} was not found in this process", "load libc's symbols")
    return address


class Stopwatch:
    """Measures the seconds that a block takes."""

    def __enter__(self) -> Stopwatch:
        self.started = time.monotonic()
        self.seconds = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self.started
