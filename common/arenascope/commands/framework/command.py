"""Defines commands: one decorated function in `commands/` becomes parser, help, text and JSON in all doors."""

from __future__ import annotations

import argparse
import re
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Protocol, Sequence

from ...base.about import INTERRUPTED
from ...base.errors import UsageError
from ...base.heap_model import HOLD_OVER, REPLACED, Statement
from ...base.printable import UserData, clean_line, one_line, printable, user_data
from ...base.progress_bar import ProgressOfAll
from ...engine import need_engine
from ...present.json_documents.record import Document, envelope_of, in_blocks, written
from ...present.shared_text.lines_and_tables import NO_HEAP, Style, known_form, safe_lines
from ...present.shared_text.problem_sentences import first_sentences, sentence
from .arguments import HELP, Argument, ArgumentGroup, HelpRequested, Outline, Parser, help_in
from .arguments import argument as argument

if TYPE_CHECKING:
    from ...session.session import Session


def of_heap(session: Session, lines: Iterable[str]) -> Iterable[str]:
    """Lines that only make sense once malloc has been called; otherwise a line that says it was not."""
    return lines if session.started else [NO_HEAP]


class Answer(NamedTuple):
    """A command's answer: its document, and its text (made only if it is shown)."""

    document: Document
    lines: Iterable[str]
    problems: Sequence[Statement] = ()
    status: int = 0
    rows: Optional[Iterable[str]] = None
    """Text after the lines."""
    exact: bool = False
    """The text is glibc's own, byte for byte: warnings go to standard error, not into it."""
    beside: Mapping[str, object] = {}
    """Facts that a page shows in addition to the keys."""
    told: Sequence[str] = ()
    """Ids of problems that the text itself mentions."""

    def text(self, style: Style) -> list[str]:
        """The text, without the rows."""
        shown = chain(() if self.exact else self._before(style), self.lines)
        return [f"{piece}\n" for line in shown for piece in safe_lines(line, style.width)]

    def _before(self, style: Style) -> Iterator[str]:
        """Problems that must precede the text."""
        for each in self.problems:
            if each.id == REPLACED and each.id not in self.told:
                yield style.warn(sentence(each))
                yield ""

    def warnings(self, style: Style) -> list[str]:
        told = self.told if self.exact else (*self.told, REPLACED)
        untold = [each for each in self.problems if each.id not in told]
        said = [style.warn(f"incomplete: {problem}") for problem in first_sentences(untold)]
        return [f"{piece}\n" for line in said for piece in safe_lines(line, style.width)]


if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec  # novermin

    from ...base.heap_model import Means
    from ...glibc.find.inside_malloc import StackFrame
    from ...glibc.find.main_arena import Located
    from ...present.json_documents.record import Document
    from ...session.session import Session
    from ...sources.target import Target, ThreadInfo

    Said = ParamSpec("Said")

GROUPS = (
    "where memory is",
    "arenas and lists",
    "what would return",
    "chunk by chunk",
    "who holds it",
    "changes over time",
    "as glibc prints it",
    "this tool",
)
"""Groups of commands, in the order of help."""


LIMIT = argument("--limit", type=int, default=40, metavar="N", help="show N rows at most (0: all)")
ARENA = argument("--arena", type=int, metavar="N", help="only arena N (0 is main_arena)")
WITH_VALUES = argument(
    "--with-values",
    action="store_true",
    help="write keys of containers and values, which are user data, also into --json, pages and snapshots",
)
EXACT = argument("--bytes", action="store_true", help="exact bytes instead of units")
COMMON = (
    argument("--json", action="store_true", help="one JSON document"),
    EXACT,
    argument(
        "--table",
        metavar="FORMAT",
        help="the format of tables, for which tabulate must be installed: github, html, latex, rst, tsv and others",
    ),
    argument(
        "--libc", type=int, default=0, metavar="N", help="if the process has several glibcs, the Nth (see version)"
    ),
    HELP,
)
"""Options that every command takes."""


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
    """Runs a live process for a door, besides reading it."""

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


