"""What a command may ask of the door where it was typed. GDB, LLDB and the shell each have one."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Optional,
    Protocol,
    Sequence,
)

from .render.text import Style
from .target import Target

if TYPE_CHECKING:
    from .apply import Controller


class Door(Protocol):
    """Where a command was typed, and where its output goes."""

    name: str
    held_seconds: Optional[float]
    """For how long this door itself held the process, once it runs on; None where it did not hold one."""

    processes: int
    """How many may share the work of one look, as Session has it."""

    @property
    def lets_go(self) -> bool:
        """Whether the target here runs on after release()."""

    def target(self) -> Target:
        """What is looked at now; TargetError where there is nothing."""

    def controller(self) -> Optional[Controller]:
        """What can run the process; None where this door only reads."""

    def confirm(self, question: str) -> bool:
        """Asks the user; UsageError where there is nobody to ask."""

    def style(self) -> Style: ...

    def write(self, text: str) -> None: ...

    def notice(self, text: str) -> None:
        """To standard error: what must not mix with a script's data."""

    def release(self) -> float:
        """Everything was read: what this door itself holds may run on. The seconds for which it was held; 0.0: not."""

    def describe(self) -> Sequence[str]:
        """The debugger and its Python, for `version`."""
