"""The shell's door: opens a core file, or a live process that is held only while it is read."""

from __future__ import annotations

import _thread
import os
import sys
import time
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from shlex import quote
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Callable, NamedTuple, Optional, Sequence, TextIO, TypeVar

from ..base import background
from ..base.about import PROGRAM
from ..base.argv import is_url, pid_in
from ..base.errors import HoldEnded, HoldOver, HoldTooShort, TargetError, UsageError
from ..base.heap_model import HOLD, HOLD_AT_MOST, allows_more
from ..base.progress_bar import EVERY, PATIENCE, Meter, OverwrittenLine, Progress, columns, unseen
from ..commands.framework.arguments import argument, seconds
from ..present.shared_text.lines_and_tables import Style, folded, wants_colour

if TYPE_CHECKING:
    from argparse import Namespace

    from ..commands.framework.command import Command, Controller
    from ..sources.core.core_image import CoreImage
    from ..sources.live.kept_process import KeptProcess
    from ..sources.live.live_target import ProcessTarget
    from ..sources.live.process import ProcessImage
    from ..sources.live.process_hold import Freeze
    from ..sources.target import Target


class Waiting:
    """Shows what a command does and for how long. A thread draws it, as the main thread is in a system call.
    It is shown only on a terminal, and only while no Progress is shown."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._line = stream, OverwrittenLine(stream)
        self._what, self._began = "", 0.0
        self._due = time.monotonic() + PATIENCE
        self._drawing = _thread.allocate_lock()
        self._is_on = False

    def begin(self, what: str, at_once: bool = False) -> None:
        """Starts another step. `at_once`: show it immediately, as it will take long."""
        self.clear()
        if at_once:
            self._due = 0.0
        self._what, self._began = what, time.monotonic()
        if not self._is_on and self._stream.isatty():
            self._is_on = True
            try:
                background.start(self._draw_on)
            except RuntimeError:
                self._is_on = False

    def clear(self) -> None:
        """Clears the line, so that something else can be written; drawing goes on below."""
        with self._drawing:
            self._line.clear()

    def end(self) -> None:
        self._is_on = False
        self.clear()

    def _draw_on(self) -> None:
        while self._is_on:
            now = time.monotonic()
            with self._drawing:
                if self._is_on and now >= max(self._due, Progress.shown + PATIENCE):
                    # wide enough to cover a Progress that was there
                    width = columns(self._stream)
                    self._line.show(f"{self._what}: {now - self._began:.0f} s".ljust(width)[:width])
            time.sleep(EVERY)


AnyDoor = TypeVar("AnyDoor", bound="ShellDoor")
TRIES = 10
SECONDS_EACH = 0.0002
"""The least time to stop a thread and read its registers."""
LONGEST_PID = 10
BEFORE, HELD, AFTER = "looking while it runs on", "held", "looking at what was read"


class How(NamedTuple):
    """Options of how a process or core is read."""

    stop: str = "ptrace"
    folders: Sequence[str] = ()
    symbols: bool = True
    sysroot: Optional[str] = None
    declared: Optional[bool] = None
    """Whether types are read from debug information; None: only if there is not too much of it."""


AS_USUAL = How()


class ShellDoor:
    """Holds a live process only while it is read. Output waits until the process was let go."""

    name = "shell"

    def __init__(self, subject: Optional[str], how: How = AS_USUAL, lists: bool = False) -> None:
        """`lists`: see Command.lists."""
        pid = pid_in(subject) if subject is not None else None
        self._typed, self._is_process = subject, pid is not None
        self.subject, self.how = pid or subject, how
        self.written: list[str] = []
        self.freeze: Optional[Freeze] = None
        self.hold_at_most = HOLD
        self.whole = False
        """A partial answer is worthless: see Command.whole."""
        self.lists = lists and how.stop != "none"
        self._kept: Optional[KeptProcess] = None
        self.pauses: list[float] = []
        """Seconds of each hold. (`report --again` looks twice.)"""
        self._seen: Optional[ProcessTarget] = None
        self._before_hold: Optional[Callable[[Target], None]] = None
        self._opened = ExitStack()
        """Closes the files of the target at the end of the look."""
        self._waiting = Waiting(sys.stderr)

    def __enter__(self: AnyDoor) -> AnyDoor:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    @property
    def lets_go(self) -> bool:
        return self.how.stop != "none" and self._is_process

    @property
    def _named(self) -> str:
        """The subject as the user typed it, quoted."""
        if self._typed is None or self._is_process:
            return self._typed or ""

        return quote(self._typed)

    def target(self) -> Target:
        if self._seen is not None and self.freeze is not None:
            return self._seen  # it is held; whoever lets its threads run reports that
        if self.subject is None:
            raise TargetError("there is nothing to look at", "name a pid or a core file")
        if self._is_process:
            if len(self.subject) > LONGEST_PID:
                raise TargetError(f"there is no process {self.subject[:LONGEST_PID]}… ({len(self.subject):,} digits)")
            return self._process(int(self.subject))
        from ..sources.core.core_image import CoreImage
        from ..sources.shell_target import ShellTarget

        how = self.how
        subject = self.subject
        image = self._copied(subject) if is_url(subject) else CoreImage(subject, self.meter)
        target = ShellTarget(image, how.folders, how.symbols, how.sysroot, declared=how.declared)
        return self._opened.enter_context(target)

    def _copied(self, url: str) -> CoreImage:
        from ..sources.core.core_at_url import copied  # imported here: few cores are at a URL
        from ..sources.core.core_image import CoreImage
        from ..sources.core.open_core import open_core

        with copied(url, self.notice, self.meter) as copy:
            return CoreImage(url, held=open_core(url, self.meter, f"/proc/self/fd/{copy.fileno()}"))

    def _process(self, pid: int) -> Target:
        if pid == os.getpid() and self.how.stop != "none":
            raise TargetError("a process cannot hold itself while it reads", "start another one that looks at it")
        image = self._opened.enter_context(self._open(pid))  # raises what the kernel refuses
        self._check_time(pid)
        self._begin(BEFORE)
        if self.how.stop != "none":
            from ..sources.live.process_hold import Freeze

            # the guard starts while we go on
            self.freeze = Freeze(self.how.stop, self.hold_at_most)
        from ..sources.live.live_target import ProcessTarget

        # read all that can be read before the hold: symbols and modules
        how = self.how
        target = ProcessTarget(image, how.folders, how.symbols, how.sysroot, declared=how.declared)
        self._opened.enter_context(target)
        target.symbol("main_arena")
        if self._before_hold is not None:
            self._before_hold(target)
            self.whole = self.whole and not image.is_spared
        if self.freeze is not None:
            self._begin(HELD)
            self.freeze.hold(image.pid, image.born)
            if self.freeze.how != self.how.stop:
                self.notice("note: this Python has no ctypes, so that the process is stopped by a signal\n")
        target.look(self.freeze)
        if self._kept is not None:
            self._kept.hold()
        if self.freeze is not None and not self.whole:
            target.heed(self.freeze)
        self._seen = target
        return target

    def _check_time(self, pid: int) -> None:
        """HoldTooShort, before anything is held, if an answer that must be whole cannot be read in time."""
        from ..sources.live.proc_tables import status_number

        threads = status_number(pid, "Threads") if self.whole and self.how.stop != "none" else 0
        if threads * SECONDS_EACH > self.hold_at_most:
            short = HoldTooShort(
                f"process {pid} has {threads:,} threads, which cannot all be stopped and read in "
                f"{self.hold_at_most:g} s",
                allows_more(self.hold_at_most),
                self.hold_at_most,
            )
            short.id = UsageError.id
            raise short

    def _open(self, pid: int) -> ProcessImage:
        if not self.lists:
            from ..sources.live.process import ProcessImage

            return ProcessImage(pid)
        from ..sources.live.kept_process import KeptProcess

        self._kept = KeptProcess(pid)
        return self._kept

    def before_hold(self, work: Callable[[Target], None]) -> None:
        self._before_hold = work

    def let_go(self) -> float:
        """Lets the process go and returns for how long it was held; HoldEnded if it had been let go before."""
        freeze, self.freeze = self.freeze, None
        if self._kept is not None:
            self._kept.let_go()
        if freeze is None:
            return 0.0
        self.pauses.append(freeze.release())
        return self.pauses[-1]

    def release(self) -> float:
        held = self.let_go()
        if held:
            self._begin(AFTER)
        return held

    def drop(self) -> None:
        """Lets the process go, also after an error, and closes its files."""
        freeze, self.freeze = self.freeze, None
        self._waiting.end()
        with self._opened:
            if freeze is not None:
                self.pauses.append(freeze.drop())

    @property
    def held_seconds(self) -> Optional[float]:
        return sum(self.pauses) if self.pauses else None

    def controller(self) -> Optional[Controller]:
        if self.freeze is None or self._seen is None or self._kept is not None:
            return None  # None if what was read is kept: it would be wrong once the process has moved
        from .shell_calls import ShellController

        return ShellController(self._seen, self.freeze)

    def confirm(self, question: Callable[[], str]) -> bool:
        if not os.isatty(0):
            raise UsageError("there is nobody to ask", "-y says yes beforehand")
        asked = question()
        self._waiting.end()
        sys.stderr.write(folded(f"{asked} (y or n)", terminal_width(sys.stderr)) + " ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def style(self) -> Style:
        terminal = sys.stdout.isatty()
        return Style(
            width=terminal_width(sys.stdout),
            colour=terminal and wants_colour(),
            program=typed_program(),
            subject=self._named,
        )

    def write(self, text: str) -> None:
        if self.how.stop == "none":
            # kept, to be compared with the next reading
            self.written.append(text)
        else:
            # everything has been read by now
            self.release()
            self._waiting.end()
            sys.stdout.write(text)

    def notice(self, text: str) -> None:
        self._waiting.clear()
        sys.stderr.write(text)

    def _begin(self, what: str) -> None:
        """Shows on a terminal what is being done."""
        self._waiting.begin(what)

    def meter(self, what: str, total: int) -> AbstractContextManager[Meter]:
        return Progress(what, total)

    def describe(self) -> Sequence[str]:
        return ["no debugger: the shell"]


class QuietDoor(ShellDoor):
    """A door for programs, and for looks whose notices are not shown."""

    def _begin(self, what: str) -> None:
        pass

    def notice(self, text: str) -> None:
        pass

    def meter(self, what: str, total: int) -> AbstractContextManager[Meter]:
        return unseen(what, total)


HOLD_AT_MOST_OPTION = argument(
    "--hold-at-most",
    type=partial(seconds, bare="ms"),
    metavar="TIME",
    help="let it run on after so long (500ms, 2s; a number alone: milliseconds), and show what was read by then, "
    f"marked as incomplete (an unfinished copy is discarded). The default, {HOLD:g}s, is less than three health checks "
    f"10 s apart; a trim that is applied has {HOLD_AT_MOST:g}s",
)
WAYS_TO_STOP = ("ptrace", "signal")


def check_how(how: How, at_most: float) -> None:
    """UsageError if the options are invalid, or the hold would be too long."""
    if not 0 < at_most <= HOLD_AT_MOST:
        raise UsageError(
            f"--hold-at-most {at_most:g}s is no time to hold a process for", f"more than 0, {HOLD_AT_MOST:g}s at most"
        )
    if how.sysroot is not None and not os.path.isdir(how.sysroot):
        raise UsageError(f"--sysroot {how.sysroot} is no folder", "it has that host's usr, lib and so on")
    if how.stop not in WAYS_TO_STOP:
        raise UsageError(f"--stop {how.stop} is no way to hold a process", " or ".join(WAYS_TO_STOP))


def door_for(kind: type[AnyDoor], command: Command, subject: Optional[str], *, how: How, options: Namespace) -> AnyDoor:
    """A door for one look by this command."""
    door = kind(subject, how)
    if door.lets_go and door.subject is not None and len(door.subject) <= LONGEST_PID:
        command.settle(options, int(door.subject))
    door.lists = command.lists(options) and how.stop != "none"
    door.whole = command.whole(options)
    door.hold_at_most = seconds_to_hold(options)
    return door


T = TypeVar("T")


def unbroken(look: Callable[[], T]) -> T:
    """The result of a look. The look starts again if we were suspended and the process had to be let go."""
    for _ in range(TRIES):
        try:
            return look()
        except HoldOver as over:
            raise over.ended from None
        except HoldEnded as error:
            if not error.again:
                raise
    return look()


def seconds_to_hold(options: Namespace) -> float:
    """The longest hold: what the user asked for, else a default. The default is longer for a call, which cannot be
    given up as a copy can."""
    asked: Optional[float] = getattr(options, "hold_at_most", None)
    if asked is not None:
        return asked
    return HOLD_AT_MOST if getattr(options, "apply", False) else HOLD


def typed_program() -> str:
    """The command that starts arenascope again: the name alone if PATH has it, otherwise as it was typed."""
    typed = sys.argv[0]
    folder, name = os.path.split(typed)
    packed = name.endswith(".pyz")
    if not packed and (name != PROGRAM or not folder or folder in os.environ.get("PATH", "").split(os.pathsep)):
        return PROGRAM

    return f"python3 {quote(typed)}" if packed else quote(typed)


def terminal_width(stream: TextIO) -> int:
    """The terminal's columns; 0 if it is none."""
    if not stream.isatty():
        return 0

    return get_terminal_size().columns