class Door(Protocol):
    """The place where a command was typed, and where its output goes. GDB, LLDB and the shell each have one."""

    name: str

    @property
    def held_seconds(self) -> Optional[float]:
        """How long this door itself held the process, once it runs on; None if it held none."""

    @property
    def lets_go(self) -> bool:
        """Whether the process runs on after release()."""

    def target(self) -> Target:
        """The target to read now; TargetError if there is none."""

    def controller(self) -> Optional[Controller]:
        """Runs the process; None if this door can only read."""

    def confirm(self, question: Callable[[], str]) -> bool:
        """Asks the user. `question` is called only then, for the text; UsageError if there is nobody to ask."""

    def style(self) -> Style: ...

    def write(self, text: str) -> None: ...

    def notice(self, text: str) -> None:
        """Writes to standard error what must not mix with a script's data."""

    def before_hold(self, work: Callable[[Target], None]) -> None:
        """Registers work for the moment before this door holds a process; ignored if it holds it already, or never
        does."""

    def release(self) -> float:
        """Lets the process run on, as all was read. Returns the seconds for which this door held it; 0.0: it did
        not."""

    def describe(self) -> Sequence[str]:
        """The debugger and its Python, for `version`."""


class Reads(NamedTuple):
    """What a look reads of a live process while this door holds it; if neither, what the command asks for. See
    Command."""

    lists: bool = False
    copy: bool = False
    whole: bool = False
    mappings: bool = False


class Context:
    """A command's door, options, target and session."""

    def __init__(
        self,
        door: Door,
        options: argparse.Namespace,
        opened: Optional[Session] = None,
        reads: Optional[Reads] = None,
        copies: Optional[ExitStack] = None,
    ) -> None:
        """`copies`: another context's copies, which that context closes."""
        self._reads = reads or Reads()
        self.spared: Optional[Callable[[Session], bool]] = None
        """If this returns True before a process is held, it is copied only if there is room, and may be held as long as
        for any look."""
        self.door = door
        self.options = options
        self.seen: Optional[Target] = opened.target if opened is not None else None
        self.opened = opened
        """None until the session is first used."""
        self.means: Optional[Means] = None
        """Set by commands that mention --apply."""
        self._untouched: Optional[Located] = None
        self.copies = ExitStack() if copies is None else copies
        """Closes the copies of a live process that are read in its place."""

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.copies.close()

    @property
    def target(self) -> Target:
        if self.seen is None:
            if self._reads.lists:
                from ...session.resident import look_up

                def make_ready(target: Target) -> None:
                    self._untouched = look_up(target, self.options.libc)

                self.door.before_hold(make_ready)
            elif self._reads.copy:
                from .live_copy import expect_copy

                expect_copy(self, if_room=not self._reads.whole)
            self.seen = self.door.target()
        return self.seen

    @property
    def session(self) -> Session:
        if self.opened is None and self._reads.copy and self.door.lets_go:
            from .live_copy import look_at_copy_if_ready

            look_at_copy_if_ready(self, if_room=not self._reads.whole)
        if self.opened is None:
            self.opened = self.open_session(self.target)
            self.opened.untouched = self._untouched
            if self._reads.lists and self.door.lets_go and self.target.kind == "live":
                from ...session.resident import read_lists

                read_lists(self.opened, self._reads.mappings)
                self.door.release()
        return self.opened

    def open_session(self, target: Target) -> Session:
        """A new session on this target or its copy, with the command's options."""
        # imported here: half of all imports, which help and version do not need
        from ...session.session import Session, UsersRules

        session = Session(target, self.options.libc, ProgressOfAll())
        session.rules = UsersRules(getattr(self.options, "rules", None) or "")
        self.copies.callback(session.let_go)
        return session

    def beside(self, options: argparse.Namespace) -> Context:
        """A context for another command on the same target (or the copy of it that is read)."""
        beside = Context(self.door, options, self.session, copies=self.copies)
        beside.seen = self.seen
        return beside

    def renew(self) -> None:
        """Forgets all that was read, after the process has run."""
        self.seen = self.opened = None

    @property
    def user_data(self) -> UserData:
        """The places where the program's keys and values may be shown."""
        asked = getattr(self.options, "with_values", False)
        return user_data(with_values=asked, redacted=self.target.image.redacted)

    @cached_property
    def style(self) -> Style:
        core = self.seen is not None and self.seen.kind == "core"
        style = self.door.style()._replace(exact=bool(self.options.bytes), core=core)
        if self.means is not None:
            style = style._replace(shell_calls=self.means.shell, lacks=self.means.lacks)
        form = self.options.table
        return style._replace(form=form, width=0, colour=False) if form else style

    def check_arena(self, index: Optional[int]) -> None:
        """UsageError if the arena does not exist."""
        known = len(self.session.headers)
        if index is not None and not 0 <= index < known:
            raise UsageError(f"there is no arena {index}", f"this process has arenas 0 to {known - 1}")


