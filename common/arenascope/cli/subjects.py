"""Finds which process or core a command line names: by -p or -c, by the most likely word, or by a process's name."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from shlex import quote
from typing import TYPE_CHECKING, NoReturn, Optional, Sequence

from ..base.about import PROGRAM
from ..base.argv import PROCESSES, is_elf, is_program, is_script, is_url, pid_in, with_suggestion
from ..base.errors import TargetError, UsageError
from ..commands.framework.arguments import Parser, argument, places_of

if TYPE_CHECKING:
    from ..commands.framework.command import Command
    from ..sources.live.processes_by_name import NamedProcess

SUBJECTS = argument(
    "subjects",
    metavar="PID|CORE",
    nargs="*",
    default=[],
    help="the process (by its pid, its name or its script's, where only one has it) or core file, at any position",
)
PID_OPTION = argument(
    "-p",
    "--pid",
    dest="named_pids",
    action="append",
    default=[],
    metavar="PID",
    help="the process to read, by its pid or name (several pids: 12,34), also where a file is called so",
)
CORE_OPTION = argument(
    "-c",
    "--core",
    dest="named_cores",
    action="append",
    default=[],
    metavar="CORE",
    help="the core file to read, also where its name is a number",
)
PAIR = 2
"""Two words: a subject, and a type's name, a file to write, or the program of a core."""
CORE_SUFFIX = ".core"
LIKE_A_CORE = re.compile(r".*\.core(\.\w+)?|core\..*|core")
"""File names that no process has."""
WRITTEN = ("file",)
"""The name of the positional argument of a command that writes a file."""

NOT, UNLIKELY, MAYBE, SURELY = range(4)
"""How likely a word names a process or core: an address least, then another word, then a file or number, then a live
pid or an ELF file."""


class SeveralProcesses(UsageError):
    """A name that several processes have."""

    def __init__(self, name: str, found: Sequence[NamedProcess]) -> None:
        super().__init__(f"{len(found):,} processes are called {name!r}", "name one by its pid")
        self.found = found


def find_subjects(command: Command, parser: Parser, options: Namespace) -> None:
    """Sets what a command reads. -p and -c name it; otherwise the most likely word does, if the command takes words of
    its own."""
    chosen = _by_option(options)
    if next(places_of(command.outline().groups), None) is not None:
        _fill_places(command, parser, options, bool(chosen))
    alone = len(options.subjects) == 1
    _refuse_gdb_order(command.name, options.subjects)
    options.subjects = [*chosen, *(_subject(each, alone) for each in options.subjects)]


def _refuse_gdb_order(name: str, words: Sequence[str]) -> None:
    """Refuses a program before its core, as debuggers take them: a core names its program itself."""
    if len(words) == PAIR and is_program(words[0]) and is_elf(words[1]) and not is_program(words[1]):
        raise UsageError(
            f"{words[0]} is a program, and the core names it", f"leave it out: {PROGRAM} {name} {quote(words[1])}"
        )


def _fill_places(command: Command, parser: Parser, options: Namespace, chosen: bool) -> None:
    """Gives the command its own words, and leaves the subject. `chosen`: an option named the subject."""
    places = list(places_of(command.outline().groups))
    several = places[-1].options.get("nargs") == "+"
    given = [getattr(options, place.names[0]) for place in places]
    words: list[str] = []
    for value in given:
        words += value if isinstance(value, list) else [value] if value is not None else []
    words += options.subjects
    if not chosen and getattr(options, "values", True) is False:
        # types without --values: each word is a subject. But of two words, an unlikely one is a type's name.
        unlikely = [each for each in words if likeness(each) <= UNLIKELY and os.sep not in each]
        if len(unlikely) == PAIR:
            unlikely = [each for each in unlikely if not is_process_name(each)]
        options.name = unlikely[0] if len(words) == PAIR and len(unlikely) == 1 else None
        options.subjects = [each for each in words if each != options.name]
        return
    # if the command needs no subject, or its own words could be one, an unlikely word is not taken as a subject
    needed = MAYBE if command.optional_subject or len(words) <= len(places) else UNLIKELY if several else NOT
    writes = [place.names for place in places] == [WRITTEN]
    index = None if chosen else _subject_beside_file(words) if writes else likeliest(words, needed)
    options.subjects = [] if index is None else [words.pop(index)]
    for place in places:
        if not words and place.options.get("nargs") != "?":
            parser.error(f"the following arguments are required: {place.value}")
        if place is places[-1] and several:
            setattr(options, place.names[0], words[:])
            words.clear()
        else:
            setattr(options, place.names[0], words.pop(0) if words else None)
    if words:
        parser.error(f"unrecognized arguments: {' '.join(words)}")


def _subject_beside_file(words: Sequence[str]) -> Optional[int]:
    """The index of the subject in a command that writes FILE: the second word by its usage, or a pid before it, or a
    core before a name that can only be a new file. Any other core there is FILE: else a mistyped process name after it
    would become a copy of the core."""
    if not words or pid_in(words[0]):
        return 0 if words else None
    if len(words) == PAIR and is_elf(words[0]) and _is_new_file(words[1]):
        return 0
    if len(words) < PAIR:
        return None
    if pid_in(words[1]) or not is_process_name(words[0]):
        return 1
    if os.path.exists(words[1]):
        raise UsageError(f"{words[0]} is a process, and {words[1]} is there already", "FILE comes before PID or CORE")
    return 0


