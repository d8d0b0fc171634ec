"""The text of `heap pins`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...analysis.pins import BlocksOfKind, LastBlocks, Pin, Ranking
from ...base.model import Statement
from ...base.printable import first_few
from ..json_documents.block_records import PinSums
from ..shared_text.text import Style, count, left_out, next_lines, table
from .types import name_of

if TYPE_CHECKING:
    from .owners import HeldBy

HEADERS = (
    "block",
    "blocks",
    "size",
    "arena",
    "would return",
    "resident",
    "by",
    "held by",
    "what it keeps",
    "first word",
)


_VTABLE = re.compile(r"vtable for (.+)\+\d+")


class ShownPin(NamedTuple):
    """A pin, with what only the memory image can tell of it."""

    pin: Pin
    resident: Optional[int]
    symbol: Optional[str]
    notes: Sequence[Statement]
    held_by: Optional[HeldBy] = None

    @property
    def type(self) -> Optional[str]:
        """The class whose vtable the first word points to."""
        of_class = _VTABLE.fullmatch(self.symbol or "")
        return of_class[1] if of_class else None

    @property
    def note(self) -> Optional[str]:
        return ", then ".join(map(note_text, self.notes)) or None


NOTES = {
    "own-thread-cache": "is glibc's own: the cache of thread {tid}, which goes when that ends",
    "cached-first": "free() puts it into the calling thread's cache first, which keeps up to {slots} of its size",
    "cached-unless-full": "free() puts it into the calling thread's cache first, unless that is full of its size "
    "({slots}): those of {full} of {threads} threads are",
    "caches-full": "no thread's cache has room for it: {slots} of its size are in each",
    "in-fastbin-first": "it lies in a fastbin until malloc_trim, or a free() that leaves 64 KiB free, merges it",
}
"""Why a block is not free right after free(), by id."""


def note_text(said: Statement) -> str:
    return NOTES[said.id].format(**said.figures)


ALIKE = "blocks: so many are alike, of which the first is named; would return: each of them, by itself"
ELEMENT, ANY_ELEMENT = re.compile(r"\[\d+\]"), "[…]"
GROUPS = 5
"""How many types are shown."""
TOGETHER = 3
"""How many arenas' last blocks are described."""


def lines(
    style: Style,
    header: int,
    ranking: Ranking,
    pins: Sequence[ShownPin],
    sums: PinSums,
    together: Sequence[tuple[LastBlocks, Optional[int]]],
    pending: dict[int, int],
    *,
    groups: Optional[Sequence[BlocksOfKind]],
    held_by: Mapping[int, str],
    owners: bool,
) -> Iterator[str]:
    """`header`: distance from a chunk's address to its block's. `held_by`: main holder of a type's blocks, by the
    type's number. `owners`: --owners was not asked for but could be."""
    if groups:
        yield from group_lines(style, groups, held_by)
        yield ""
        yield f"one by one: {_sentence(style, sums)}"
    else:
        yield style.bold(_sentence(style, sums))
    ordered = sorted(together, key=lambda pair: -pair[0].gain.releases)
    for each, resident in ordered[:TOGETHER]:
        yield (
            f"arena {each.arena}: its last {each.blocks} blocks ({style.size(each.gain.bytes)}, from "
            f"{each.lowest + header:#x} on) would give back {_both(style, each.gain.releases, resident)}, "
            "once all of them are freed, without a trim"
        )
    if len(ordered) > TOGETHER:
        yield style.dim(f"so for {count(len(ordered) - TOGETHER, 'more arena')}: --json has them all")
    for index, size in pending.items():
        if size:
            yield (
                f"arena {index}: {style.size(size)} are returned anyway, at the next free() in it that makes a free "
                "chunk of 64 KiB"
            )
    if pins:
        yield ""
        if ranking.count > len(pins):
            yield (
                f"{count(ranking.count, 'block')} keep free memory from being returned, each by itself "
                f"{style.size(pins[0].pin.gain.releases)} at most; the {len(pins):,} that keep the most:"
            )
        rows = _rows(style, pins, header)
        yield from table(
            style,
            HEADERS,
            rows,
            left=(0, 6, 7, 8, 9),
            names=(7, 9),
            optional=("blocks", "held by", "first word"),
            expendable=("first word", "resident", "by"),
        )
        yield from left_out(style, ranking.count - len(pins), "block")
        if len(rows) < len(pins):
            yield style.dim(ALIKE)
        yield ""
        yield from _notes(style, pins, header)
    if ranking.own_left_out:
        yield style.dim(
            f"{count(ranking.own_left_out, 'block')} beside free memory would mainly give back "
            f"{'its' if ranking.own_left_out == 1 else 'their'} own pages: --own shows them"
        )
    if pins:
        ask = [] if groups is not None else [f"{style.typed('pins --types')} (what all blocks of a type keep)"]
        if owners:
            ask.append(f"{style.typed('pins --owners')} (who holds them)")
        ask.append(style.typed(f"chunk {pins[0].pin.address + header:#x}"))
        if any(each.pin.by == "free" for each in pins):
            # a trim can run while these blocks stay only if free() alone would return them
            ask.append(f"{style.typed('trim')} (what a trim returns while they stay)")
        yield from next_lines(style, *ask)