Function = Callable[[Context], Answer]
Options = Callable[[argparse.Namespace], bool]


def always(options: argparse.Namespace) -> bool:
    """True, whatever the options are."""
    return True


def never(options: argparse.Namespace) -> bool:
    return False


def settled(options: argparse.Namespace, pid: int) -> None:
    """Leaves the options as they are."""


class Command(NamedTuple):
    """A command: its function, whose docstring is its help, and the decorator's arguments."""

    function: Function
    group: str
    """One of GROUPS."""
    example: str
    """Shown in its help."""
    arguments: Sequence[Argument] = ()
    dont_repeat: bool = False
    """An empty line in a debugger must not repeat it."""
    optional_subject: bool = False
    """In the shell, it can work on files of its own without a process or core."""
    lists: Options = never
    """Whether it follows the lists of free chunks and walks no heap: a process is let go once these were read."""
    mappings: Options = never
    """With `lists`: whether it tells how each mapping is used, for which the kernel visits all pages."""
    copies: Options = never
    """Whether it reads every heap: a process is copied and let go, and the copy is read. Without room for one the
    process is held for as long as it takes."""
    whole: Options = never
    """Whether a partial answer would be worthless, so that a process may be held for longer; with `copies`: without
    room for a copy there is no answer."""
    settle: Callable[[argparse.Namespace, int], None] = settled
    """Settles options that depend on the process, by its pid, before it is opened. The shell alone calls it: a
    debugger holds its process anyway."""

    @property
    def name(self) -> str:
        """The function's name without `_command`."""
        return self.function.__name__.removesuffix("_command")

    @property
    def summary(self) -> str:
        """Its line in lists."""
        return help_in(self.function)[0]

    @property
    def description(self) -> str:
        return help_in(self.function)[1]

    def reads(self, options: argparse.Namespace) -> Reads:
        return Reads(self.lists(options), self.copies(options), self.whole(options), self.mappings(options))

    def ask(self, context: Context) -> Answer:
        """Runs it. What is worth nothing without a copy looks into blocks, and needs the engine."""
        if self.copies(context.options) and self.whole(context.options):
            need_engine()
        return self.function(context)

    def outline(self, also: Sequence[ArgumentGroup] = ()) -> Outline:
        groups = (ArgumentGroup("options", self.arguments), ArgumentGroup("options of every command", COMMON))
        return Outline(self.summary, self.description, self.example, groups, also=also)

    def parser(self, program: str) -> Parser:
        return Parser(self.outline(), f"{program} {self.name}")

    def all_arguments(self) -> tuple[Argument, ...]:
        return (*self.arguments, *COMMON)


def _decorator(kind: Callable[Concatenate[Function, Said], Command]) -> Callable[Said, Callable[[Function], Command]]:
    return lambda *told, **named: lambda function: kind(function, *told, **named)