def _is_new_file(word: str) -> bool:
    return (os.sep in word or word.endswith(CORE_SUFFIX)) and not os.path.exists(word)


def find_pids(parser: Parser, options: Namespace) -> None:
    """For a command that reads only processes: replaces what was typed by `pids`."""
    options.pids = [*typed_pids(options.named_pids), *map(_pid, options.pids)]
    if not options.pids:
        parser.error("the following arguments are required: PID")


def find_named(parser: Parser, options: Namespace) -> None:
    """For a command that has no words of its own: all words are subjects."""
    options.subjects = [*_by_option(options), *(_subject(each, True) for each in options.subjects)]
    if not options.subjects:
        parser.error("the following arguments are required: PID|CORE")


def _by_option(options: Namespace) -> list[str]:
    pids = typed_pids(getattr(options, "named_pids", ()))
    # digits alone would be a pid
    cores = [os.path.join(".", each) if each.isdigit() else each for each in getattr(options, "named_cores", ())]
    return [*map(as_subject, pids), *cores]


def typed_pids(words: Sequence[str]) -> list[str]:
    """The pids of processes that an option names."""
    return [_pid(word) for each in words for word in _split(each)]


def _split(typed: str) -> Sequence[str]:
    """Splits several pids at blanks (pidof) or commas (perf). A name is not split."""
    return re.findall(r"\d+", typed) if re.fullmatch(r"[\d\s,]+", typed) else [typed]


def _pid(word: str) -> str:
    """The pid for a word that can only be a process."""
    pid = word if word.isdigit() else pid_in(word) or _only_process(word)
    if pid is None and os.path.isfile(word):
        raise TargetError(f"{word} is a file: only a process can be named here", "ps -e lists the processes")
    return pid or _nothing(f"process {word!r}", word)


def _subject(word: str, alone: bool) -> str:
    """The pid or path for a word. If several are named, a missing one is reported when its turn comes. A program or
    script in this folder cannot be read, so its name stands for the process that runs it."""
    program = os.sep not in word and (is_program(word) or is_script(word))
    if may_be_file_or_pid(word) and not program:
        return word
    pid = _only_process(word)
    if pid is None and program:
        return word
    if pid is None:
        return _nothing_here(word) if alone else word
    return as_subject(pid)


def as_subject(pid: str) -> str:
    """The pid in a form that is no file's name, if a file is called so."""
    return f"{PROCESSES}{pid}" if os.path.exists(pid) else pid


def _only_process(name: str) -> Optional[str]:
    """The pid of the process of this name; None if there is none, SeveralProcesses if there are several."""
    from ..sources.live.processes_by_name import processes_called  # imported here: names are typed when no pid is known

    found = processes_called(name)
    if len(found) > 1:
        raise SeveralProcesses(name, found)
    return str(found[0].pid) if found else None


def _nothing_here(word: str) -> NoReturn:
    if LIKE_A_CORE.fullmatch(word):
        raise TargetError(
            f"there is no file {word!r} in this folder", with_suggestion(word, os.listdir(), "type its path")
        )
    _nothing(f"file or process {word!r}", word)


def _nothing(what: str, word: str) -> NoReturn:
    raise TargetError(f"there is no {what}", with_suggestion(word, process_names(), "ps -e lists the processes"))


def process_names() -> set[str]:
    from ..sources.live.processes_by_name import names_of, other_pids

    return {name for pid in other_pids() for name in names_of(pid)}


def is_process_name(word: str) -> bool:
    if likeness(word) != UNLIKELY or may_be_file_or_pid(word):
        return False
    from ..sources.live.processes_by_name import processes_called

    return bool(processes_called(word))


def may_be_file_or_pid(word: str) -> bool:
    """Whether the word is a pid, a path or an existing file, which no process name overrides."""
    return pid_in(word) is not None or os.sep in word or os.path.exists(word)


def likeness(word: str) -> int:
    """How likely the word is a process or core, from NOT to SURELY. A process's name counts as any other word."""
    pid = pid_in(word)
    if pid is not None:
        return SURELY if os.path.exists(f"{PROCESSES}{pid}") else MAYBE
    if is_url(word):
        return SURELY
    if not os.path.isfile(word):
        # a device or FIFO is not opened: that may block, or have an effect
        return NOT if word[:2].lower() == "0x" else UNLIKELY
    if is_elf(word):
        return SURELY
    from ..present.json_documents.snapshot_file import (
        looks_like_one,  # imported here: few words are files of another kind
    )

    return NOT if looks_like_one(word) else MAYBE


def likeliest(words: Sequence[str], at_least: int) -> Optional[int]:
    """The index of the most likely word, the first of equals; if none is likely, that of a process's name."""
    best = max(range(len(words)), key=lambda index: likeness(words[index]), default=None)
    if best is None or likeness(words[best]) >= MAYBE:
        return best
    named = next((index for index, word in enumerate(words) if is_process_name(word)), None)
    return named if named is not None else best if likeness(words[best]) >= at_least else None
