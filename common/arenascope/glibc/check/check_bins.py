"""Checks bins: links both ways, membership, the order of large bins and their skip lists, the binmap.

bins.walk_bins has followed every complete list. An incomplete one is read again here, slowly and from both ends.
"""

from __future__ import annotations

from itertools import repeat
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from ...base.errors import MemoryReadError
from ...base.model import ArenaHeader, Bin, Breach, Statement
from ...sources.memory import Memory
from ..arena import ArenaReach
from ..bins import NBINS, UNSORTED, bin_kind, bin_sizes, min_large_size
from ..chunk import SIZE_BITS
from ..process_layout import Layout


class Rescued(NamedTuple):
    """The readable part of a broken list."""

    bin: int
    chunks: dict[int, int]
    """Size by address."""
    whole: bool
    """Whether every chunk was reached, from one end or the other."""


class BinCheck:
    """Checks one arena's bins."""

    def __init__(self, memory: Memory, layout: Layout, header: ArenaHeader, reach: ArenaReach) -> None:
        self.memory = memory
        self.reach = reach
        self.layout = layout
        self.header = header
        self.base = header.address + layout.arena["bins"]
        self.breaches: list[Breach] = []
        self.binned: dict[int, bool] = {}
        """The chunks of all bins, and whether a header led to each, which the sweep fills in."""
        self.entries = 0
        self.broken: list[Rescued] = []

    def run(self, bins: Sequence[Bin]) -> None:
        try:
            links = self.memory.words(self.base, 2 * (NBINS - 1))
            binmap = [self.memory.u32(self.header.address + self.layout.arena["binmap"] + 4 * n) for n in range(4)]
        except MemoryReadError:
            return
        whole = {each.index: each for each in bins if each.whole}
        for index in range(1, NBINS):
            head, first, last = self._head(index), links[2 * index - 2], links[2 * index - 1]
            if first == last and first in (head, 0):
                continue
            if index != UNSORTED and not binmap[index >> 5] >> (index & 31) & 1:
                self._say(self.header.address, "binmap", "binmap", {"bin": index, "map": binmap[index >> 5]})
            if index in whole:
                self.binned.update(zip(whole[index].addresses, repeat(False)))
                self._order(whole[index])
            else:
                self._rescue(index, head, first, last)
        self.entries = len(self.binned)

    def _head(self, index: int) -> int:
        """Computes bin_at()."""
        return self.base + 2 * (index - 1) * self.layout.word - self.layout.header

    def _say(
        self, address: int, rule: str, what: str, figures: Mapping[str, int] = {}, names: Mapping[str, str] = {}
    ) -> None:
        self.breaches.append(Breach(address, self.header.index, rule, Statement(what, figures, names)))

    # a list that is whole: its order, and fd_nextsize and bk_nextsize

    def _order(self, listed: Bin) -> None:
        if listed.kind == "small":
            return
        leaders: list[int] = []
        before: Optional[int] = None
        least = min_large_size(self.layout)
        for chunk, size in zip(listed.addresses, listed.sizes):
            if listed.kind == "unsorted":
                if size >= least:
                    self._no_skip(chunk)
            elif size == before:
                self._no_skip(chunk)
            else:
                if before is not None and size > before:
                    figures = {"bin": listed.index, "bytes": size, "bytes_before": before}
                    self._say(chunk, "bin-order", "bin-order", figures)
                leaders.append(chunk)
            before = size
        for place, chunk in enumerate(leaders):
            self._skip(chunk, leaders[(place + 1) % len(leaders)], leaders[place - 1])

    def _skip_links(self, chunk: int) -> Optional[tuple[int, ...]]:
        try:
            return self.memory.words(chunk + 4 * self.layout.word, 2)
        except MemoryReadError:
            return None

    def _no_skip(self, chunk: int) -> None:
        links = self._skip_links(chunk)
        if links is not None and any(links):
            names = {"fd_nextsize": f"{links[0]:#x}", "bk_nextsize": f"{links[1]:#x}"}
            self._say(chunk, "bin-skip-list", "skip-links-not-zero", {}, names=names)

    def _skip(self, chunk: int, following: int, preceding: int) -> None:
        links = self._skip_links(chunk)
        if links is None:
            return
        for name, value, expected in zip(("fd_nextsize", "bk_nextsize"), links, (following, preceding)):
            if value != expected:
                names = {"link": name, "expected": f"{expected:#x}", "leads_to": f"{value:#x}"}
                self._say(chunk, "bin-skip-list", "skip-link", {}, names=names)

    # a list that is broken

    def _rescue(self, index: int, head: int, first: int, last: int) -> None:
        forward = _Walk(self, index, head, first, forward=True)
        backward = _Walk(self, index, head, last, forward=False)
        chunks = {**forward.chunks, **backward.chunks}
        for chunk, size in chunks.items():
            if not forward.fits(size):
                figures = {"bin": index, "bytes": size, "min_bytes": forward.low, "max_bytes": forward.high}
                self._say(chunk, "bin-size", "size-of-another-bin", figures)
        self._where_it_breaks(index, forward, backward)
        whole = forward.closed or backward.closed or forward.stop in backward.chunks or backward.stop in forward.chunks
        if forward.stop == backward.stop and forward.size is not None:
            # both of its links are wrong, its neighbours' are not
            chunks[forward.stop] = forward.size
            whole = True
        self.binned.update(zip(chunks, repeat(False)))
        self.broken.append(Rescued(index, chunks, whole))

    def _where_it_breaks(self, index: int, forward: _Walk, backward: _Walk) -> None:
        """Reports the links that disagree with what is known from the other end."""
        said = False
        for walk, other, name in ((forward, backward, "fd"), (backward, forward, "bk")):
            # where the other direction says that this link should lead
            known = other.before(walk.last)
            if walk.stop != known if known is not None else walk.astray:
                names = {"link": name, "leads_to": f"{walk.stop:#x}", **walk.why}
                if known is not None:
                    names["expected"] = f"{known:#x}"
                self._say(walk.last, "bin-link", "bin-link", {"bin": index}, names=names)
                said = True
        if not said and not (forward.closed and backward.closed):
            # neither end's last link is wrong by itself: what it leads to does not lead back
            names = {"link": "bk", "leads_to": f"{forward.back or 0:#x}", "expected": f"{forward.last:#x}"}
            self._say(forward.stop, "bin-link", "bin-link", {"bin": index}, names=names)


