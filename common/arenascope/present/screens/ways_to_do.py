"""Advice in words, and ways to follow it, each as the reader can paste it."""

from __future__ import annotations

from typing import NamedTuple, Optional, Union

from ...base.model import Statement
from ..shared_text.findings import symbols_command
from ..shared_text.text import Style


class TypedCommand(NamedTuple):
    """One of our commands as a way to do something."""

    words: str
    more: str = ""
    applies: bool = False
    """The command changes the process, and needs what that takes."""

    def command(self, style: Style) -> Optional[str]:
        if self.applies and style.lacks:
            return None
        return style.applied(self.words) if self.applies else style.typed(self.words)

    def text(self, style: Style) -> str:
        if self.applies and style.lacks:
            return f"{self.words} would be refused: {style.lacks}"
        command = style.typed_to_apply(self.words) if self.applies else style.typed(self.words)
        if not self.more:
            return command
        # only one pair of brackets, after all that is to be pasted
        return f"{command[:-1]}; {self.more})" if command.endswith(")") else f"{command} ({self.more})"


class Later(NamedTuple):
    """A second look that tells whether memory grows. The command depends on whether it is a process or a core."""

    def command(self, style: Style) -> str:
        return style.typed("report --again 30" if style.running else "snapshot before.json")

    def text(self, style: Style) -> str:
        if style.running:
            return TypedCommand("report --again 30", "whether it grows").text(style)
        when = "then, on a later core," if style.core else "let it run, then"
        later = style._replace(subject=style.subject and "LATER").typed("report --since before.json")
        return TypedCommand("snapshot before.json", f"whether it grows: {when} {later}").text(style)


class Pasted(NamedTuple):
    """A setting or another program's command, with text around it."""

    words: str
    after: str = ""
    before: str = ""

    def command(self, style: Style) -> str:
        return self.words

    def text(self, style: Style) -> str:
        return f"{self.before}{self.words}{self.after}"


class Symbols(NamedTuple):
    """The command that installs a file's debug symbols."""

    said: Statement

    def command(self, style: Style) -> str:
        return self.said.names["command"]

    def text(self, style: Style) -> str:
        return symbols_command(self.said, style)


class Traced(NamedTuple):
    """strace, which shows who asks the kernel for memory. It cannot attach while a debugger does, nor to a core."""

    def command(self, style: Style) -> str:
        return f"strace -f -k -e trace=mmap,mremap -p {style.subject if style.running else 'PID'}"

    def text(self, style: Style) -> str:
        first = "" if style.running else "in the process, " if style.core else "once it is let go, "
        return f"{self.command(style)} ({first}while it grows: the stack of whoever asks for more)"


TYPES_NOW = "snapshot types.json --types"


class ByType(NamedTuple):
    """Snapshots with types. In the shell `watch` names what grew from the second look on."""

    def command(self, style: Style) -> str:
        return style.typed("watch --interval 30 --types --save moments" if style.running else TYPES_NOW)

    def text(self, style: Style) -> str:
        if style.running:
            return f"{self.command(style)} (which type grows; each look copies the process, and is kept there)"
        return f"{self.command(style)} (and later {style.typed('diff types.json')}: which grew)"


POOLS = (
    "a pool of their own: a slab, std::pmr, an array that reserve() makes at once",
    "made all at once, or by a thread that makes nothing else: its arena has nothing between them",
)
"""Ways to keep blocks apart from others."""
POOL_COST = "code to change, and a pool that keeps what its largest moment needed"
Way = Union[str, TypedCommand, Later, Symbols, Traced, ByType, Pasted]


class AdviceText(NamedTuple):
    """Advice as people read it. Cost and not_when are "" if there is nothing to say."""

    action: str
    evidence: str
    ways: tuple[Way, ...]
    cost: str = ""
    not_when: str = ""
    by_itself: bool = False
    """More returns if other owners' memory is freed too."""
    all_apply: bool = False
    """All ways are shown, as each serves another purpose."""

    def how(self, style: Style) -> tuple[str, ...]:
        """The ways as the user can paste them here."""
        return tuple(way if isinstance(way, str) else way.text(style) for way in self.ways)

    def commands(self, style: Style) -> tuple[Optional[str], ...]:
        """What can be pasted of each way; None if it is prose."""
        return tuple(None if isinstance(way, str) else way.command(style) for way in self.ways)
