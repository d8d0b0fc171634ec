"""What cores lose, kept in a note of its own by `save`: residency, smaps, swap, what is locked, names, environment.

A core that has the note answers as the process would have answered then.
"""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from bisect import bisect_right
from typing import Any, Iterable, Mapping, Optional, Sequence

from ...records import NamedTuple
from ...target import MappingUse, MemoryUse, Pages, Region, SharedMemory, Span, Timer, Watched
from ..elf.kernel import NT_MOMENT, NT_RESIDENT, NT_SWAPPED, OWN
from ..elf.notes import Note

LONGEST = 1 << 30
"""Unpacked: a page in two of a terabyte, each a range of its own."""
FORM = 1
MARK = Note(OWN, 0, b"")
"""In a file of `save` that has no moment to tell of: it was made of a core that had none."""


class Moment(NamedTuple):
    """What the kernel knew of a process while it was read; None: not known."""

    uses: Sequence[MappingUse]
    memory: Optional[MemoryUse]
    locked: Optional[Sequence[Span]]
    processors: Optional[int]
    names: Mapping[int, Optional[str]]
    """The threads', by tid."""
    environment: Optional[Mapping[str, str]]
    resident: Sequence[Span]
    swapped: Sequence[Span]
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


def _mapping_row(use: MappingUse) -> list[Any]:
    region = use.region
    permissions = [region.readable, region.writable, region.executable, region.shared]
    marks = "".join(letter for letter, has in zip("rwxs", permissions) if has)
    return [region.start, region.end, marks, region.offset, region.path, use.rss, use.swapped, use.huge]


def _pack(spans: Iterable[Span]) -> bytes:
    """Little-endian, whatever the machine is: how far each begins after the end of the one before, and its length."""
    words, before = array("Q"), 0
    for start, end in spans:
        words.extend((start - before, end - start))
        before = end
    if sys.byteorder == "big":
        words.byteswap()
    return zlib.compress(words.tobytes(), 1)


def moment_of(notes: Mapping[int, bytes]) -> Optional[Moment]:
    """By the notes' numbers; None where there are none, or they are not what `save` writes."""
    if NT_MOMENT not in notes:
        return None
    try:
        document = json.loads(_unpacked(notes[NT_MOMENT]))
        if document["form"] != FORM:
            return None
        locked = document["locked"]
        return Moment(
            uses=[_use(row) for row in document["mappings"]],
            memory=MemoryUse(*map(int, document["memory"])) if document["memory"] else None,
            locked=None if locked is None else [Span(int(start), int(end)) for start, end in locked],
            processors=document["processors"],
            names={int(tid): name for tid, name in document["threads"]},
            environment=document["environment"],
            resident=_spans(notes[NT_RESIDENT]),
            swapped=_spans(notes[NT_SWAPPED]),
            exact=bool(document["exact"]),
            taken=document["taken"],
            redacted=bool(document["redacted"]),
            # earlier files have none
            watched=_watched(document.get("epoll")),
            timers=[Timer(int(number), int(data)) for number, data in document.get("timers", ())],
            shared=_shared(document.get("shared")),
        )
    except (ValueError, KeyError, TypeError, zlib.error, RecursionError):
        # written over, or by a later release: the core is one like others then
        return None


def _watched(rows: Optional[Sequence[Sequence[int]]]) -> Optional[list[Watched]]:
    return None if rows is None else [Watched(int(epoll), int(file), int(data)) for epoll, file, data in rows]


def _shared(lists: Optional[Sequence[Sequence[Sequence[int]]]]) -> Optional[SharedMemory]:
    if lists is None:
        return None
    mappings, pages, unknown = ([Span(int(start), int(end)) for start, end in spans] for spans in lists)
    return SharedMemory(mappings, pages, unknown)


def _use(row: Sequence[Any]) -> MappingUse:
    start, end, marks, offset, path, rss, swapped, huge = row
    has = [letter in marks for letter in "rwxs"]
    region = Region(
        int(start),
        int(end),
        readable=has[0],
        writable=has[1],
        executable=has[2],
        path=str(path),
        offset=int(offset),
        shared=has[3],
    )
    return MappingUse(region, rss, swapped, huge)


def _unpacked(data: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    unpacked = unpacking.decompress(data, LONGEST)
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise ValueError("longer than any")
    return unpacked


def _spans(data: bytes) -> list[Span]:
    words = array("Q", _unpacked(data))
    if sys.byteorder == "big":
        words.byteswap()
    spans, at = [], 0
    for gap, length in zip(words[::2], words[1::2]):
        start = at + gap
        at = start + length
        spans.append(Span(start, at))
    return spans


class SavedResidency:
    """Which pages were in memory, as it was written down."""

    def __init__(self, moment: Moment, page_size: int) -> None:
        self.exact = moment.exact
        self._page = page_size
        self._resident, self._swapped = _Runs(moment.resident), _Runs(moment.swapped)
        # the core that it was made of did not tell of files and shared memory
        untold = (each.region for each in moment.uses if each.rss is None)
        self._untold = _Runs([Span(each.start, each.end) for each in untold])

    def count(self, start: int, end: int) -> Optional[Pages]:
        start, end = self._whole(start, end)
        if self._untold.bytes_in(start, end):
            return None
        return Pages(self._resident.bytes_in(start, end), self._swapped.bytes_in(start, end))

    def resident_ranges(self, start: int, end: int) -> Optional[Sequence[Span]]:
        start, end = self._whole(start, end)
        return None if self._untold.bytes_in(start, end) else self._resident.within(start, end)

    def _whole(self, start: int, end: int) -> Span:
        return Span(start // self._page * self._page, -(-end // self._page) * self._page)


class _Runs:
    """Ranges in order, and how many bytes lie before each."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._starts = [each.start for each in spans]
        self._before = array("Q", [0])
        for each in spans:
            self._before.append(self._before[-1] + each.bytes)

    def _up_to(self, address: int) -> int:
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return 0
        return self._before[index] + min(address, self._spans[index].end) - self._spans[index].start

    def bytes_in(self, start: int, end: int) -> int:
        return max(0, self._up_to(end) - self._up_to(start))

    def within(self, start: int, end: int) -> list[Span]:
        index = max(0, bisect_right(self._starts, start) - 1)
        inside = []
        while index < len(self._spans) and self._starts[index] < end:
            low, high = max(start, self._spans[index].start), min(end, self._spans[index].end)
            if low < high:
                inside.append(Span(low, high))
            index += 1
        return inside
