"""Derives advice: what to change, how much that would have saved here, and the figures that show it."""

from __future__ import annotations

from typing import Iterable, Iterator, Mapping, NamedTuple, Optional

from ..glibc.malloc_par import MMAP_THRESHOLD, TRIM_THRESHOLD
from .arena_usage import orphans
from .causes import Facts, lost_of, stranded_by
from .held_sums import HeldSums
from .resident_parts import SPACE, ArenaResident
from .trim_prediction import trim_seconds

FOLKLORE = 2
"""The value that everybody copies around."""
WORTH_A_CHANGE = 8 << 20
"""Smaller losses do not justify replacing the allocator."""
WORTH_MENDING = 64 << 10
"""Smaller leaks are not reported."""
OF_LEAKS = ("mend-leak", "look-into-possible-leak", "search-for-leak")
"""Advice that sends the reader to `leaks`."""
LOOKS = ("look-again", "find-what-grew")
"""Advice to look further at what is in use."""


class Advice(NamedTuple):
    """One piece of advice. `effect` is the saving in this process: None if unknown, an upper bound if `bound` is
    set."""

    id: str
    effect: Optional[int]
    figures: Mapping[str, Optional[float]]
    bound: bool = False
    names: Mapping[str, str] = {}


def find_advice(facts: Facts) -> list[Advice]:
    """Returns all advice, the largest certain effect first. Advice on leaks and on other allocators comes before that
    if it concerns more bytes than any effect."""
    helps = [
        *_trim(facts),
        *_tops(facts),
        *_thresholds(facts),
        *_periodic(facts),
        *_arena_max(facts),
        *_caches(facts),
        *_apart(facts),
        *_allocator(facts),
    ]
    # large free chunks do not count: small blocks freed side by side leave them as well
    helps.sort(key=lambda advice: (advice.effect or 0) - (advice.figures.get("large_free_bytes") or 0), reverse=True)
    if facts.picture.measure == SPACE:
        # part of it was not in memory
        helps = [each._replace(bound=each.effect is not None) for each in helps]
    largest = max((each.effect or 0 for each in helps), default=0)
    beside = [*_ask(facts), *_leak(facts)]
    beside.sort(key=_about, reverse=True)
    first = [each for each in beside if _about(each) > largest]
    rest = [each for each in beside if _about(each) <= largest]
    in_use = list(_in_use(facts, bool(helps)))
    # advice to look comes before advice to clear: first find out whether the memory is needed
    looks = [each for each in in_use if each.id in LOOKS]
    settled = [each for each in in_use if each.id not in LOOKS]
    perhaps = list(_perhaps_lost(facts))
    return [*first, *helps, *rest, *looks, *perhaps, *_clear(facts), *settled, *_small_leak(facts), *_folklore(facts)]


def _about(advice: Advice) -> float:
    return advice.figures["bytes"] or 0


def _trim(facts: Facts) -> Iterator[Advice]:
    size = facts.part("returnable")
    if facts.matters(size):
        yield Advice(
            "trim-once",
            size,
            {
                "between_bytes": facts.between,
                "places": facts.calls,
                "end_bytes": size - facts.between,
                "seconds": trim_seconds(size, facts.calls),
            },
        )


def _tops(facts: Facts) -> Iterator[Advice]:
    size = sum(max(0, each.top + each.top_end - facts.page) for each in facts.picture.arenas if each.arena)
    if facts.matters(size):
        trimmed = facts.part("returnable")
        figures = {"tops_bytes": facts.part("thread_tops"), "with_trim_bytes": size + trimmed if trimmed else 0}
        yield Advice("release-tops", size, figures)