def group_lines(style: Style, groups: Sequence[BlocksOfKind], held_by: Mapping[int, str]) -> Iterator[str]:
    """The answer in a sentence, and a row for each type."""
    first = groups[0]
    row, held = first.row, first.held
    what = f"freeing all {count(row.blocks, 'block')} of {name_of(row.kind)} ({style.size(row.bytes)})"
    whose = f"; held by {held_by[row.index]}" if row.index in held_by else ""
    yield style.bold(f"{what} would give back {_both(style, held.releases, held.resident)} that no trim does{whose}")
    yield ""
    rows = [
        [
            name_of(group.row.kind),
            f"{group.row.blocks:,}",
            style.size(group.row.bytes),
            style.size(group.held.releases),
            style.size(group.held.resident),
            held_by.get(group.row.index, ""),
        ]
        for group in groups[:GROUPS]
    ]
    headers = ("type", "blocks", "bytes", "would return", "resident", "held by")
    yield from table(style, headers, rows, left=(0, 5), names=(0, 5), optional=("held by",), expendable=("resident",))
    if len(groups) > GROUPS:
        more = count(len(groups) - GROUPS, "more type")
        yield style.dim(f"… {more}; {style.typed('types --by holds-back')} shows all")


def _sentence(style: Style, sums: PinSums) -> str:
    if not sums.blocks:
        return "nothing is pinned: no single block in use keeps free memory from being returned"
    where = "one block" if sums.blocks == 1 else f"one block in each of {sums.blocks} arenas"
    return (
        f"freeing {where} ({style.size(sums.bytes)}) would give back "
        f"{_both(style, sums.releases_bytes, sums.resident_bytes)}"
    )


def _both(style: Style, released: int, resident: Optional[int]) -> str:
    if resident is None:
        return f"{style.size(released)} of address space (how much is resident is not known)"
    of_it = "" if resident == released else f" ({style.size(resident)} of it resident)"
    return style.size(released) + of_it


def _rows(style: Style, pins: Sequence[ShownPin], header: int) -> list[list[str]]:
    """The rows. Pins that differ only in block, size or element number share one."""
    alike: dict[tuple[str, ...], list[ShownPin]] = {}
    for shown in pins:
        alike.setdefault(tuple(ELEMENT.sub(ANY_ELEMENT, each) for each in _cells(style, shown)), []).append(shown)
    return [
        [
            f"{group[0].pin.address + header:#x}",
            f"{len(group)}" if len(alike) < len(pins) else "",
            _sizes(style, [shown.pin.gain.bytes for shown in group]),
            *(_cells(style, group[0]) if len(group) == 1 else cells),
        ]
        for cells, group in alike.items()
    ]


def _sizes(style: Style, sizes: Sequence[int]) -> str:
    least, most = style.size(min(sizes)), style.size(max(sizes))
    return least if least == most else f"{least} to {most}"


def _cells(style: Style, shown: ShownPin) -> list[str]:
    """The cells of a pin, all but its block and size."""
    pin = shown.pin
    return [
        f"{pin.arena} main" if pin.arena == 0 else str(pin.arena),
        style.size(pin.gain.releases),
        style.size(shown.resident),
        "free()" if pin.by == "free" else "a trim after it",
        shown.held_by.on_screen if shown.held_by is not None else "",
        _reason(pin),
        shown.type or shown.symbol or "",
    ]


def _reason(pin: Pin) -> str:
    if pin.reason == "between":
        return "pages that it shares with free pieces"
    gone, already = ([step.how for step in steps] for steps in (pin.gain.gone, pin.gain.already))
    unmapped = gone.count("munmap") - already.count("munmap")
    if unmapped:
        return f"{count(unmapped, 'whole heap')}: last block below top"
    return "the break: last block below top" if pin.arena == 0 else "last block below top"


def _notes(style: Style, pins: Sequence[ShownPin], header: int) -> Iterator[str]:
    """Each note once, with the blocks that it is about."""
    blocks: dict[str, list[int]] = {}
    for shown in pins:
        if shown.note:
            blocks.setdefault(shown.note, []).append(shown.pin.address + header)
    for note, addresses in blocks.items():
        yield style.dim(f"{first_few([f'{each:#x}' for each in addresses], 3)}: {note}")
