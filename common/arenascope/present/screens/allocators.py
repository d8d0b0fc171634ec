"""The text about other allocators and several glibcs, for `version` and `arenas`."""

from __future__ import annotations

from typing import Iterator, Mapping, Optional, Sequence

from ...analysis.growth import is_outside_malloc
from ...base.model import Allocator
from ...glibc.find.several_glibcs import GlibcCopy
from ...session.resident import GlibcShare
from ..shared_text.text import Style


def copies_lines(copies: Sequence[GlibcCopy], chosen: int) -> Iterator[str]:
    """Lists the glibc copies if there are several."""
    for number, copy in enumerate(copies if len(copies) > 1 else ()):
        state = ", this one" if number == chosen else ""
        state += "" if copy.used else ", its malloc was never called"
        yield f"libc {number}: {copy.file}, main_arena {copy.main_arena:#x}{state}"


def allocators_lines(style: Style, allocators: Sequence[Allocator], share: Optional[GlibcShare]) -> Iterator[str]:
    """One line for each allocator; the first also says how much memory glibc's arenas have."""
    of_it = _share_text(style, share)
    for number, each in enumerate(allocators):
        does = {
            True: "serves malloc here, glibc only what bypasses it",
            False: "has a heap of its own beside malloc",
            None: "may serve malloc here",
        }[each.replaces_malloc]
        if each.shadowed_by:
            does = "is loaded, yet malloc does not lead to it"
        yield f"{each.name} ({each.how}) {does}{'' if number else of_it}; {each.instead}"


def outside_malloc_lines(allocators: Sequence[Allocator], changes: Mapping[str, Optional[int]]) -> Iterator[str]:
    """Names the allocators to ask if what grew is outside malloc. `changes`: growth of each part of resident memory."""
    for each in allocators if is_outside_malloc(changes) else ():
        if not each.shadowed_by:
            where = f"outside glibc's malloc, where {each.name} has a heap of its own"
            yield f"most of what grew is {where}: {each.instead}"


def _share_text(style: Style, share: Optional[GlibcShare]) -> str:
    """ ": glibc's arenas hold 0.1% of the 84.2 MiB resident", or what is known of it; "" if nothing is."""
    ours, rss = share or (None, None)
    if ours is None:
        return ""
    if not rss:
        return f": glibc's arenas have {style.size(ours)} resident"
    return f": glibc's arenas hold {100 * ours / rss:.1f} % of the {style.size(rss)} resident"