def _thresholds(facts: Facts) -> Iterator[Advice]:
    if facts.params is None:
        return
    size = facts.tops_at_default + facts.large
    trim = facts.params.values["trim_threshold"]
    if not facts.matters(size) or (trim <= TRIM_THRESHOLD and not facts.grown):
        return
    yield Advice(
        "pin-thresholds",
        size,
        {
            "mmap_threshold_bytes": facts.params.values["mmap_threshold"],
            "mmap_threshold_default_bytes": MMAP_THRESHOLD,
            "trim_threshold_bytes": trim,
            "grew": int(bool(facts.grown)),
            "tops_bytes": facts.tops_at_default,
            "large_free_bytes": facts.large,
            "set_to_bytes": TRIM_THRESHOLD,
        },
        bound=True,
    )


def _periodic(facts: Facts) -> Iterator[Advice]:
    size = facts.between
    if facts.matters(size) and 4 * size >= facts.rss:
        yield Advice("trim-regularly", None, {"between_bytes": size, "seconds": trim_seconds(size, facts.calls)})


def _spare(facts: Facts, arena: ArenaResident) -> int:
    """Returns the free bytes that another thread could have used. Scraps do not count: they go with live blocks in any
    arena. Nor does what a grown threshold keeps in a top: one arena would keep it as well."""
    top = arena.top - (facts.kept_of_top(arena) if facts.grown else 0)
    return arena.returnable + max(0, top) + arena.tcache


def _outside(sizes: Iterable[int]) -> int:
    """Returns how much of the sizes of thread arenas lies outside main_arena and the fullest other arenas, if the
    number of arenas is limited to what everybody sets."""
    return sum(sorted(sizes, reverse=True)[max(0, FOLKLORE - 1) :])


def _arena_max_bound(facts: Facts) -> int:
    """Returns the upper bound of what a limit on arenas saves."""
    return _outside(_spare(facts, each) for each in facts.picture.arenas if each.arena)


def _arena_max(facts: Facts) -> Iterator[Advice]:
    bound = _arena_max_bound(facts)
    few = len(facts.usages) <= FOLKLORE
    if few or not facts.matters(bound) or 2 * bound < facts.picture.free or facts.thresholds_explain:
        return
    figures = {"outside_bytes": bound, "free_bytes": facts.picture.free, "set_to": FOLKLORE}
    yield Advice("limit-arenas", bound, figures, bound=True)


def _caches(facts: Facts) -> Iterator[Advice]:
    size = facts.part("tcache")
    if facts.matters(size):
        yield Advice("shrink-thread-caches", size, {"bytes": size}, bound=True)


def _apart(facts: Facts) -> Iterator[Advice]:
    """Advises to allocate a type separately if its blocks strand much memory: elsewhere they need little more than
    their own bytes."""
    group = facts.strander
    if group is not None:
        by = stranded_by(group)
        figures = {**by.figures, "other_bytes": group.beside, "scraps_bytes": facts.part("scraps")}
        yield Advice("keep-type-apart", group.beside, figures, bound=True, names=by.names)


def _allocator(facts: Facts) -> Iterator[Advice]:
    size = facts.part("scraps")
    if 4 * size >= facts.rss and size >= WORTH_A_CHANGE:
        yield Advice("other-allocator", None, {"bytes": size})


def _leak(facts: Facts) -> Iterator[Advice]:
    """Advises to fix a leak that explains why memory stays."""
    if facts.held is not None and facts.matters(facts.held.lost):
        yield _mend(facts.held)


def _small_leak(facts: Facts) -> Iterator[Advice]:
    """Advises to fix a leak that is too small to explain why memory stays."""
    if facts.held is not None and facts.held.lost >= WORTH_MENDING and not facts.matters(facts.held.lost):
        yield _mend(facts.held)


def _perhaps_lost(facts: Facts) -> Iterator[Advice]:
    """Advises to run `leaks` where it can tell more, which it cannot if the image is incomplete."""
    held = facts.held
    if held is not None and facts.matters(held.possible):
        yield Advice("look-into-possible-leak", None, {"bytes": held.possible, "live_bytes": held.live})
    if held is not None and facts.matters(held.unknown) and not held.doubted:
        yield Advice("search-for-leak", None, {"bytes": held.unknown, "live_bytes": held.live})