command = _decorator(Command)
"""The decorator of commands' functions. Its arguments are a Command's fields except the function."""


class CommandRequest(NamedTuple):
    """A command with options, run by another command."""

    command: Command
    options: argparse.Namespace

    def answered(self, context: Context) -> Answer:
        """Its answer about the other command's image."""
        return self.command.ask(context.beside(self.options))


UNITS = "KMGT"


def parse_size(context: Context, text: Optional[str]) -> Optional[int]:
    """Parses a size: 4096, 64K, 1.5MiB; anything else is an expression for the debugger."""
    if text is None:
        return None
    plain = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT])i?B?", text, re.IGNORECASE)
    if plain is None:
        return context.target.evaluate(text)
    return int(float(plain[1]) * (1 << 10 * (1 + UNITS.index(plain[2].upper()))))


def execute(command: Command, words: Sequence[str], door: Door) -> int:
    """Runs a command for a door, and writes its answer. The door shows errors."""
    try:
        options = command.parser(door.style().program).parse_args(words)
    except HelpRequested as asked:
        door.write(str(asked))
        return 0
    return answer(command, options, door)


def answer(command: Command, options: argparse.Namespace, door: Door) -> int:
    """Runs a command with parsed options, and writes its answer."""
    if options.table:
        # check it before a process is held
        known_form(options.table)
    with look(command, options, door) as (context, reply):
        status = _status(context, reply)
        if options.json:
            for part in in_blocks(written(document_of(command, context, reply))):
                door.write(part if part.isascii() else printable(part))
        else:
            _write_text(context, reply)
    return status


def document(command: Command, options: argparse.Namespace, door: Door) -> Document:
    """Runs a command, and returns its answer as a record for programs."""
    with look(command, options, door) as (context, reply):
        return document_of(command, context, reply)


@contextmanager
def look(command: Command, options: argparse.Namespace, door: Door) -> Iterator[tuple[Context, Answer]]:
    """Runs a command, and yields its context and answer."""
    with Context(door, options, reads=command.reads(options)) as context:
        yield context, command.ask(context)


def _status(context: Context, reply: Answer) -> int:
    """The exit status. Notes about libc are written to standard error."""
    session, door = context.opened, context.door
    if session is None:
        return reply.status
    known = {each.id for each in reply.problems}
    located = session.located if session.has_read("located") else None
    for note in located.notes if located is not None else ():
        door.notice(printable(f"note: {note}\n"))
    strange = session.other_files() if located is not None and located.other_file else None
    if strange is not None and strange.id not in known:
        door.notice(printable(f"note: {sentence(strange)}\n"))
    return INTERRUPTED if session.stopped and HOLD_OVER not in known else reply.status


def document_of(command: Command, context: Context, reply: Answer) -> Document:
    door, session = context.door, context.opened
    # everything was read: the document has the time for which the process stood still
    door.release()
    located = session.located if session is not None and session.has_read("located") else None
    document = reply.document
    document.within(
        envelope_of(
            command.name,
            door.name,
            context.seen,
            located,
            problems=reply.problems,
            held_seconds=door.held_seconds,
            rules=_rules_read(context),
        )
    )
    return document


def _rules_read(context: Context) -> Sequence[str]:
    """Files of rules by which blocks were named."""
    return context.opened.rules.read if context.opened is not None else ()


def _write_text(context: Context, reply: Answer) -> None:
    # compute all text before writing any: the door may let the process go when it writes
    text, warnings = reply.text(context.style), reply.warnings(context.style)
    rows = (f"{clean_line(row)}\n" for row in reply.rows or ())
    named_by = [f"blocks are named by the rules in {one_line(path)}\n" for path in _rules_read(context)]
    for part in in_blocks(chain(text, rows, named_by, () if reply.exact else warnings)):
        context.door.write(part)
    if reply.exact and warnings:
        context.door.notice("".join(warnings))
