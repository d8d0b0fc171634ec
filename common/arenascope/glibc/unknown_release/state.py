"""malloc_state by relations, for a release that the table does not know (docs/derivation.md has the reasons).

Given are `bins` and `next` (arena_scan.py: bins lead back to themselves, the ring closes). top is proven by where it
ends, system_mem by what it must add up to; what merely stands in a likely place is left out, or listed as not known.
"""

from __future__ import annotations

from typing import Iterator, Mapping, NamedTuple, Optional, Sequence, Union

from ...base.errors import NotFoundError
from ...base.model import ARENA_FLAGS, NONCONTIGUOUS, ArenaHeader
from ...sources.memory import Memory
from ..arena_scan import PREFIX_LIMIT, Hit, follow_ring, next_offset, scan
from ..chunk import IS_MMAPPED, PREV_INUSE, masked
from ..main_arena_regions import Ground, main_regions
from ..process_layout import Layout, Struct
from ..unknown_release.evidence import Raw, Surroundings, Top, majority, not_less, read_raws, read_top, told_apart
from ..unknown_release.heaps import Heaps, derive_heaps
from ..unknown_release.lists import place_lists

MOST_BEHIND = 512
"""So many bytes of new members may follow those that are known."""
CHUNKS_BEHIND = 16
"""So many chunks in a row are no accident."""


def derive_state(memory: Memory, layout: Layout, hit: Hit, around: Surroundings) -> Layout:
    """`layout` with malloc_state and heap_info as these arenas prove them, or NotFoundError with what is not proven."""
    if follow_ring(memory, hit.bins)[:1] != hit.ring[:1]:
        raise NotFoundError("its ring of arenas does not close where `next` should be")
    raws = read_raws(memory, hit)
    bins = hit.bins - hit.ring[0]
    # a ring of several that closes proves `next`; one that leads back at once may be another word
    stray = next(_outside(memory, layout, hit, around), None) if len(hit.ring) == 1 else None
    if stray is not None:
        raise NotFoundError(f"the bins of an arena at {stray:#x} are in no arena of the ring")
    lacking = "the arenas cannot be read"
    for top in (place for place in (bins - layout.header, *range(8, bins, layout.word)) if place >= 8):
        tops = {raw.place: there for raw in raws for there in [read_top(memory, layout, raw, top)] if there}
        if not raws or not majority(raw.place in tops for raw in raws):
            continue
        if not any(each.address for each in tops.values()):
            # words that are 0 in front of bins are a top only where nothing after them suggests memory either
            if top == bins - layout.header and not any(word for raw in raws for word in raw.after_bins[2:4]):
                return _empty(layout, bins)
            continue
        lacking = "no heap_info fits the arenas of its threads"
        heaps = derive_heaps(memory, layout, raws, tops)
        if heaps is None:
            continue
        placed = _State(memory, layout, raws, tops, heaps=heaps, around=around, top=top).place()
        if isinstance(placed, Layout):
            return placed
        lacking = placed
    raise NotFoundError(lacking)


