"""Finds mp_ without a symbol: near main_arena in libc's data, by the values that it must hold for that main arena."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

from ...base.errors import MemoryReadError
from ...base.model import ArenaHeader, Params, Statement
from ...sources.memory import Memory
from ...sources.target import Region, Span, Target
from .. import release_table
from ..arena import FoundBins, doubt_thread_arena, read_arena
from ..params import doubt_params, read_params
from ..process_layout import NO_TRAIL, CandidateTrail, Layout, Struct, from_table
from ..unknown_release.fitting_layout import candidates
from ..unknown_release.state import Surroundings

NEAR = 0x4000
"""mp_ precedes main_arena by 0x900 to 0x940 bytes in the builds that were examined."""
ENOUGH = 6
BY_SYMBOL = Statement("by-symbol-distance")


class _Form(NamedTuple):
    """A form of malloc_par, and its release."""

    name: str
    struct: Struct


class _ParamsPlace(NamedTuple):
    address: int
    form: _Form

    def __str__(self) -> str:
        return f"{self.address:#x}, {self.form.name}"


class _Judged(NamedTuple):
    points: int
    doubt: Optional[Statement]
    """The evidence against it."""


class ParamsSearch:
    """A search for mp_ for this main arena, in this layout."""

    def __init__(
        self,
        memory: Memory,
        layout: Layout,
        machine: str,
        main_arena: int,
        *,
        regions: Sequence[Region],
        trail: CandidateTrail = NO_TRAIL,
    ) -> None:
        self.memory, self.layout, self.machine = memory, layout, machine
        self.regions, self.trail = regions, trail
        self.main = read_arena(memory, layout, main_arena)

    def find(self, guess: Optional[int], debug: Optional[Struct] = None) -> tuple[Optional[int], Layout]:
        """Returns the address of mp_ and the layout with its form; (None, layout) if nothing fits.

        `guess` is the symbols' address, `debug` the form in debug information.
        """
        given = _Form("debug information", debug) if debug is not None else None
        if self.layout.newer is not None:
            if (
                guess
                and given is not None
                and self._judge(_ParamsPlace(guess, given), self.main, BY_SYMBOL).doubt is None
            ):
                return self._chosen(_ParamsPlace(guess, given))
            return self._by_values(guess)
        forms = [*([given] if given is not None else []), *_forms(self.layout, self.machine)]
        place = self._at_symbol(forms, guess) if guess else None
        # a trail also lists the rest
        if place is None or self.trail.wanted:
            near = self._near(forms)
            place = place or near
        return self._chosen(place)

    def _chosen(self, place: Optional[_ParamsPlace]) -> tuple[Optional[int], Layout]:
        self.trail.choose("mp_", str(place) if place else None, Statement("less-speaks-for-it"))
        return (place.address, self.layout._replace(params=place.form.struct)) if place else (None, self.layout)

    def _at_symbol(self, forms: Sequence[_Form], guess: int) -> Optional[_ParamsPlace]:
        """Trusts a symbol even if the main arena is damaged: the walk will report what does not fit."""
        for held_against in (self.main, None):
            # another release's form may fit a damaged mp_, at other places
            for form in forms if held_against else forms[:1]:
                place = _ParamsPlace(guess, form)
                if self._judge(place, held_against, BY_SYMBOL).doubt is None:
                    return place
        return None

    def _near(self, forms: Sequence[_Form]) -> Optional[_ParamsPlace]:
        """Searches around main_arena, by values alone."""
        region = next((region for region in self.regions if region.contains(self.main.address)), None)
        if region is None:
            return None
        near = Span(max(region.start, self.main.address - NEAR), min(region.end, self.main.address + NEAR))
        fitting: list[tuple[int, _ParamsPlace]] = []
        for form in forms:
            for address in _places(self.memory, form.struct, near, self.main):
                place = _ParamsPlace(address, form)
                judged = self._judge(place, self.main)
                if judged.doubt is None and judged.points >= ENOUGH:
                    fitting.append((judged.points, place))
        return max(fitting, key=lambda each: each[0])[1] if fitting else None

    def _by_values(self, guess: Optional[int]) -> tuple[Optional[int], Layout]:
        """Searches for a release that no row describes: see derive_params."""
        memory, layout, main = self.memory, self.layout, self.main
        region = next((region for region in self.regions if region.contains(guess or main.address)), None)
        if region is None:
            return None, layout
        start = max(region.start, (guess or main.address) - NEAR)
        data = memory.try_read(start, min(region.end, start + 2 * NEAR) - start)
        if data is None:
            return None, layout
        from ..unknown_release.proven_params import ArenaWindow, derive_params

        proven = derive_params(ArenaWindow(memory, start, data), layout, main, guess)
        said = (BY_SYMBOL,) if guess else ()
        name = f"{proven.address:#x}, member by member" if proven else f"what stands near {main.address:#x}"
        lost = () if proven else (Statement("counters-not-proven"),)
        self.trail.add("mp_", name, (*said, Statement("counters-proven")) if proven else (), lost)
        self.trail.choose("mp_", name if proven else None)
        if proven is None:
            return None, layout
        derived = layout._replace(params=proven.struct, mmaps_proven=proven.counted, mp_in_parts=proven.unknown)
        return proven.address, derived

    def _judge(self, place: _ParamsPlace, main: Optional[ArenaHeader], told: Optional[Statement] = None) -> _Judged:
        """Judges whether mp_ is at this place, given that main arena."""
        layout = self.layout._replace(params=place.form.struct)
        try:
            params = read_params(self.memory, layout, place.address)
            doubt = doubt_params(params, main)
            judged = _Judged(0 if doubt else sum(points for points, _ in _speaks_for(layout, params, main)), doubt)
        except MemoryReadError:
            params, judged = None, _Judged(0, Statement("mp-unreadable"))
        reasons = [said for _, said in _speaks_for(layout, params, main)] if params and not judged.doubt else []
        against = [judged.doubt] if judged.doubt else []
        if not against and judged.points < ENOUGH and told is None:
            against = [Statement("too-few-points", {"points": judged.points, "wanted": ENOUGH})]
        self.trail.add("mp_", str(place), [told, *reasons] if told else reasons, against)
        return judged


def surroundings(
    target: Target, memory: Memory, regions: Sequence[Region], main_arena: int, guess: Optional[int]
) -> Surroundings:
    """Returns what proves a layout besides the arenas themselves."""
    near: set[int] = set()
    for place in {main_arena, guess or main_arena}:
        region = next((region for region in regions if region.contains(place)), None)
        start = max(region.start, place - NEAR) if region else place
        end = min(region.end, place + NEAR) if region else place
        near.update(memory.unpack_words(memory.try_read(start, end - start) or b""))
    return Surroundings(regions, target.page_size, frozenset(near), len(target.threads()))


def _forms(layout: Layout, machine: str) -> list[_Form]:
    """Returns the forms of malloc_par, that of this release first."""
    forms = [_Form(f"as in glibc {release_table.text(layout.release)}", layout.params)]
    for release in candidates(layout.release):
        struct = from_table(release, layout.word, machine).params
        if all(struct != form.struct for form in forms):
            forms.append(_Form(f"as in glibc {release_table.text(release)}", struct))
    return forms


def _places(memory: Memory, form: Struct, within: Span, main: ArenaHeader) -> list[int]:
    """Returns the possible places of mp_: sbrk_base there holds the start of a contiguous main arena, or 0 before there
    is one."""
    word = memory.pointer_size
    start = -(-within.start // word) * word
    try:
        values = memory.words(start, (within.end - start) // word)
    except MemoryReadError:
        return []
    first = form["sbrk_base"] // word
    last = len(values) - (form.size - form["sbrk_base"]) // word
    wanted = main.brk_base
    if wanted is not None:
        return [start + (n - first) * word for n in range(first, last) if values[n] == wanted]
    # neither mallopt nor a tunable takes 0, so this skips whatever is empty
    test = form["arena_test"] // word
    return [start + (n - first) * word for n in range(first, last) if 0 < values[n - first + test] <= 1 << 20]


def _speaks_for(layout: Layout, params: Params, main: Optional[ArenaHeader]) -> Iterator[tuple[int, Statement]]:
    """Returns (points, evidence). Defaults count, as most processes leave most of them alone."""
    values = params.values
    if main and main.contiguous and main.top_bytes:
        yield 4, Statement("sbrk-base-is-main-top-end")
    if values["n_mmaps_max"] == 65536:
        yield 3, _default("n_mmaps_max")
    if values["arena_test"] == (8 if layout.word == 8 else 2):
        yield 2, _default("arena_test")
    for name in ("mmap_threshold", "trim_threshold"):
        if values[name] >= 128 << 10:
            yield 1, Statement("default-or-more", names={"parameter": name})
    if values["top_pad"] == 128 << 10:
        yield 1, _default("top_pad")
    if values.get("tcache_bins") in (64, 76):
        yield 2, _default("tcache_bins")
    if values.get("tcache_count") in (7, 16):
        yield 1, _default("tcache_count")


def _default(name: str) -> Statement:
    return Statement("has-default", names={"parameter": name})


def follow_hugepages(memory: Memory, layout: Layout, address: Optional[int], hit: FoundBins) -> Layout:
    """Corrects 2.35 to 2.41: heaps span 4 huge pages if the hugetlb tunable set their size."""
    if not layout.behaviour.heap_max_follows_hugepages or address is None:
        return layout
    huge = read_params(memory, layout, address).get("hp_pagesize") or 0
    if not huge:
        return layout
    larger = layout._replace(heap_max=4 * huge)
    if all(not doubt_thread_arena(memory, larger, arena) for arena in hit.ring[1:]):
        return larger
    return layout
