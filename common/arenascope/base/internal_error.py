"""The last resort of every door: an unexpected exception becomes one line that the user can report.

That line is the whole report: the exception and where it was raised. It names no file of the user's and holds no memory
of the process, except what the exception's own text has.
"""

from __future__ import annotations

import os
import sys
import traceback

from .about import __version__
from .printable import one_line

STATUS = 3
"""The shell's exit status: neither 1 (something was found) nor 2 (there was nothing to look at)."""
DEEPEST = 4
"""The number of innermost frames that are named."""
LONGEST = 160


def fault_id(error: BaseException) -> str:
    """Returns an id as ArenascopeError.id."""
    return "out-of-memory" if isinstance(error, MemoryError) else "internal-error"


def fault_line(error: BaseException, command: str, door: str) -> str:
    """Returns the message for an uncaught exception; ARENASCOPE_DEBUG=1 in the environment adds the traceback."""
    if isinstance(error, MemoryError):
        return "there is not enough memory to go on (a machine with more, or fewer looks at a time)"

    if os.environ.get("ARENASCOPE_DEBUG") and sys.__stderr__ is not None:
        traceback.print_exception(type(error), error, error.__traceback__, file=sys.__stderr__)
    frames = traceback.extract_tb(error.__traceback__)[-DEEPEST:]
    places = " < ".join(f"{os.path.basename(each.filename)}:{each.lineno} {each.name}" for each in reversed(frames))
    what = one_line(str(error))
    what = what if len(what) <= LONGEST else what[:LONGEST] + "…"
    python = ".".join(map(str, sys.version_info[:3]))
    return (
        f"this is a fault of arenascope's own: {type(error).__name__}: {what} "
        f"[{places}; {command}, {door}, arenascope {__version__}, Python {python}] "
        "(please report this line, see SECURITY.md; ARENASCOPE_DEBUG=1 shows the whole traceback)"
    )
