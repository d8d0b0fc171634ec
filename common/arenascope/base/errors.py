"""Every error that arenascope raises on purpose.

    ArenascopeError                 one line for the user, and perhaps a hint: what to try next
    ├── UsageError                  the command line is wrong
    ├── TargetError                 there is no process or core to look at, or it cannot be opened
    │   ├── RedactedError           it was left out of the file
    │   └── HoldEnded               a live process was let go before it was read whole
    │       └── HoldTooShort        as it may be held no longer
    ├── NoEngineError               the compiled part is not there
    ├── MemoryReadError             these bytes cannot be read
    ├── NotFoundError               no glibc heap could be located in this image
    ├── NoTypeError                 no block certainly has the type that is asked for
    ├── RefusedError                what was asked would not be safe now
    └── EndedError                  the process ended while it was made to do something

HoldOver is none of them: it ends a walk as Ctrl-C does, and what was read until then is the answer.

Damage inside a heap is not an error: it is a Finding that travels with what could be read.
"""

from __future__ import annotations

from typing import Optional


class ArenascopeError(Exception):
    """The root: its message is the whole line that the user reads."""

    id = "not-read"
    """Identifies the error for programs: it stays the same from release to release. docs/scripts.md lists all."""

    def __init__(self, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self._message = message
        self.hint = hint

    @property
    def message(self) -> str:
        return self._message

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(ArenascopeError):
    """The command line is wrong."""

    id = "usage"


class TargetError(ArenascopeError):
    """There is no process or core to look at, or it cannot be opened."""

    id = "no-target"


class NoEngineError(ArenascopeError):
    """The compiled engine is not there."""

    id = "no-engine"

    def __init__(self, why: str, how: str) -> None:
        super().__init__(f"this needs the compiled engine: {why}", how)
        self.why = why


class RedactedError(TargetError):
    """The data asked for was left out of the file."""

    id = "redacted"

    def __init__(self, to_tell: str) -> None:
        super().__init__(
            f"what the blocks held was left out of this file (save --redact): nothing tells {to_tell}",
            "chunks --summary has their sizes",
        )


class HoldEnded(TargetError):
    """A live process was released before it was read whole; `again`: whether another look may succeed."""

    id = "hold-ended"

    def __init__(self, message: str, hint: Optional[str] = None, again: bool = False) -> None:
        super().__init__(message, hint)
        self.again = again


class HoldTooShort(HoldEnded):
    """`at_most`, the longest hold in seconds, was too short."""

    def __init__(self, message: str, hint: str, at_most: float) -> None:
        super().__init__(message, hint)
        self.at_most = at_most


class HoldOver(KeyboardInterrupt):
    """The hold is over; `ended` says so if nothing had been read that would be an answer."""

    def __init__(self, ended: HoldEnded) -> None:
        super().__init__(str(ended))
        self.ended = ended


class MemoryReadError(ArenascopeError):
    """The image does not hold these bytes."""

    id = "unreadable-memory"

    def __init__(self, address: int, size: int) -> None:
        # a search raises thousands that nobody shows: the message is made on demand
        Exception.__init__(self, address, size)
        self.address = address
        self.size = size
        self.hint = None

    @property
    def message(self) -> str:
        return f"cannot read {self.size} bytes at {self.address:#x}"


class NotFoundError(ArenascopeError):
    """No glibc heap could be located."""

    id = "no-heap"


class NoTypeError(ArenascopeError):
    """No block certainly has the type asked for, or the program's types are not known."""

    id = "no-type"


class RefusedError(ArenascopeError):
    """The action was refused because it would not be safe; `id` says why."""

    def __init__(self, id: str, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message, hint)
        self.args = (id, message, hint)
        self.id = id


class EndedError(ArenascopeError):
    """The process has ended."""

    id = "process-ended"

    def __init__(self, how: str) -> None:
        super().__init__(f"the process has ended, {how}")
