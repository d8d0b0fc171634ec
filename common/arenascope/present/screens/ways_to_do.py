"""An advice in words, and ways to do it: each as it can be pasted where the reader is, and what is said around it."""

from __future__ import annotations

from typing import NamedTuple, Optional, Union

from ...base.model import Statement
from ..shared_text.debug_info import symbols_command
from ..shared_text.text import Style


class TypedCommand(NamedTuple):
    """A command of ours as a way to do something."""

    words: str
    more: str = ""
    applies: bool = False
    """It changes a process, for which that must have what is needed."""

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
        # one bracket, after all that is to be pasted
        return f"{command[:-1]}; {self.more})" if command.endswith(")") else f"{command} ({self.more})"


class Later(NamedTuple):
    """A second look, which tells whether it grows: what can be typed depends on what there is to look at."""

    def command(self, style: Style) -> str:
        return style.typed("report --again 30" if style.running else "snapshot before.json")

    def text(self, style: Style) -> str:
        if style.running:
            return TypedCommand("report --again 30", "whether it grows").text(style)
        when = "then, on a later core," if style.core else "let it run, then"
        later = style._replace(subject=style.subject and "LATER").typed("report --since before.json")
        return TypedCommand("snapshot before.json", f"whether it grows: {when} {later}").text(style)


class Pasted(NamedTuple):
    """A setting, or another program's command, with what is said around it."""

    words: str
    after: str = ""
    before: str = ""

    def command(self, style: Style) -> str:
        return self.words

    def text(self, style: Style) -> str:
        return f"{self.before}{self.words}{self.after}"


class Symbols(NamedTuple):
    """The command that brings a file's debug symbols."""

    said: Statement

    def command(self, style: Style) -> str:
        return self.said.names["command"]

    def text(self, style: Style) -> str:
        return symbols_command(self.said, style)


class Traced(NamedTuple):
    """Who asks the kernel for more, told by a tracer: a debugger's process has one already, a core has no process."""

    def command(self, style: Style) -> str:
        return f"strace -f -k -e trace=mmap,mremap -p {style.subject if style.running else 'PID'}"

    def text(self, style: Style) -> str:
        first = "" if style.running else "in the process, " if style.core else "once it is let go, "
        return f"{self.command(style)} ({first}while it grows: the stack of whoever asks for more)"


TYPES_NOW = "snapshot types.json --types"


class ByType(NamedTuple):
    """Moments by type: the shell's screen names what grew from the second look on."""

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
"""How blocks come to lie apart from others."""
POOL_COST = "code to change, and a pool that keeps what its largest moment needed"
Way = Union[str, TypedCommand, Later, Symbols, Traced, ByType, Pasted]


class AdviceText(NamedTuple):
    """An advice as people read it: what it costs and when not to are "" where there is nothing to say."""

    action: str
    evidence: str
    ways: tuple[Way, ...]
    cost: str = ""
    not_when: str = ""
    by_itself: bool = False
    """What it brings is more once others do theirs."""
    all_apply: bool = False
    """Each way is about something else: all are shown."""

    def how(self, style: Style) -> tuple[str, ...]:
        """As a user can paste it here."""
        return tuple(way if isinstance(way, str) else way.text(style) for way in self.ways)

    def commands(self, style: Style) -> tuple[Optional[str], ...]:
        """Of each of these what can be pasted; None where it is to be read."""
        return tuple(None if isinstance(way, str) else way.command(style) for way in self.ways)
