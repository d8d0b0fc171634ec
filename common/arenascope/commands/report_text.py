"""What `heap report` writes for people: the answer first, then the parts, why, and what to do."""

from __future__ import annotations

import textwrap
from typing import Iterator, Optional, Sequence

from ..analysis.advice import Advice
from ..analysis.causes import Cause, Say
from ..analysis.report import FREE, LABELS, LIVE, Picture
from ..analysis.usage import ArenaUsage, total
from ..render.text import Style, count, table
from . import Context
from .gather import Trim

WIDTH = 100
"""A line longer than this is not read."""
SMALL = 200
"""A part of less than one in so many is a row of its own only with --full."""


def space_verdict(plans: Sequence[Trim], usages: Sequence[ArenaUsage], say: Say) -> str:
    """For an image without residency: what lies where in address space."""
    system = sum(usage.header.system_mem for usage in usages)
    used = total(usage.used for usage in usages)
    released = total(trim.plan.release_bytes for trim in plans)
    tops = total(trim.plan.tops_bytes for trim in plans)
    return (f"{say(system)} of address space in {count(len(usages), 'arena')}: {say(used)} in use; malloc_trim would "
            f"release {say(released)}, and {say(tops)} lies in tops that it never touches. How much of it was "
            "resident, this image does not tell.")  # fmt: skip


def lines(context: Context, sentence: str, picture: Optional[Picture], causes: Sequence[Cause],
          advice: Sequence[Advice], notes: Sequence[str]) -> Iterator[str]:  # fmt: skip
    style = context.style
    width = min(style.width or WIDTH, WIDTH)
    for line in textwrap.wrap(sentence, width, break_long_words=False, break_on_hyphens=False):
        yield style.bold(line)
    for note in notes:
        yield from textwrap.wrap(f"note: {note}", width)
    if picture is not None:
        yield ""
        yield from _parts(style, picture, context.options.full)
    if causes:
        yield ""
        yield style.bold("why it stays")
        for cause in causes:
            yield from _item(f"{cause.cause} [{cause.evidence}]", width)
    if advice:
        yield ""
        overlap = sum(1 for each in advice if each.effect) > 1
        yield style.bold("what to do") + (" (figures overlap: do not add them)" if overlap else "")
        for number, each in enumerate(advice, 1):
            yield from _advice(style, number, each, width, context.options.full)
    yield ""
    more = "" if context.options.full else f"{style.program} report --full (costs, other ways to set it), "
    yield style.dim(f"next: {more}{style.program} trim, {style.program} pins, {style.program} arenas")


def _parts(style: Style, picture: Picture, full: bool) -> Iterator[str]:
    whole = picture.known
    shown = [name for name in LABELS if name in picture.parts]
    small = [] if full else [name for name in shown if SMALL * picture.parts[name] < whole and name not in LIVE[:1]]
    rows = [[LABELS[name], style.size(picture.parts[name]), _share(picture.parts[name], whole), _mark(name)]
            for name in shown if name not in small]  # fmt: skip
    if small:
        rest = sum(picture.parts[name] for name in small)
        rows.append([f"{count(len(small), 'smaller part')} (--full)", style.size(rest), _share(rest, whole), ""])
    name = "RSS" if picture.rss is not None else "anonymous memory"
    yield from table(("part", "resident", "share", ""), rows, left=(0, 3), footer=[name, style.size(whole), "", ""])
    if picture.swapped:
        yield f"in swap besides: {style.size(picture.swapped)}"
    for owner in picture.others[:3]:
        if 20 * owner.bytes >= whole:
            yield f"not malloc's: {style.size(owner.bytes)} at {owner.region.start:#x} ({owner.name or 'anonymous'})"


def _mark(name: str) -> str:
    return "live" if name in LIVE else "free" if name in FREE else ""


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def _item(text: str, width: int, mark: str = "-") -> Iterator[str]:
    yield from textwrap.wrap(text, width, initial_indent=f"  {mark} ", subsequent_indent=" " * (len(mark) + 3),
                             break_long_words=False, break_on_hyphens=False)  # fmt: skip


def _advice(style: Style, number: int, advice: Advice, width: int, full: bool) -> Iterator[str]:
    effect = ""
    if advice.effect:
        effect = f": {'at most ' if advice.bound else ''}{style.size(advice.effect)}"
    yield from _item(f"{advice.action}{effect} [{advice.evidence}]", width, f"{number}.")
    for how in advice.how if full else advice.how[:1]:
        yield from _item(how, width, "  →")
    if full and advice.cost:
        yield from _item(f"costs: {advice.cost}", width, "   ")
    if full and advice.not_when:
        yield from _item(advice.not_when, width, "   ")
