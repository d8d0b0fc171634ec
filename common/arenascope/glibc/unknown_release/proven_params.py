"""Derives mp_ of a release that the table does not know: only what the values prove is shown, member by member.

Three groups are recognised by their values: the thresholds at its start (multiples of each other), the counters of
mmapped blocks up to sbrk_base (n_mmaps_max is 65536, bytes and counts agree), and the thread cache's limits. Members
between them are taken from the newest row if all groups stand as they do there and the members hold its defaults.
"""

from __future__ import annotations

import struct
from typing import Iterator, Mapping, NamedTuple, Optional

from ...base.model import ArenaHeader, Finding, Statement
from ...sources.memory import Memory
from .. import release_table
from ..params import INTS
from ..process_layout import Layout, Struct, from_table

REACH = 256
"""mp_ takes 144 bytes in 2.43."""
GAP = 4
"""The most new words in front of the thread cache's limits."""
N_MMAPS_MAX = 65536
DEFAULT = 128 << 10
MIDDLE = {"arena_max": 0, "thp_mode": 0, "thp_pagesize": 0, "hp_pagesize": 0, "hp_flags": 0}
"""The members that are proven only by their defaults."""
PAGE = 4096

Offsets = dict[str, int]


class ArenaWindow(NamedTuple):
    """The bytes around main_arena."""

    memory: Memory
    start: int
    data: bytes

    def word(self, address: int) -> Optional[int]:
        return self._value(address, self.memory.code, self.memory.pointer_size)

    def i32(self, address: int) -> Optional[int]:
        return self._value(address, "i", 4)

    def _value(self, address: int, code: str, width: int) -> Optional[int]:
        offset = address - self.start
        if not 0 <= offset <= len(self.data) - width:
            return None
        value: int = struct.unpack_from(self.memory.mark + code, self.data, offset)[0]
        return value


class Proven(NamedTuple):
    """The members of mp_ that are proven."""

    address: int
    struct: Struct
    unknown: Optional[Finding]
    """The members that are not."""
    counted: bool
    """False if n_mmaps must agree with the blocks that are found before it is accepted."""


def derive_params(window: ArenaWindow, layout: Layout, main: ArenaHeader, guess: Optional[int]) -> Optional[Proven]:
    """Derives mp_; None if nothing proves it, or its counters."""
    base = main.brk_base
    newest = from_table(release_table.NEWEST, layout.word, "").params
    groups = [
        group
        for group in _counters(window, layout.word, base)
        if guess is None or guess <= group["n_mmaps"] < guess + REACH
    ]
    if len(groups) != 1:
        return None
    places = groups[0]
    head = _head(window, layout.word, places, guess)
    limits = _limits(window, layout, places)
    # what sets no_dyn_threshold sets one of the thresholds, too; a 0 may be padding where that would end right here
    dynamic = places["no_dyn_threshold"]
    may_be_padding = layout.word == 8 and dynamic + 4 == places["mmapped_mem"] and not window.i32(dynamic)
    if window.i32(dynamic) if head else may_be_padding:
        return None
    # without a base the limits show where the counters end
    if base is None and not limits:
        return None
    places.update({**head, **limits})
    address = guess or places.get("trim_threshold") or places["n_mmaps"]
    offsets = {name: place - address for name, place in places.items()}
    front = bool(guess or head) and offsets["n_mmaps"] == newest["n_mmaps"]
    if all(newest[name] == offset for name, offset in offsets.items()) and head and limits:
        read = {name: window.i32 if name in INTS else window.word for name in MIDDLE}
        if all(read[name](address + newest[name]) == value for name, value in MIDDLE.items()):
            offsets.update({name: newest[name] for name in MIDDLE})
    missing = [name for name in newest.offsets if name not in offsets and name != "tcache_unsorted_limit"]
    finding = None
    if missing:
        names = {"newest": release_table.text(release_table.NEWEST), "missing": ", ".join(missing)}
        finding = Finding(Statement("mp-in-parts", names=names), address, unknown="mp-in-parts")
    ordered = dict(sorted(offsets.items(), key=lambda item: item[1]))
    return Proven(address, Struct(ordered, max(ordered.values()) + layout.word), finding, front)


