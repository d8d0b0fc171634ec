"""What is said of a hold before it begins: for how long it will last and why, and what avoids it."""

from __future__ import annotations

from ...base.hold_limits import COPIED, LISTED, SWEPT, WRITTEN, HoldTime, allows_more
from .text import Style, duration

WHY = {
    COPIED: "{size} of memory to copy",
    WRITTEN: "{size} of memory to write to the disk, as there is too little memory for a copy",
    SWEPT: "{size} to read chunk by chunk",
    LISTED: "{amount:,} free chunks to read",
}
LESS = (
    "arenas --quick reads little; --no-stop does not stop it; what `save` has copied can be asked any number of times"
)


def more(at_most: float, needed: float) -> str:
    return f"{allows_more(at_most, needed)}; {LESS}"


def _why(hold: HoldTime) -> str:
    return WHY[hold.what].format(size=Style().size(hold.amount), amount=hold.amount)


def announced(pid: int, hold: HoldTime, at_most: float, is_whole: bool) -> str:
    """`is_whole`: a part of it is no answer."""
    will = f"process {pid} will stand still for about {duration(hold.seconds)}: {_why(hold)}"
    # what is swept and whole is a call (trim --apply), which nothing else does
    less = f"; {LESS}" if hold.what != SWEPT or not is_whole else ""
    if hold.seconds <= at_most:
        return f"{will} (--hold-at-most 2s would limit it{less})"
    then = "there may be no answer" if is_whole else "the answer may be of a part"
    return f"{will}; as only {at_most:g} s are allowed, {then} ({allows_more(at_most, hold.seconds)}{less})"


def in_vain(pid: int, hold: HoldTime, at_most: float) -> str:
    return f"process {pid} is not held: {_why(hold)}, which takes more than {at_most:g} s"
