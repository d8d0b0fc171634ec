"""Which process or core a command line names: by -p or -c, by its likeliest word, or by a process's name."""

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
"""A subject, and a type's name, a file to write, or the program of a core."""
CORE_SUFFIX = ".core"
LIKE_A_CORE = re.compile(r".*\.core(\.\w+)?|core\..*|core")
"""What files are called and processes are not."""
WRITTEN = ("file",)
"""How a command that writes a file calls its only place."""

NOT, UNLIKELY, MAYBE, SURELY = range(4)
"""How much a word looks like a process or core: an address least, then a word, a file or number, a live or ELF one."""


class SeveralProcesses(UsageError):
    """A name that is not one process's alone."""

    def __init__(self, name: str, found: Sequence[NamedProcess]) -> None:
        super().__init__(f"{len(found):,} processes are called {name!r}", "name one by its pid")
        self.found = found


def find_subjects(command: Command, parser: Parser, options: Namespace) -> None:
    """What a command reads. -p and -c name it; otherwise, where the command takes words of its own, the word that looks
    most like it does."""
    chosen = _by_option(options)
    if next(places_of(command.outline().groups), None) is not None:
        _fill_places(command, parser, options, bool(chosen))
    alone = len(options.subjects) == 1
    _refuse_gdb_order(command.name, options.subjects)
    options.subjects = [*chosen, *(_subject(each, alone) for each in options.subjects)]


def _refuse_gdb_order(name: str, words: Sequence[str]) -> None:
    """A program before its core, as debuggers take them: a core says itself which program it is of."""
    if len(words) == PAIR and is_program(words[0]) and is_elf(words[1]) and not is_program(words[1]):
        raise UsageError(
            f"{words[0]} is a program, and the core names it", f"leave it out: {PROGRAM} {name} {quote(words[1])}"
        )


def _fill_places(command: Command, parser: Parser, options: Namespace, chosen: bool) -> None:
    """Gives the command its own words, and leaves what is to be read; `chosen`: that is no word."""
    places = list(places_of(command.outline().groups))
    several = places[-1].options.get("nargs") == "+"
    given = [getattr(options, place.names[0]) for place in places]
    words: list[str] = []
    for value in given:
        words += value if isinstance(value, list) else [value] if value is not None else []
    words += options.subjects
    if not chosen and getattr(options, "values", True) is False:
        # of types: without --values each word is a subject, but for one that cannot be, beside one
        unlikely = [each for each in words if likeness(each) <= UNLIKELY and os.sep not in each]
        if len(unlikely) == PAIR:
            unlikely = [each for each in unlikely if not is_process_name(each)]
        options.name = unlikely[0] if len(words) == PAIR and len(unlikely) == 1 else None
        options.subjects = [each for each in words if each != options.name]
        return
    # a command that needs no subject, or cannot tell its own words apart, is given no unlikely one
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
    """Which word of a command that writes FILE is to be read: the second, as its usage says, or a pid before it, or a
    core before what can only be a file. Another core that is there is FILE all the same: else a mistyped process's name
    behind it would become a copy of that core."""
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
    """Of a command that reads processes alone: `pids`, in place of what was typed."""
    options.pids = [*typed_pids(options.named_pids), *map(_pid, options.pids)]
    if not options.pids:
        parser.error("the following arguments are required: PID")


def find_named(parser: Parser, options: Namespace) -> None:
    """Of a command that reads whatever is named, and has no words of its own."""
    options.subjects = [*_by_option(options), *(_subject(each, True) for each in options.subjects)]
    if not options.subjects:
        parser.error("the following arguments are required: PID|CORE")


def _by_option(options: Namespace) -> list[str]:
    pids = typed_pids(getattr(options, "named_pids", ()))
    # digits alone would be a pid
    cores = [os.path.join(".", each) if each.isdigit() else each for each in getattr(options, "named_cores", ())]
    return [*map(as_subject, pids), *cores]


def typed_pids(words: Sequence[str]) -> list[str]:
    """Of processes that an option names."""
    return [_pid(word) for each in words for word in _split(each)]


def _split(typed: str) -> Sequence[str]:
    """`pidof` puts blanks between several, perf commas; a name may have either."""
    return re.findall(r"\d+", typed) if re.fullmatch(r"[\d\s,]+", typed) else [typed]


def _pid(word: str) -> str:
    """Of what can only be a process."""
    pid = word if word.isdigit() else pid_in(word) or _only_process(word)
    if pid is None and os.path.isfile(word):
        raise TargetError(f"{word} is a file: only a process can be named here", "ps -e lists the processes")
    return pid or _nothing(f"process {word!r}", word)


def _subject(word: str, alone: bool) -> str:
    """A pid or path. Of several that are looked at, one that is not there is told in its turn. A program or script in
    this folder cannot be looked at: it names the process that runs it, as in any other folder."""
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
    """A file may have the same name."""
    return f"{PROCESSES}{pid}" if os.path.exists(pid) else pid


def _only_process(name: str) -> Optional[str]:
    """None where no process is called so; SeveralProcesses where several are."""
    from ..sources.live.processes_by_name import processes_called  # a name is typed where no pid is known

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
    """These are what they seem, whatever processes are called."""
    return pid_in(word) is not None or os.sep in word or os.path.exists(word)


def likeness(word: str) -> int:
    """One of NOT to SURELY; a process's name is a word like others."""
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
    from ..commands.steps.snapshot_file import looks_like_one  # few words are files of another kind

    return NOT if looks_like_one(word) else MAYBE


def likeliest(words: Sequence[str], at_least: int) -> Optional[int]:
    """Which of the words most looks like a process or core, the first of equals; where none does, a process's name."""
    best = max(range(len(words)), key=lambda index: likeness(words[index]), default=None)
    if best is None or likeness(words[best]) >= MAYBE:
        return best
    named = next((index for index, word in enumerate(words) if is_process_name(word)), None)
    return named if named is not None else best if likeness(words[best]) >= at_least else None
