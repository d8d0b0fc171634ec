"""arenascope: what glibc malloc holds, whose it is, and what would give it back.

For programs: `arenascope.open(PID_OR_CORE).arenas()`; inside GDB and LLDB `arenascope.selected()`: see docs/api.md.
"""

from .base.about import __version__ as __version__

__all__ = [
    "Arenas",
    "ArenascopeError",
    "Document",
    "Owners",
    "RefusedError",
    "Subject",
    "TargetError",
    "Trim",
    "Types",
    "UsageError",
    "open",
    "selected",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from typing import Optional, Sequence, Union

    from .base.errors import ArenascopeError as ArenascopeError
    from .base.errors import RefusedError as RefusedError
    from .base.errors import TargetError as TargetError
    from .base.errors import UsageError as UsageError
    from .commands.arenas import ArenasDocument as Arenas
    from .commands.framework.api_subject import Subject as Subject
    from .commands.owners import OwnersDocument as Owners
    from .commands.trim import TrimDocument as Trim
    from .commands.types import TypesDocument as Types
    from .present.json_documents.record import Document as Document
else:

    def __getattr__(name: str) -> object:
        """Loaded when it is first asked for: the shell, which starts for each look, needs none of it."""
        if name in ("ArenascopeError", "RefusedError", "TargetError", "UsageError"):
            from .base import errors

            found = getattr(errors, name)
        elif name in ("Document", "Subject"):
            from .commands.framework import api_subject

            found = getattr(api_subject, name)
        elif name == "Arenas":
            from .commands.arenas import ArenasDocument as found
        elif name == "Owners":
            from .commands.owners import OwnersDocument as found
        elif name == "Trim":
            from .commands.trim import TrimDocument as found
        elif name == "Types":
            from .commands.types import TypesDocument as found
        else:
            raise AttributeError(f"module 'arenascope' has no attribute {name!r}")
        return found


def open(
    subject: "Union[str, int, PathLike[str], None]" = None,
    *,
    stop: str = "ptrace",
    hold_at_most: "Optional[float]" = None,
    symbols: bool = True,
    debug_dirs: "Sequence[str]" = (),
    sysroot: "Optional[str]" = None,
    declared: "Optional[bool]" = None,
    jobs: int = 1,
) -> "Subject":
    """A process by its pid, a core by its path; without either, what the debugger that this runs in has selected.

    `hold_at_most` is in seconds; the others are the shell's options of these names, `declared=False` is --no-declared.
    """
    if subject is None:
        return selected()
    from .cli.api import Opened
    from .cli.shell import How

    return Opened(str(subject), How(stop, debug_dirs, symbols, sysroot=sysroot, declared=declared), hold_at_most)


def selected() -> "Subject":
    """What is selected in the debugger that this runs in, each time that it is asked."""
    from .commands.framework.debugger_doors import selected

    return selected()
