"""The note in which `save` keeps what cores lose: residency, smaps, swap, locked pages, names, environment.

A core that has the note answers as the process would have answered then.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from array import array
from itertools import accumulate
from typing import Iterable, Mapping, NamedTuple, Optional, Sequence

from ..elf.elf_file import NT_MOMENT, NT_RESIDENT, NT_SWAPPED, OWN, Note
from ..target import MappingUse, MemoryUse, PageUse, Region, Runs, SharedMemory, Span, Timer, Watched

ALWAYS, SHARE = 16 << 20, 8
"""A note may have at most so many bytes unpacked, or an eighth of the file's if that is more: if every other page of a
heap is in memory, ranges take a 256th."""
FORM = 1
NO_MOMENT, REDACTED = 0, b"redacted"


def mark(redacted: bool) -> Note:
    """Returns the mark of a file by `save` without a moment: it was made from a core that had none."""
    return Note(OWN, NO_MOMENT, REDACTED if redacted else b"")


class KernelFacts(NamedTuple):
    """The kernel's facts about a process while it was read; None: not known."""

    uses: Sequence[MappingUse]
    memory: Optional[MemoryUse]
    locked: Optional[Sequence[Span]]
    processors: Optional[int]
    names: Mapping[int, Optional[str]]
    """The threads' names, by tid."""
    environment: Optional[Mapping[str, str]]
    resident: Iterable[Span]
    swapped: Iterable[Span]
    exact: bool
    taken: Optional[float] = None
    redacted: bool = False
    watched: Optional[Sequence[Watched]] = None
    timers: Sequence[Timer] = ()
    shared: Optional[SharedMemory] = None

    def notes(self) -> list[Note]:
        document = {
            "form": FORM,
            "mappings": [_mapping_row(each) for each in self.uses],
            "memory": self.memory and list(self.memory),
            "locked": None if self.locked is None else [list(each) for each in self.locked],
            "processors": self.processors,
            "threads": [[tid, name] for tid, name in self.names.items()],
            "environment": self.environment,
            "exact": self.exact,
            "taken": self.taken,
            "redacted": self.redacted,
            "epoll": None if self.watched is None else [list(each) for each in self.watched],
            "timers": [list(each) for each in self.timers],
            "shared": self.shared and [[list(each) for each in spans] for spans in self.shared],
        }
        return [
            Note(OWN, NT_MOMENT, zlib.compress(json.dumps(document).encode())),
            Note(OWN, NT_RESIDENT, _pack(self.resident)),
            Note(OWN, NT_SWAPPED, _pack(self.swapped)),
        ]


def _mapping_row(use: MappingUse) -> list[object]:
    region = use.region
    permissions = [region.readable, region.writable, region.executable, region.shared]
    marks = "".join(letter for letter, has in zip("rwxs", permissions) if has)
    return [region.start, region.end, marks, region.offset, region.path, use.rss, use.swapped, use.huge]


def _pack(spans: Iterable[Span]) -> bytes:
    """Packs spans, little-endian on any machine: the distance of each from the end of the one before, and its
    length."""
    words, before = array("Q"), 0
    for start, end in spans:
        words.extend((start - before, end - start))
        before = end
    if sys.byteorder == "big":
        words.byteswap()
    return zlib.compress(words.tobytes(), 1)


