"""Whether a report takes a copy of the process, and how it does without: where the copy was stopped, or takes longer
than the process may be held."""

from __future__ import annotations

from argparse import Namespace
from typing import Mapping, Optional

from ...base.errors import ArenascopeError, HoldEnded, HoldTooShort
from ...base.hold_limits import hold_over
from ...base.model import LEFT_OUT, Statement
from .snapshot_file import read

STOPPED = "stopped"
"""The id by which an answer says that Ctrl-C ended what it had begun."""


def without_copy(options: Namespace) -> Optional[Statement]:
    """Why this report does without a copy, as one before it could not make it; None: it does not."""
    why: Optional[Statement] = getattr(options, "without_copy", None)
    return why


def looks_into_blocks(options: Namespace) -> bool:
    return bool(options.types or options.owners or options.html) and without_copy(options) is None


def counts_containers(options: Namespace) -> bool:
    """At both moments: where the snapshot has them, or both looks are for types."""
    if without_copy(options) is not None:
        return False
    if options.since is None:
        return options.again is not None and bool(options.types)
    try:
        return "containers" in read(options.since)
    except ArenascopeError:
        return False  # which the command will say


def takes_copy(options: Namespace) -> bool:
    return looks_into_blocks(options) or counts_containers(options)


def asked(options: Namespace) -> list[str]:
    """What is told by option alone."""
    return [name for name in ("types", "owners") if getattr(options, name)]


def once_more(options: Namespace, error: Optional[HoldTooShort] = None) -> HoldEnded:
    """Makes whoever looks begin again, without a copy. `error`: why there is none; None: it was stopped."""
    if error is None:
        options.without_copy = stopped_before(options)
    else:
        options.without_copy = hold_over(error.at_most, error.foretold, _left_out(options))
    options.types = options.owners = False
    return HoldEnded(error.message if error else STOPPED, error.hint if error else None, again=True)


def stopped_before(options: Namespace) -> Statement:
    """Ctrl-C came before all was told that was asked for."""
    return Statement(STOPPED, names=_left_out(options))


def _left_out(options: Namespace) -> Mapping[str, str]:
    *others, last = ["types", "owners", "leaks"] if options.html else asked(options) or ["containers"]
    return {LEFT_OUT: f"{', '.join(others)} and {last}" if others else last}
