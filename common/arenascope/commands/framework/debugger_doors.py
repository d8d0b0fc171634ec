"""Shared by GDB's and LLDB's doors: the commands' names and help, and the parts of a Door that need no debugger."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from argparse import Namespace
from contextlib import ExitStack
from types import ModuleType
from typing import Callable, ContextManager, Optional, Sequence, TypeVar

from ...base.errors import TargetError, UsageError
from ...present.json_documents.record import Document
from ...sources.target import Target
from .api_subject import Subject
from .command import Command, Door, document

ALWAYS = "arenascope"
"""The prefix that is always registered."""
SHORT = "heap"
SETTING = "ARENASCOPE_HEAP_WORD"
"""The environment variable that sets another short prefix than SHORT."""
NO_WORD = "none"
SUMMARY = "Walk glibc malloc's arenas, bins and thread caches."
"""Help of the prefixes; by it we recognise a `heap` command as ours."""
BESIDES = f"the commands are under `{ALWAYS}`"


def prefixes(say: Callable[[str], None]) -> Sequence[str]:
    """The words that the commands are wanted under, the short one first.

    The rule for both debuggers: `arenascope` is always registered. `heap`, or the word that ARENASCOPE_HEAP_WORD names,
    is registered as soon as arenascope is loaded, as a command line may use it before any prompt, but only if no other
    command has it. An extension that is loaded later may take it. GDB's door also keeps it out of GDB's lists
    of commands, by which some extensions decide whether they may take a word.
    """
    word = os.environ.get(SETTING) or SHORT
    if word in (NO_WORD, ALWAYS):
        return (ALWAYS,)
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_-]*", word):
        say(f"arenascope: {SETTING}={word!r} cannot be a command's name; {BESIDES}")
        return (ALWAYS,)
    return (word, ALWAYS)


def taken(word: str) -> str:
    return f"arenascope: another command is called `{word}`; {BESIDES}"


class Selected(Subject):
    """A target that is looked up each time: whatever is selected in the debugger, which holds it."""

    def __init__(self, door: Callable[[], ContextManager[Door]]) -> None:
        self._door = door

    def look(self, command: Command, options: Namespace) -> Document:
        with self._door() as door:
            return document(command, options, door)


_offered: list[Callable[[], ContextManager[Door]]] = []


def offer(door: Callable[[], ContextManager[Door]]) -> None:
    """Registers the debugger's door for Python programs that run in this debugger."""
    _offered[:] = [door]


def selected() -> Subject:
    if not _offered:
        raise TargetError("no debugger has loaded arenascope here", "name a pid or a core file")
    return Selected(_offered[0])


AnyDoor = TypeVar("AnyDoor", bound="DebuggerDoor")


class DebuggerDoor:
    """The door of one command, without what needs the debugger's API."""

    name: str
    lets_go = False
    held_seconds: Optional[float] = None

    def __init__(self, prefix: str, folder: str) -> None:
        """`folder`: where the door's own files are."""
        self.prefix = prefix
        self.folder = folder
        self.opened = ExitStack()
        """Closes our files of the target at the end; the debugger keeps its own open."""

    def __enter__(self: AnyDoor) -> AnyDoor:
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.close()

    def beside(self, name: str) -> ModuleType:
        return load_from_folder(self.name, name, self.folder)

    def confirm(self, question: Callable[[], str]) -> bool:
        if not os.isatty(0):
            raise UsageError("there is nobody to ask", "-y says yes beforehand")
        return input(f"{question()} (y or n) ").strip().lower() in ("y", "yes")

    def notice(self, text: str) -> None:
        # straight to standard error: a script may capture the debugger's output as data
        if sys.__stderr__ is not None:
            sys.__stderr__.write(text)
            sys.__stderr__.flush()

    def before_hold(self, work: Callable[[Target], None]) -> None:
        pass  # in a debugger the target stands still already

    def release(self) -> float:
        # the user who attached detaches
        return 0.0


def help_body(command: Command, prefix: str) -> str:
    """Usage, description and options. The debugger shows the summary by itself."""
    usage, _, rest = command.parser(prefix).format_help().partition("\n\n")
    return f"{usage.replace('usage', 'Usage')}\n\n{rest.partition(command.summary)[2].strip()}"


def load_from_folder(door: str, name: str, folder: str) -> ModuleType:
    """Loads a file of a debugger's door as a module when it is first needed."""
    return load_once(f"arenascope_{door}.{name}", os.path.join(folder, f"{name}.py"))


def load_once(name: str, path: str) -> ModuleType:
    """Loads a file as the module of this name, completely or not at all. After Ctrl-C in the middle, later commands
    must not find half a module."""
    module = sys.modules.get(name)
    if module is not None:
        return module
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    try:
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except BaseException:  # KeyboardInterrupt is no Exception
        sys.modules.pop(name, None)
        raise
    return module
