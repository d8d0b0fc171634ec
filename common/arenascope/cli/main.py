"""The shell's entry point: arenascope COMMAND PID|CORE [options]. No debugger needed."""

from __future__ import annotations

import argparse
import os
import pkgutil
import runpy
import sys
from contextlib import suppress
from typing import Callable, Mapping, Optional, Sequence

from ..base import optional_libraries
from ..base.about import INTERRUPTED, PROGRAM, STOPPED, __version__
from ..base.argv import pid_in
from ..base.errors import ArenascopeError, TargetError, UsageError
from ..base.printable import make_streams_safe, one_line
from ..commands.all_commands import COMMAND_NAMES, find_command
from ..commands.framework.arguments import HELP, HelpRequested, Outline
from ..commands.framework.command import Command, answer
from ..commands.framework.overview import ALL, meaning
from ..present.json_documents.record import failed
from ..present.shared_text.text import Style, fitted, folded, table
from .command_line import HELP_NAME, LOOPS, CommandTree, branch_names, find_loop, start, with_command
from .shell import TRIES, How, ShellDoor, check_how, door_for, seconds_to_hold, terminal_width, unbroken
from .subjects import SeveralProcesses

DONE, FAILED = 0, 2
MOST_LISTED = 20
"""The most processes of one name that are listed."""
LONG = 1.0
"""From so many seconds of holding on, a note says that each further look takes as long."""