class _Walk:
    """A walk of a list from one end, up to the first link that cannot be followed or is not returned."""

    def __init__(self, check: BinCheck, index: int, head: int, start: int, forward: bool) -> None:
        self.layout, self.index = check.layout, index
        self.chunks: dict[int, int] = {}
        self.order: list[int] = [head]
        self.stop, self.astray = start, False
        self.why: dict[str, str] = {}
        """Why a link cannot be followed: "stopped_by", and other evidence."""
        self.back: Optional[int] = None
        self.size: Optional[int] = None
        """The size at `stop`, if a chunk is there that does not lead back."""
        limit = check.header.peak
        self.low, self.high = bin_sizes(check.layout, index).within(limit)
        for link, raw, ahead, back in _nodes(check.memory, check.layout, start, head, forward=forward):
            self.stop, self.back = link, back
            if raw is None or not check.layout.aligned(link) or not check.reach.holds(link):
                aligned = "outside" if check.layout.aligned(link) else "misaligned"
                self.why, self.astray = {"stopped_by": "unreadable" if raw is None else aligned}, True
                return
            if back != self.order[-1] or link in self.chunks:
                self.why = {"stopped_by": "not-returned", "back": f"{back:#x}"}
                self.size = raw & ~SIZE_BITS
                return
            self.chunks[link] = raw & ~SIZE_BITS
            self.order.append(link)
            self.stop = ahead
            if len(self.chunks) > limit // check.layout.min_size:
                return

    @property
    def closed(self) -> bool:
        return self.stop == self.order[0]

    @property
    def last(self) -> int:
        return self.order[-1]

    def fits(self, size: int) -> bool:
        return self.low <= size <= self.high and not size & self.layout.mask

    def before(self, chunk: int) -> Optional[int]:
        """Returns the chunk that this walk met before `chunk`: the other direction's next one."""
        if chunk == self.order[0]:
            return self.order[-1] if self.closed else None
        if chunk == self.stop and not self.closed:
            return self.last
        place = self.order.index(chunk) if chunk in self.chunks else 0
        return self.order[place - 1] if place else None


def _nodes(
    memory: Memory, layout: Layout, start: int, head: int, forward: bool
) -> Iterator[tuple[int, Optional[int], int, int]]:
    """Yields (chunk, size word, next link, link back) until the list's head; the size word is None if it is
    unreadable."""
    link = start
    while link != head:
        try:
            raw, fd, bk = memory.node(link)
        except MemoryReadError:
            yield link, None, 0, 0
            return
        ahead, back = (fd, bk) if forward else (bk, fd)
        yield link, raw, ahead, back
        link = ahead


def bins_cut(broken: Sequence[Rescued], layout: Layout, arena: int) -> list[Statement]:
    """Reports the lists that were not read to the end."""
    return [
        Statement(
            "bin-cut",
            {"arena": arena, "bin": each.bin, "chunks": len(each.chunks)},
            {"kind": bin_kind(layout, each.bin)},
        )
        for each in broken
        if not each.whole
    ]