def moment_of(notes: Mapping[int, bytes], file_bytes: int, pointer_size: int) -> Optional[KernelFacts]:
    """Reads the moment from the notes, by their numbers, in a file of so many bytes; None if there are none, or `save`
    did not write them."""
    if NT_MOMENT not in notes:
        return None
    longest = max(ALWAYS, file_bytes // SHARE)
    try:
        document = json.loads(_unpacked(notes[NT_MOMENT], longest))
        if document["form"] != FORM:
            return None
        values = _Values(1 << 8 * pointer_size)
        memory, locked, processors = document["memory"], document["locked"], document["processors"]
        environment, taken = document["environment"], document["taken"]
        # earlier files have none
        watched, shared = document.get("epoll"), document.get("shared")
        return KernelFacts(
            uses=values.uses(document["mappings"]),
            memory=MemoryUse(*map(values.number, memory)) if memory else None,
            # what is of hugetlbfs may be mlocked as well
            locked=None if locked is None else values.spans(locked, apart=False),
            processors=None if processors is None else values.number(processors, 1),
            names={
                values.number(tid): None if name is None else values.text(name) for tid, name in document["threads"]
            },
            environment=(
                {values.text(name): values.text(value) for name, value in environment.items()}
                if environment is not None
                else None
            ),
            resident=_spans(notes[NT_RESIDENT], longest),
            swapped=_spans(notes[NT_SWAPPED], longest),
            exact=values.flag(document["exact"]),
            taken=None if taken is None else values.seconds(taken),
            redacted=values.flag(document["redacted"]),
            watched=None if watched is None else [Watched(*map(values.number, row)) for row in watched],
            timers=[Timer(*map(values.number, row)) for row in document.get("timers", ())],
            shared=None if shared is None else SharedMemory(*map(values.spans, shared)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, zlib.error, RecursionError):
        # overwritten, or of a later release: treat it as any other core
        return None


class _Values:
    """Reads the values that `save` writes; ValueError for anything else."""

    def __init__(self, top: int) -> None:
        """`top`: the end of all addresses."""
        self._top = top

    def number(self, value: object, least: int = 0) -> int:
        if type(value) is not int or not least <= value < 1 << 64:
            raise ValueError("no number")
        return value

    def seconds(self, value: object) -> float:
        if not isinstance(value, float) or not 0 <= value < 1 << 64:
            raise ValueError("no time")
        return value

    def flag(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError("neither true nor false")
        return value

    def text(self, value: object) -> str:
        """Reads text that is valid as a C string."""
        if not isinstance(value, str) or b"\0" in os.fsencode(value):
            raise ValueError("no text")
        return value

    def spans(self, rows: Sequence[Sequence[object]], apart: bool = True) -> list[Span]:
        """Reads spans in order; `apart`: without overlap."""
        spans, before = [], 0
        for first, last in rows:
            start, end = self.number(first), self.number(last)
            if not before <= start <= end <= self._top:
                raise ValueError("out of order")
            spans.append(Span(start, end))
            before = end if apart else start
        return spans

    def uses(self, rows: Sequence[Sequence[object]]) -> list[MappingUse]:
        spans = self.spans([row[:2] for row in rows])
        return [self._use(span, row[2:]) for span, row in zip(spans, rows)]

    def _use(self, span: Span, row: Sequence[object]) -> MappingUse:
        marks, offset, path, *counts = row
        if not span.bytes:
            raise ValueError("a mapping of no bytes")
        has = [letter in self.text(marks) for letter in "rwxs"]
        region = Region(
            span.start,
            span.end,
            readable=has[0],
            writable=has[1],
            executable=has[2],
            path=self.text(path),
            offset=self.number(offset),
            shared=has[3],
        )
        rss, swapped, huge = (None if each is None else self.number(each) for each in counts)
        return MappingUse(region, rss, swapped, huge)


def _unpacked(data: bytes, longest: int) -> bytes:
    unpacking = zlib.decompressobj()
    unpacked = unpacking.decompress(data, longest)
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise ValueError("longer than any")
    return unpacked


def _spans(data: bytes, longest: int) -> Runs:
    words = array("Q", _unpacked(data, longest))
    if len(words) % 2:
        raise ValueError("a range without its end")
    if sys.byteorder == "big":
        words.byteswap()
    bounds = array("Q", accumulate(words))
    return Runs(zip(bounds[::2], bounds[1::2]))


def _runs(spans: Iterable[Span]) -> Runs:
    return spans if isinstance(spans, Runs) else Runs(spans)


class SavedResidency:
    """The recorded residency."""

    def __init__(self, moment: KernelFacts, page_size: int) -> None:
        self.exact = moment.exact
        self._page = page_size
        self._resident, self._swapped = _runs(moment.resident), _runs(moment.swapped)
        # the core that it was made of did not tell of files and shared memory
        untold = [each.region for each in moment.uses if each.rss is None]
        self._untold = Runs([Span(each.start, each.end) for each in untold])

    def count(self, start: int, end: int) -> Optional[PageUse]:
        start, end = self._whole(start, end)
        if self._untold.bytes_in(start, end):
            return None
        return PageUse(self._resident.bytes_in(start, end), self._swapped.bytes_in(start, end))

    def resident_ranges(self, start: int, end: int) -> Optional[Sequence[Span]]:
        start, end = self._whole(start, end)
        return None if self._untold.bytes_in(start, end) else self._resident.spans_in(start, end)

    def _whole(self, start: int, end: int) -> Span:
        return Span(start // self._page * self._page, -(-end // self._page) * self._page)
