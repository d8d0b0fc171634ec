"""What is said of other allocators and of several glibcs: in `version`, and in `arenas`."""

from __future__ import annotations

from typing import (
    Iterator,
    Optional,
    Sequence,
)

from ..gather.allocators import share_json
from ..glibc.find.copies import Copy
from ..render.text import Style
from ..session import Session


def copies_lines(copies: Sequence[Copy], chosen: int) -> Iterator[str]:
    """Only where there is a choice."""
    for number, copy in enumerate(copies if len(copies) > 1 else ()):
        state = ", this one" if number == chosen else ""
        state += "" if copy.used else ", its malloc was never called"
        yield f"libc {number}: {copy.file}, main_arena {copy.main_arena:#x}{state}"


def allocators_lines(style: Style, session: Session, walk: bool = True) -> Iterator[str]:
    """One line for each; the first says how little or how much the arenas are."""
    share = _share_text(style, share_json(session, walk))
    for number, each in enumerate(session.located.allocators):
        does = {
            True: "serves malloc here",
            False: "has a heap of its own beside malloc",
            None: "may serve malloc here",
        }[each.replaces_malloc]
        if each.replaces_malloc is False and "behind" in each.how:
            does = "is loaded, yet malloc does not lead to it"
        yield f"{each.name} ({each.how}) {does}{'' if number else share}; {each.instead}"


def _share_text(style: Style, share: Optional[dict[str, Optional[int]]]) -> str:
    """ ": glibc's arenas hold 0.1% of the 84.2 MiB resident", as far as it is known; "" where it is not."""
    ours, rss = (share["glibc_resident_bytes"], share["rss_bytes"]) if share else (None, None)
    if ours is None:
        return ""
    if not rss:
        return f": glibc's arenas have {style.size(ours)} resident"
    return f": glibc's arenas hold {100 * ours / rss:.1f}% of the {style.size(rss)} resident"
