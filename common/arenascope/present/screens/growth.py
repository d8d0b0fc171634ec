"""Sentences about growth between two moments."""

from __future__ import annotations

from typing import Iterator, Mapping, Optional, Sequence

from ...analysis.diff import CONTAINER, NAMELESS
from ...analysis.report import is_unnamed
from ...analysis.trend import BLOCKS_OF_A_SIZE, Grown, worth_naming
from ...base.class_names import type_words
from ...base.model import Statement, whole
from ..shared_text.text import Style, number, signed
from .types import GUESS

LONG_ENOUGH = 60
"""Below this, an hourly rate means nothing."""
MINUTE, HOUR = 60, 3600
ALIKE = 1.1
"""A time up to so much longer than asked for is not mentioned."""
SHORT = 2 * HOUR
"""Below this, rates are given by the minute."""
WHAT = {
    "live": "what the program holds",
    "free": "what malloc keeps free",
    "elsewhere": "memory outside malloc",
}
TITLES = {
    "part": "part of resident memory",
    "arena": "arena, by what it took",
    "used": "arena, by what the program holds",
    "bin": "list of free chunks",
    "size": "size of block, in use",
    "type": "type of block, in use",
    CONTAINER: "container, by its elements",
    "owner": "owner of blocks in use",
}
"""Titles of tables of changed figures."""


def amount_cell(style: Style, by: str, value: Optional[int]) -> str:
    return number(value) if by == CONTAINER else style.size(value)


def change_cell(style: Style, by: str, change: Optional[int]) -> str:
    return f"{change:+,}" if by == CONTAINER and change is not None else signed(style, change)


def rate_cell(style: Style, by: str, per_hour: Optional[float], unit: int = HOUR) -> str:
    """`unit`: seconds that the rate is for."""
    rate = None if per_hour is None else round(per_hour * unit / HOUR)
    if by == CONTAINER:
        return "" if rate is None else f"{rate:+,}"
    return signed(style, rate)


def unit_of_rates(seconds: float) -> int:
    """The unit of rates for figures seen over so many seconds, so that a screen uses one."""
    return MINUTE if seconds < SHORT else HOUR


def in_a_unit(unit: int) -> str:
    return "a minute" if unit == MINUTE else "an hour"


def rate_words(style: Style, per_hour: float, seconds: float) -> str:
    """ "+12.0 MiB a minute", for a change seen over so many seconds."""
    unit = unit_of_rates(seconds)
    return f"{rate_cell(style, 'rss', per_hour, unit)} {in_a_unit(unit)}"


def growth_headlines(style: Style, grown: Optional[Sequence[Grown]]) -> list[str]:
    """ "+12.0 MiB a minute: Conn in `table` (+5,900 blocks in 3.0 min)" for each type worth naming; empty if no type
    grew, or it is not known."""
    return [_headline(style, each) for each in worth_naming(grown or ())]


def _headline(style: Style, grown: Grown) -> str:
    over, per_minute = interval_words(grown.seconds), grown.per_minute_bytes
    change = f"{signed(style, grown.bytes)} in {over}"
    if per_minute is not None:
        change = rate_words(style, per_minute * HOUR / MINUTE, grown.seconds)
    headline = f"{change}: {_grown_type(grown)}{_grown_in(grown)}"
    if grown.blocks is None:
        return headline
    return f"{headline} ({grown.blocks:+,} blocks{'' if per_minute is None else f' in {over}'})"


def _grown_type(grown: Grown) -> str:
    if grown.kind == BLOCKS_OF_A_SIZE and grown.type[:1].isdigit():
        return f"blocks of {grown.type}"
    return type_words(grown.type) + ("" if grown.certain else GUESS)


def _grown_in(grown: Grown) -> str:
    if grown.owner is None:
        return ""
    if grown.owner_kind == "unreached":
        return ", which nothing leads to"
    is_variable = grown.owner_kind == "global" and grown.owner != NAMELESS and not is_unnamed(grown.owner)
    return f" in `{grown.owner}`" if is_variable else f" in {grown.owner}"


def growth_sentence(said: Statement) -> str:
    style = Style()
    figures, seconds = whole(said.figures), said.figures.get("seconds")
    if said.id == "another-process":
        return "That snapshot is of another process: it cannot show whether this one grows."
    if said.id == "snapshot-is-later":
        return "That snapshot was taken after this: it cannot show growth since then."
    if said.id == "growth-unknown":
        return "Growth is not known: what is in use is not known at one of the two moments."
    when = "Since the snapshot" if seconds is None else f"In {interval_words(seconds)}"
    if "container" in said.names:
        # the program's container comes before malloc's figures
        when = f"{said.names['container']}: {figures['container_change_elements']:+,} elements. {when}"
    if said.id == "fell":
        rss = figures.get("rss_change_bytes")
        shrank = figures["live_change_bytes"] if rss is None else rss
        return f"{when} it shrank: {'in use' if rss is None else 'RSS'} {signed(style, shrank)}."
    if said.id == "grew-too-little":
        return (
            f"{when} {WHAT['live']} grew by {style.size(figures['live_change_bytes'])}, too little to tell a leak from "
            f"what comes and goes ({_listed(style, figures)}). Compare moments that are further apart."
        )
    if said.id == "held-still":
        little = any((figures.get(f"{name}_change_bytes") or 0) > 0 for name in ("rss", *WHAT))
        return f"{when} it {'hardly grew' if little else 'did not grow'}: {_listed(style, figures)}."
    kind = said.id.partition("-")[0]
    change = figures[f"{kind}_change_bytes"]
    rate = f", {rate_words(style, change * HOUR / seconds, seconds)}" if seconds else ""
    return f"{when} {WHAT[kind]} grew: {signed(style, change)}{rate} ({_listed(style, figures)})."


def further_apart(again: Optional[float], said: Optional[Statement]) -> Iterator[str]:
    """A note that the looks were further apart than asked for."""
    seconds = said.figures.get("seconds") if said is not None else None
    if again and seconds and seconds >= max(ALIKE * again, again + 1):
        yield f"the two looks are {interval_words(seconds)} apart, not {again:g} s, as each takes its time"


def _listed(style: Style, figures: Mapping[str, int]) -> str:
    names = {"rss": "RSS", "live": "in use", "free": "free", "elsewhere": "outside malloc"}
    known = [(words, figures.get(f"{name}_change_bytes")) for name, words in names.items()]
    return ", ".join(f"{words} {signed(style, change)}" for words, change in known if change is not None)


def interval_words(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / MINUTE:.1f} min" if seconds < SHORT else f"{seconds / HOUR:.1f} h"
