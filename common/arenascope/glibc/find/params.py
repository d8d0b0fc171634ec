"""mp_ without a symbol: near main_arena in libc's data, known by what it must hold beside that main arena."""

from __future__ import annotations

from typing import Optional, Sequence

from ...errors import MemoryReadError
from ...memory import Memory
from ...model import ArenaHeader, Params
from ...target import Region, Target
from ..arena import doubt_thread_arena, read_arena
from ..derive.params import Window, derive_params
from ..derive.rows import candidates
from ..derive.state import Surroundings
from ..layout import Layout, Struct, from_table
from ..params import doubt_params, read_params
from ..scan import Hit

NEAR = 0x4000
"""mp_ precedes main_arena by 0x900 to 0x940 bytes in the builds that were looked at."""
ENOUGH = 6


def find_params(
    target: Target,
    memory: Memory,
    layout: Layout,
    main_arena: int,
    regions: Sequence[Region],
    guess: Optional[int],
    debug: Optional[Struct] = None,
) -> tuple[Optional[int], Layout]:
    """The address of mp_ and the layout with the form of it that fits; (None, layout) where nothing does.

    `debug` is the form that debug information gives.
    """
    main = read_arena(memory, layout, main_arena, 0, True)
    forms = _forms(layout, target.machine)
    if debug is not None:
        forms.insert(0, debug)
    if layout.newer is not None:
        given = layout._replace(params=debug) if debug is not None else None
        if guess and given and _evidence(memory, given, guess, main) is not None:
            return guess, given
        return _by_values(memory, layout, main, regions, guess)
    # a symbol is believed beside a main arena that is damaged, too: the walk will say what does not fit
    for held_against in (main, None) if guess is not None else ():
        # another release's form may fit a damaged mp_, at other places
        for form in forms if held_against else forms[:1]:
            if guess and _evidence(memory, layout._replace(params=form), guess, held_against) is not None:
                return guess, layout._replace(params=form)
    region = next((region for region in regions if region.contains(main_arena)), None)
    if region is None:
        return None, layout
    start = max(region.start, main_arena - NEAR)
    end = min(region.end, main_arena + NEAR)
    best: Optional[tuple[int, int, Struct]] = None
    for form in forms:
        for address in _places(memory, form, start, end, main):
            score = _evidence(memory, layout._replace(params=form), address, main)
            if score is not None and score >= ENOUGH and (best is None or score > best[0]):
                best = (score, address, form)
    if best is None:
        return None, layout
    return best[1], layout._replace(params=best[2])


def _by_values(
    memory: Memory, layout: Layout, main: ArenaHeader, regions: Sequence[Region], guess: Optional[int]
) -> tuple[Optional[int], Layout]:
    """For a release that no row describes: see derive_params."""
    region = next((region for region in regions if region.contains(guess or main.address)), None)
    if region is None:
        return None, layout
    start = max(region.start, (guess or main.address) - NEAR)
    data = memory.try_read(start, min(region.end, start + 2 * NEAR) - start)
    if data is None:
        return None, layout
    found = derive_params(Window(memory, start, data), layout, main, guess)
    if found is None:
        return None, layout
    unknown = (*layout.unknown, *([found.unknown] if found.unknown else []))
    return found.address, layout._replace(params=found.struct, mmaps_proven=found.counted, unknown=unknown)


def surroundings(
    target: Target, memory: Memory, regions: Sequence[Region], main_arena: int, guess: Optional[int]
) -> Surroundings:
    """What a layout is proven with beside the arenas themselves."""
    near: set[int] = set()
    for place in {main_arena, guess or main_arena}:
        region = next((region for region in regions if region.contains(place)), None)
        start = max(region.start, place - NEAR) if region else place
        end = min(region.end, place + NEAR) if region else place
        near.update(memory.unpack_words(memory.try_read(start, end - start) or b""))
    return Surroundings(regions, target.page_size, frozenset(near), len(target.threads()))


def _forms(layout: Layout, machine: str) -> list[Struct]:
    """The forms of malloc_par, the one of this release first."""
    forms = [layout.params]
    for release in candidates(layout.release):
        struct = from_table(release, layout.word, machine).params
        if struct not in forms:
            forms.append(struct)
    return forms


def _places(memory: Memory, form: Struct, start: int, end: int, main: ArenaHeader) -> list[int]:
    """Where sbrk_base would hold what it must: the start of a contiguous main arena, 0 before there is one."""
    word = memory.pointer_size
    start = -(-start // word) * word
    try:
        values = memory.words(start, (end - start) // word)
    except MemoryReadError:
        return []
    first = form["sbrk_base"] // word
    last = len(values) - (form.size - form["sbrk_base"]) // word
    if main.contiguous and main.top_bytes:
        wanted = main.top + main.top_bytes - main.system_mem
        return [start + (n - first) * word for n in range(first, last) if values[n] == wanted]
    # neither mallopt nor a tunable takes 0, so this passes over all that is empty
    test = form["arena_test"] // word
    return [start + (n - first) * word for n in range(first, last) if 0 < values[n - first + test] <= 1 << 20]


def _evidence(memory: Memory, layout: Layout, address: int, main: Optional[ArenaHeader]) -> Optional[int]:
    """How much speaks for mp_ at this address; None where something speaks against it."""
    try:
        params = read_params(memory, layout, address)
    except MemoryReadError:
        return None
    if doubt_params(params, main) is not None:
        return None
    return _score(layout, params, main)


def _score(layout: Layout, params: Params, main: Optional[ArenaHeader]) -> int:
    """Defaults count, as most processes leave most of them alone."""
    values = params.values
    score = 4 if main and main.contiguous and main.top_bytes else 0
    score += 3 if values["n_mmaps_max"] == 65536 else 0
    score += 2 if values["arena_test"] == (8 if layout.word == 8 else 2) else 0
    score += 1 if values["mmap_threshold"] >= 128 << 10 else 0
    score += 1 if values["trim_threshold"] >= 128 << 10 else 0
    score += 1 if values["top_pad"] == 128 << 10 else 0
    score += 2 if values.get("tcache_bins") in (64, 76) else 0
    score += 1 if values.get("tcache_count") in (7, 16) else 0
    return score


def follow_hugepages(memory: Memory, layout: Layout, address: Optional[int], hit: Hit) -> Layout:
    """2.35 to 2.41: heaps are 4 huge pages large where the hugetlb tunable gave their size."""
    if not layout.behaviour.heap_max_follows_hugepages or address is None:
        return layout
    huge = read_params(memory, layout, address).get("hp_pagesize") or 0
    if not huge:
        return layout
    larger = layout._replace(heap_max=4 * huge)
    if all(not doubt_thread_arena(memory, larger, arena) for arena in hit.ring[1:]):
        return larger
    return layout