def _outside(memory: Memory, layout: Layout, hit: Hit, around: Surroundings) -> Iterator[int]:
    """Bins at the start of heaps that the ring does not lead to: then `next` is not where it is read."""
    for region in around.mappings:
        if region.is_file or not (region.writable and region.present):
            continue
        for heap in range(-(-region.start // layout.heap_max) * layout.heap_max, region.end, layout.heap_max):
            end = min(region.end, heap + PREFIX_LIMIT + 256 * layout.word)
            yield from (other.bins for other in scan(memory, heap, end) if other.bins != hit.bins)


def _empty(layout: Layout, bins: int) -> Layout:
    """All arenas as they were initialised: members in the order of the newest release."""
    word = layout.word
    next_at = bins + next_offset(word)
    names = ("next", "next_free", "attached_threads", "system_mem", "max_system_mem")
    offsets = {
        "mutex": 0,
        "flags": 4,
        "top": bins - 2 * word,
        "last_remainder": bins - word,
        "bins": bins,
        "binmap": bins + 254 * word,
        **{name: next_at + n * word for n, name in enumerate(names)},
    }
    return layout._replace(arena=Struct(offsets, next_at + 5 * word), fastbins=0)


class _State(NamedTuple):
    memory: Memory
    layout: Layout
    raws: Sequence[Raw]
    tops: Mapping[int, Top]
    heaps: Heaps
    around: Surroundings
    top: int

    def place(self) -> Union[Layout, str]:
        """The layout, or what could not be placed, in words."""
        word, bins = self.layout.word, len(self.raws[0].head)
        flags = self._flags()
        if flags is None:
            return "flags of its thread arenas (NONCONTIGUOUS) are not in front of top"
        system = self._system_mem(flags)
        if system is None:
            return (
                "no word of malloc_state is what system_mem must be: the sum of an arena's heaps, in main_arena "
                "the way from sbrk_base to the end of top"
            )
        peak = self._max_system_mem(system)
        if peak is None:
            return "max_system_mem cannot be told from its neighbours"
        next_at = bins + next_offset(word)
        offsets = {
            "mutex": 0,
            "flags": flags,
            "top": self.top,
            "bins": bins,
            "binmap": bins + 254 * word,
            "next": next_at,
            "next_free": next_at + word,
            "system_mem": next_at + word + system * word,
            "max_system_mem": next_at + word + peak * word,
        }
        attached = self._attached(system, peak)
        if attached is not None:
            offsets["attached_threads"] = next_at + word + attached * word
        offsets["last_remainder"] = bins - word if self.top != bins - word else self.top - word
        size = self._size(next_at + word + (max(system, peak) + 1) * word)
        if size is None:
            return "no chunks follow malloc_state in the heaps of its threads' arenas"
        layout = self.layout._replace(
            heap=self.heaps.struct, heap_max=self.heaps.heap_max, fastbins=0, arena=Struct(offsets, size)
        )
        return place_lists(self.memory, layout, self.raws)

    def _size(self, least: int) -> Optional[int]:
        """How long malloc_state is, by where the first chunks of threads' arenas lie: new members may follow the last
        one that is known. None where no chunks follow it in most of them."""
        threads = [raw for raw in self.raws if raw.place and raw.place in self.heaps.sums]
        if not threads:
            return least
        first = self.layout.first_aligned(threads[0].address + least) - threads[0].address
        for size in range(first, first + MOST_BEHIND, self.layout.align):
            if majority(self._chunks_follow(raw, size) for raw in threads):
                return size
        return None

    def _chunks_follow(self, raw: Raw, size: int) -> bool:
        """Whether chunks follow each other behind a malloc_state of this size: several, or all there are."""
        memory, layout, heap = self.memory, self.layout, self.heaps.struct
        start = raw.address - heap.size
        end = start + (memory.try_word(start + heap["size"]) or 0)
        top = self.tops[raw.place].address
        place = first = raw.address + size
        for _ in range(CHUNKS_BEHIND):
            if place == top:
                return True
            size_word = memory.try_word(place + layout.word) or 0
            bytes_here = masked(size_word)
            if bytes_here == layout.header and place != first:
                return True  # a fencepost: the heap that follows has the rest
            if place == first and not size_word & PREV_INUSE:
                return False
            if size_word & IS_MMAPPED or bytes_here < layout.min_size or bytes_here & layout.mask:
                return False
            place += bytes_here
            if place > (top if start < top < end else end) - layout.header:
                return place == top
        return True

    def _flags(self) -> Optional[int]:
        for offset in range(4, self.top - 3, 4):
            values = {raw.place: raw.u32(self.memory, offset) for raw in self.raws}
            others = [value & NONCONTIGUOUS and value <= ARENA_FLAGS for index, value in values.items() if index]
            if values.get(0, 0) <= ARENA_FLAGS and (not others or majority(bool(each) for each in others)):
                return offset
        return None

    def _values(self, place: int) -> dict[int, int]:
        return {raw.place: raw.after_bins[place] for raw in self.raws if place < len(raw.after_bins)}

    def _places(self) -> range:
        return range(1, min(len(raw.after_bins) for raw in self.raws))

    def _system_mem(self, flags: int) -> Optional[int]:
        votes = {
            place: [self._vote(raw, raw.after_bins[place], flags) for raw in self.raws] for place in self._places()
        }
        sure = [place for place, cast in votes.items() if majority(cast) and True in cast]
        if sure:
            best = max(sure, key=lambda place: (sum(vote is True for vote in votes[place]), -place))
            # one in front that holds in fewer arenas: a new member, or system_mem of which one was overwritten
            return best if best == sure[0] else None
        main = self.raws[0]
        if len(self.raws) > 1 or main.place or not main.u32(self.memory, flags) & NONCONTIGUOUS:
            return None
        whole = self._sum_of_regions(main, flags)
        return next((place for place in self._places() if main.after_bins[place] == whole), None)

    def _vote(self, raw: Raw, value: int, flags: int) -> Optional[bool]:
        """Whether this can be system_mem of that arena; None where nothing tells."""
        top = self.tops.get(raw.place)
        if raw.place:
            return self.heaps.sums[raw.place] == value if raw.place in self.heaps.sums else None
        if top is None or not top.address:
            return None if not value else False
        if raw.u32(self.memory, flags) & NONCONTIGUOUS:
            return None
        return bool(value) and self._is_base(top, top.end - value)

    def _is_base(self, top: Top, base: int) -> bool:
        """Whether mp_.sbrk_base may be this: it stands near main_arena, and a chunk begins there."""
        if base not in self.around.near or not 0 < base <= top.address:
            return False
        layout = self.layout
        first = layout.first_aligned(base)
        size_word = self.memory.try_word(first + layout.word) or 0
        return bool(size_word & PREV_INUSE) and first + masked(size_word) <= top.end

    def _sum_of_regions(self, main: Raw, flags: int) -> int:
        """What main_arena holds where brk was refused and no other arena tells: its regions, found by their chunks."""
        top = self.tops[0]
        header = ArenaHeader(
            0,
            main.address,
            main=True,
            mutex=0,
            flags=main.u32(self.memory, flags),
            top=top.address,
            top_bytes=top.end - top.address,
            next=0,
            attached_threads=None,
            system_mem=0,
            max_system_mem=0,
            initialised=True,
        )
        parts = main_regions(
            self.memory, self.layout, header, Ground(None, self.around.mappings, self.around.page), findings=[]
        )
        return sum(part.bytes for part in parts)

    def _max_system_mem(self, system: int) -> Optional[int]:
        least = self._values(system)
        bound = 1 << (46 if self.layout.word == 8 else 32)
        for places in (range(system + 1, self._first_chunk()), range(system - 1, 0, -1)):
            fitting = [(place, self._values(place)) for place in places if not_less(self._values(place), least, bound)]
            if fitting:
                return told_apart(fitting)
        return None

    def _first_chunk(self) -> int:
        """The maximum number of words from next_free on that are malloc_state's: a thread's first chunk follows it."""
        words = len(self._places()) + 1
        layout = self.layout
        for raw in self.raws[1:]:
            start = raw.address + len(raw.head) + next_offset(layout.word) + layout.word
            for place in range(3, words - 1):
                chunk = start + place * layout.word
                size = masked(raw.after_bins[place + 1])
                if not layout.aligned(chunk) or raw.after_bins[place + 1] & 3 != PREV_INUSE or size < layout.min_size:
                    continue
                if masked(self.memory.try_word(chunk + size + layout.word) or 0) >= layout.header:
                    words = place
                    break
        return words

    def _attached(self, system: int, peak: int) -> Optional[int]:
        """A count of threads between next_free and system_mem, if one word there can be it and no other."""
        most_threads = self.around.threads or 1 << 16
        fitting = []
        for place in range(1, min(system, peak)):
            values = self._values(place)
            if values.get(0) and sum(values.values()) <= most_threads:
                fitting.append(place)
        return fitting[0] if len(fitting) == 1 else None