def _counters(window: ArenaWindow, word: int, base: Optional[int]) -> Iterator[Offsets]:
    """Yields the places of n_mmaps and what follows it up to sbrk_base, wherever values fit the order of all
    releases."""
    wanted = struct.pack(window.memory.mark + "I", N_MMAPS_MAX)
    position = window.data.find(wanted)
    while position >= 0:
        place = window.start + position
        sums_at = -(-(place + 12) // word) * word
        places = {
            "n_mmaps": place - 4,
            "n_mmaps_max": place,
            "max_n_mmaps": place + 4,
            "no_dyn_threshold": place + 8,
            "mmapped_mem": sums_at,
            "max_mmapped_mem": sums_at + word,
            "sbrk_base": sums_at + 2 * word,
        }
        if not place % 4 and _counts_fit(window, places, word):
            at_base = window.word(places["sbrk_base"])
            if at_base == base or (base is None and at_base is not None):
                yield places
        position = window.data.find(wanted, position + 1)


def _counts_fit(window: ArenaWindow, places: Offsets, word: int) -> bool:
    """Checks that each block is at least a page; mremap adds a header permanently (2.43)."""
    count, count_peak, dynamic = (window.i32(places[name]) for name in ("n_mmaps", "max_n_mmaps", "no_dyn_threshold"))
    held, peak = window.word(places["mmapped_mem"]), window.word(places["max_mmapped_mem"])
    if count is None or count_peak is None or held is None or peak is None:
        return False
    padding = places["no_dyn_threshold"] + 4
    if padding < places["mmapped_mem"] and window.i32(padding):
        return False
    if dynamic not in (0, 1) or not 0 <= count <= count_peak or held > peak or (held | peak) % word:
        return False
    if not count_peak:
        return not peak
    return peak >= count_peak * PAGE and (held >= count * PAGE if count else held < PAGE)


def _head(window: ArenaWindow, word: int, places: Mapping[str, int], guess: Optional[int]) -> Offsets:
    """Finds trim_threshold, top_pad, mmap_threshold and arena_test, if their values tell each from the others."""
    names = ("trim_threshold", "top_pad", "mmap_threshold", "arena_test")
    end = -(-places["n_mmaps"] // word) * word
    starts = []
    for start in range(max(guess or 0, end - REACH), end - 4 * word, word):
        trim, pad, mmap, test = (window.word(start + n * word) for n in range(4))
        if pad != DEFAULT or test != (8 if word == 8 else 2) or trim is None or mmap is None:
            continue
        if trim == mmap == DEFAULT or (trim == 2 * mmap and mmap > DEFAULT):
            starts.append(start)
    return {name: starts[0] + n * word for n, name in enumerate(names)} if len(starts) == 1 else {}


def _limits(window: ArenaWindow, layout: Layout, places: Mapping[str, int]) -> Offsets:
    """Finds tcache_bins, tcache_max_bytes and tcache_count, if they hold their defaults."""
    word = layout.word
    small = layout.min_size + 63 * layout.align
    max_bytes = small + 1 if layout.behaviour.tcache_logarithmic else small - word
    first = places["sbrk_base"] + word
    starts = []
    for start in range(first, first + (GAP + 1) * word, word):
        bins, limit, count = (window.word(start + n * word) for n in range(3))
        if bins == 64 and limit == max_bytes and count == layout.behaviour.tcache_count:
            starts.append(start)
    if len(starts) != 1:
        return {}
    return {name: starts[0] + n * word for n, name in enumerate(("tcache_bins", "tcache_max_bytes", "tcache_count"))}