def _mend(held: HeldSums) -> Advice:
    by = lost_of(held)
    return Advice("mend-leak", held.returns, by.figures, names=by.names)


def _clear(facts: Facts) -> Iterator[Advice]:
    """Advises to clear owners. Only the program knows whether it needs what they hold."""
    for said in facts.nameable:
        yield Advice("install-symbols", 0, said.figures, names=said.names)
    for keeper in facts.clearable:
        figures = {"bytes": keeper.alone, "blocks": keeper.alone_blocks}
        names = {"owner": keeper.called, "kind": keeper.owner.kind}
        yield Advice("clear-owner", keeper.returns, figures, bound=True, names=names)
    for joint in facts.clearable_jointly:
        figures = {"bytes": joint.bytes, "owners": len(joint.owners)}
        yield Advice("clear-owner", joint.returns, figures, bound=True, names={"owners": joint.called})
    for turn in facts.in_the_way:
        # freeing it alone returns nothing: others hold blocks on the same pages
        yield Advice("keep-owner-apart", 0, facts.held_up(turn), names={"owners": turn.called})


def _in_use(facts: Facts, helped: bool) -> Iterator[Advice]:
    """Advises on memory in use, which no setting changes. Only two snapshots can show that nothing is wrong; a leak
    excludes it."""
    live = facts.picture.live
    mostly = 10 * live >= 7 * (live + facts.picture.free) and 2 * live >= facts.rss and facts.matters(live)
    if not mostly or any(_leak(facts)):
        return
    kind = "nothing-more-to-tune" if helped else "nothing-to-tune"
    if facts.growth is None or facts.growth == "grew-too-little":
        kind = "look-again"
    elif facts.growth == "live-grew":
        kind = "find-what-grew"
    figures = {
        "live_bytes": live,
        "known_bytes": facts.rss,
        "mmapped_bytes": facts.part("mmapped"),
        "in_arenas_bytes": facts.part("live"),
        **_left(facts),
    }
    yield Advice(kind, 0, figures)


def _left(facts: Facts) -> dict[str, int]:
    """Counts what threads that have ended left in use, if it matters."""
    indexes = {usage.header.index for usage in orphans(facts.usages)}
    size = sum(each.live for each in facts.picture.arenas if each.arena in indexes)
    told = facts.matters(size)
    return {"left_bytes": size if told else 0, "left_arenas": len(indexes) if told else 0}


def _ask(facts: Facts) -> Iterator[Advice]:
    size = facts.picture.elsewhere
    replaced = any(each.replaces_malloc for each in facts.allocators)
    if facts.foreign and (replaced or 10 * size >= facts.rss):
        yield Advice("ask-who-mapped", 0, {"bytes": size})


def _folklore(facts: Facts) -> Iterator[Advice]:
    """Judges MALLOC_ARENA_MAX=2 by this process's own figures."""
    free = facts.picture.free
    if not facts.matters(free) or 10 * free < facts.rss:
        return  # nobody would ask
    limit = facts.params.get("arena_max") if facts.params else None
    if limit and 2 * facts.between > free:
        yield Advice("arena-limit-no-help", 0, {"limit": limit, "between_bytes": facts.between, "free_bytes": free})
    if len(facts.usages) <= FOLKLORE:
        return
    bound = _arena_max_bound(facts)
    if 2 * bound >= free and not facts.thresholds_explain:
        return
    figures = {
        "outside_bytes": bound,
        # fewer arenas may or may not save these: one snapshot cannot tell
        "stranded_outside_bytes": _outside(each.stranded for each in facts.picture.arenas if each.arena),
        "free_bytes": free,
        "not_set_to": FOLKLORE,
    }
    yield Advice("leave-arena-max", 0, figures)