def main(arguments: Optional[Sequence[str]] = None, loaded: Callable[[], None] = lambda: None) -> int:
    """Runs a command line and returns the exit status. `loaded` is called once the command's modules are loaded."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    make_streams_safe()
    try:
        words = with_command(words)
        status = _run(words, loaded)
        sys.stdout.flush()
        return status
    except ArenascopeError as error:
        _tell_failure(words, error.id, str(error))
        said = " ".join(["arenascope", *[word for word in words[:1] if word in branch_names()]])
        sys.stderr.write(folded(f"{said}: {one_line(str(error))}", terminal_width(sys.stderr)) + "\n")
        if isinstance(error, SeveralProcesses):
            _list(error)
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write(STOPPED)
        return INTERRUPTED
    except BrokenPipeError:
        # the pipe's reader has seen enough; avoid Python's complaint at exit
        _write_no_more()
        return DONE
    except OSError as error:
        with suppress(OSError):
            _tell_failure(words, "system", str(error.strerror or error))
        _write_no_more()
        sys.stderr.write(f"arenascope: {one_line(str(error.strerror or error))}\n")
        return FAILED
    except Exception as error:
        return _fault(error, words)


def _fault(error: Exception, words: Sequence[str]) -> int:
    from ..base import internal_error as fault

    said = fault.fault_line(error, "".join(words[:1]), "shell")
    _tell_failure(words, fault.fault_id(error), said)
    sys.stderr.write(f"arenascope: {said}\n")
    return FAILED if isinstance(error, MemoryError) else fault.STATUS


def _tell_failure(words: Sequence[str], id: str, said: str) -> None:
    if words and words[0] in COMMAND_NAMES:
        sys.stdout.write(failed(words[0], words[1:], id, said))
        sys.stdout.flush()


def _list(error: SeveralProcesses) -> None:
    """Lists the processes of a name, the largest first."""
    style = Style(width=terminal_width(sys.stderr))
    rows = [(str(each.pid), style.size(each.resident), each.command) for each in error.found]
    lines = table(style, ("pid", "resident", "command"), rows, left=(2,), names=(2,), limit=MOST_LISTED)
    sys.stderr.write("".join(f"{line}\n" for line in lines))


def _write_no_more() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: Sequence[str], loaded: Callable[[], None]) -> int:
    if not words:
        _tell(start())
        return FAILED
    first = words[0]
    if first == HELP_NAME and not any(known.startswith(word) for word in words[1:] for known in HELP.names):
        # words after `help` may be options that are asked about
        words = [first, "--", *(word for word in words[1:] if word != "--")]
    try:
        options = CommandTree([] if first[:1] == "-" else [first]).parse_args(words)
        return _obey(options, loaded)
    except HelpRequested as asked:
        _tell(str(asked))
        return DONE


def _obey(options: argparse.Namespace, loaded: Callable[[], None]) -> int:
    if getattr(options, "command", None) is None:
        sys.stdout.write(_said_instead(options))
        return DONE
    if options.command == HELP_NAME:
        return _help(" ".join(options.topic), loaded)
    # the parser has loaded the command's module
    loaded()
    if options.command in LOOPS:
        return find_loop(options.command).run(options)
    return _look(find_command(options.command), options)


def _help(topic: str, loaded: Callable[[], None]) -> int:
    """Shows the start page, the help of one or all commands, or the meaning of a word."""
    if topic == ALL or topic in branch_names():
        return _run(["--help"] if topic == ALL else [topic, "--help"], loaded)

    def outlines() -> Mapping[str, Outline]:
        return {name: branch.outline for name, branch in CommandTree(branch_names()).branches.items()}

    _tell(meaning(PROGRAM, topic, branch_names(), outlines) if topic else start())
    return DONE


def _tell(text: str) -> None:
    """Prints help. It is laid out for HELP_WIDTH, and wrapped for a narrower terminal."""
    width = terminal_width(sys.stdout)
    sys.stdout.write("".join(f"{piece}\n" for line in text.splitlines() for piece in fitted(line, width)))


def _said_instead(options: argparse.Namespace) -> str:
    """The text for an option that replaces a command."""
    if options.version:
        return f"arenascope {__version__}\n"
    if options.completion:
        return _completion(options.completion)
    if options.schema:
        from ..present.json_documents.schemas import as_text, schemas

        return as_text(schemas()[options.schema])
    door = door_path("gdb" if options.gdb_path or options.gdbinit else "lldb")
    if options.gdbinit:
        return f"source {door}\n"
    return f'command script import "{door}"\n' if options.lldbinit else f"{door}\n"


def _completion(shell: str) -> str:
    """The completion script. Packages contain it; a checkout makes it if shtab is installed."""
    with suppress(OSError):
        return (pkgutil.get_data(__package__, f"completion/arenascope.{shell}") or b"").decode()
    root = optional_libraries.checkout()
    if root is not None and optional_libraries.load("shtab") is not None:
        made = runpy.run_path(os.path.join(root, "scripts", "completion.py"))
        if shell in made["known_shells"]():
            return str(made["completion"](shell))
    hint = "an installed arenascope has it" if root is None else "pip install shtab"
    raise UsageError(f"this copy has no completion for {shell}", hint)


def _look(command: Command, options: argparse.Namespace) -> int:
    options.json |= options.jsonl
    subjects = options.subjects
    if options.jobs < 0:
        raise UsageError(f"--jobs {options.jobs} is no number of looks at a time", "0 is one for each processor")
    how = _how(options)
    check_how(how, seconds_to_hold(options))
    if (options.jsonl and subjects) or len(subjects) > 1:
        from . import several_subjects  # imported only for several subjects

        looks = [several_subjects.SubjectRequest(each, command.name, options, how) for each in subjects]
        return several_subjects.run(looks, options.jobs, options.jsonl)
    subject = subjects[0] if subjects else None
    if options.no_stop:
        return _run_unstopped(command, subject, options)
    pauses: list[float] = []
    try:
        return unbroken(lambda early: _run_held(command, subject, options, early=early, pauses=pauses))
    finally:
        _tell_pauses(subject or "", list(filter(None, pauses)))


def _how(options: argparse.Namespace) -> How:
    return How(
        options.stop,
        options.debug_dir,
        not options.no_symbols,
        processes=options.jobs,
        sysroot=options.sysroot,
        declared=options.declared,
    )


def _run_held(
    command: Command, subject: Optional[str], options: argparse.Namespace, *, early: bool, pauses: list[float]
) -> int:
    """Runs one look. `pauses`: seconds for which earlier looks held the process; this look adds its own."""
    with door_for(ShellDoor, command, subject, how=_how(options), options=options, early=early) as door:
        door.pauses = pauses
        status = answer(command, options, door)
        door.release()
    sys.stdout.flush()
    return status


def _tell_pauses(subject: str, pauses: Sequence[float]) -> None:
    """Says for how long the process was held in all. Called once, after the answer, even if there were several
    looks."""
    if pauses:
        stops = f" ({len(pauses)} stops)" if len(pauses) > 1 else ""
        again = "; each further look of this kind takes about as long" if max(pauses) >= LONG else ""
        sys.stderr.write(f"process {pid_in(subject)} stood still for {sum(pauses) * 1000:.1f} ms{stops}{again}\n")


def _run_unstopped(command: Command, subject: Optional[str], options: argparse.Namespace) -> int:
    """Reads until two readings agree, as the process changes while it is read."""
    before: Optional[list[str]] = None
    for _ in range(TRIES):
        with ShellDoor(subject, _how(options)._replace(stop="none", processes=1)) as door:
            status = answer(command, options, door)
        if status == INTERRUPTED:
            sys.stdout.write("".join(door.written))
            return status
        if door.written == before:
            sys.stdout.write("".join(door.written))
            sys.stdout.flush()
            door.notice("read without stopping the process; two readings agreed\n")
            return status
        before = door.written
    raise TargetError(
        f"process {subject} changes too fast: no two of {TRIES} readings agreed",
        "leave out --no-stop, or use arenas --quick",
    )


def door_path(debugger: str) -> str:
    """The path of a debugger's door: in the installed package, or in the checkout."""
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    for path in (
        os.path.join(package, "doors", debugger, "arena.py"),
        os.path.join(package, "..", "..", debugger, "arena.py"),
    ):
        if os.path.isfile(path):
            return os.path.realpath(path)
    raise UsageError(f"the door for {debugger} is not beside this package", "install the wheel, or use a checkout")
