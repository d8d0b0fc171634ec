"""Finds why memory that the program freed is still resident: each cause with the figures that show it."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

from ..base.heap_model import Allocator, Owner, Params, Statement
from ..glibc.malloc_par import MMAP_THRESHOLD, TRIM_THRESHOLD
from .arena_usage import ArenaUsage, orphans, total
from .held_sums import FreedNext, HeldSums, MainHolder, is_unnamed
from .pinning_blocks import BlocksOfKind, LiveBlockKinds
from .resident_parts import ArenaResident, ResidentPicture
from .trim_prediction import Trim, trim_seconds

WORTH = 1 << 20
CLEARED = ("global", "tls")
LITTLE = 4
"""An owner is in the way if it holds up more than this many times what it holds."""
"""Owners that a program can clear: variables."""


def matters(size: int, rss: int) -> bool:
    """Returns whether a size is worth mentioning: at least 2 % of what is resident, and a megabyte."""
    return size >= max(WORTH, rss // 50)


class Facts(NamedTuple):
    """The facts that verdict, causes and advice are drawn from."""

    picture: ResidentPicture
    params: Optional[Params]
    page: int
    usages: Sequence[ArenaUsage]
    threads: int
    limit: Optional[int]
    """How many arenas this process may have."""
    started: bool
    """malloc has been called."""
    calls: int
    """madvise calls that malloc_trim(0) would make."""
    tunables: bool
    """This glibc reads GLIBC_TUNABLES."""
    release: str
    allocators: Sequence[Allocator] = ()
    """Other allocators, and runtimes with a heap of their own."""
    seen: Optional[LiveBlockKinds] = None
    """The kinds of live blocks, if they were examined."""
    held: Optional[HeldSums] = None
    """The owners of live blocks, if pointers were followed."""
    redacted: bool = False
    """The image is redacted: it does not show what points to blocks."""
    growth: Optional[str] = None
    """What two snapshots showed; None if there is one, or the two do not tell."""
    tells_types_that_grow: bool = False
    """The two snapshots name some types."""
    without_symbols: Sequence[Statement] = ()
    """Files whose unnamed variables hold something, with the command that installs the symbols."""

    @property
    def rss(self) -> int:
        return self.picture.rss if self.picture.rss is not None else self.picture.known

    def part(self, name: str) -> int:
        return self.picture.parts.get(name, 0)

    @property
    def between(self) -> int:
        """Returns the bytes that malloc_trim frees between live blocks; the rest of what it frees is the end of the
        main arena's top."""
        return self.part("returnable") - sum(each.top_end for each in self.picture.arenas)

    def matters(self, size: int) -> bool:
        return matters(size, self.rss)

    @property
    def strander(self) -> Optional[BlocksOfKind]:
        """The type whose blocks strand at least half of all stranded memory."""
        first = self.stranders[0] if self.stranders else None
        return first if first is not None and 2 * first.beside >= self.part("scraps") else None

    @property
    def stranders(self) -> Sequence[BlocksOfKind]:
        """The types whose blocks strand much memory, the largest first. A page that two types share is stranded by
        neither: it goes back with neither alone."""
        groups = self.seen.groups if self.seen and self.matters(self.part("scraps")) else ()
        return sorted((each for each in groups if self.matters(each.beside)), key=lambda group: -group.beside)

    @property
    def grown(self) -> Optional[int]:
        """mmap_threshold, if the program's own frees raised it."""
        if self.params is None or self.params.values["no_dyn_threshold"]:
            return None
        value = self.params.values["mmap_threshold"]
        return value if value > MMAP_THRESHOLD else None

    @property
    def large(self) -> int:
        """Returns the bytes that free() would have unmapped had mmap_threshold not grown: the free pieces of at least
        that size.

        Small blocks freed side by side leave large pieces, too. So these count only if pieces of one block each are
        likely to be most of what is free outside the tops.
        """
        single = sum(each.single for each in self.picture.arenas)
        if not self.grown or 2 * single < self.between + self.part("scraps"):
            return 0
        return sum(each.large for each in self.picture.arenas)

    def kept_of_top(self, arena: ArenaResident) -> int:
        """Returns the bytes that free() would have returned of a top, had trim_threshold stayed at its default."""
        values = self.params.values if self.params else {}
        size = arena.top + arena.top_end
        goes = max(0, size - values.get("top_pad", 0) - self.page) if size >= TRIM_THRESHOLD else 0
        # systrim moves the break by whole huge pages where malloc asks for them
        unit = 0 if arena.arena else values.get("thp_pagesize")
        return goes // unit * unit if unit else goes

    @property
    def tops_at_default(self) -> int:
        return sum(self.kept_of_top(each) for each in self.picture.arenas)

    @property
    def foreign(self) -> bool:
        """Whether to mention memory outside malloc: it is more than half, or another allocator is known that can own
        it."""
        size = self.picture.elsewhere
        return 2 * self.part("other") > self.rss or (bool(self.allocators) and self.matters(size))

    @property
    def keeps(self) -> bool:
        """Whether at least as much is in use as is free."""
        return self.picture.free <= self.picture.live

    @property
    def clearable(self) -> Sequence[MainHolder]:
        """The variable that holds most, if that is why memory stays and clearing it would return some. A thread's stack
        that holds more precedes it. Unnamed variables do not count: nobody can clear them."""
        found: list[MainHolder] = []
        for each in self.held.keepers if self.held and self.keeps else ():
            brings = each.alone if each.returns is None else each.returns
            if each.owner.stale or is_unnamed(each.owner.name) or not self.matters(min(each.alone, brings)):
                continue
            if each.owner.kind in CLEARED:
                return [*found, each]
            if each.owner.kind == "stack" and not found:
                found.append(each)
        return found

    @property
    def clearable_jointly(self) -> Sequence[MainHolder]:
        """Groups of variables that hold much together, if that is why memory stays."""
        told = self.held.jointly if self.held and self.keeps else ()
        return [each for each in told if self.matters(each.bytes) and all(map(_is_variable, each.owners))]

    @property
    def nameable(self) -> Sequence[Statement]:
        """The files without symbols whose variables hold much, if that is why memory stays."""
        return [each for each in self.without_symbols if self.keeps and self.matters(int(each.figures["bytes"] or 0))]

    @property
    def in_the_way(self) -> Sequence[FreedNext]:
        """The owner that holds up most, if it holds little but on the pages of what others hold."""
        told = self.held.in_turn if self.held and self.keeps else ()
        found = [
            each for each in told if self.matters(each.holds_up - each.bytes) and each.holds_up > LITTLE * each.bytes
        ]
        return sorted(found, key=lambda each: -each.holds_up)[:1]

    def held_up(self, turn: FreedNext) -> dict[str, Optional[float]]:
        """Returns the figures of one such owner for a statement."""
        in_all = self.held.held_returns if self.held else None
        return {"bytes": turn.bytes, "holds_up_bytes": turn.holds_up, "returns_bytes": in_all}

    @property
    def thresholds_explain(self) -> bool:
        """Whether the largest part of what is free would have gone back with thresholds at their defaults."""
        size = self.large + self.tops_at_default
        return bool(self.grown) and size >= max(self.between - self.large, self.part("scraps"), self.part("tcache"))


def _is_variable(owner: Owner) -> bool:
    return owner.kind in CLEARED and owner.stale is None and not is_unnamed(owner.name)


class Cause(NamedTuple):
    """A conclusion, and how much of what is resident it explains."""

    said: Statement
    weight: int


def find_causes(facts: Facts) -> list[Statement]:
    """Returns the causes, the one that explains most first."""
    causes = [
        *_thresholds(facts),
        *_middle(facts),
        *_orphans(facts),
        *_stranded(facts),
        *_caches(facts),
        *_huge_pages(facts),
        *_others(facts),
        *_lost(facts),
        *_held(facts),
    ]
    causes.sort(key=lambda cause: -cause.weight)
    return [cause.said for cause in causes]


def _thresholds(facts: Facts) -> Iterator[Cause]:
    if facts.params is None:
        return
    trim, large = facts.params.values["trim_threshold"], facts.large
    explained = facts.tops_at_default + large
    grew = facts.grown and facts.matters(explained)
    sizes = {usage.header.index: usage.header.top_bytes for usage in facts.usages}
    # systrim and heap_trim let a top below the threshold be; a larger one was asked for ahead (top_pad, huge pages)
    tops = [
        top
        for top, whole in ((each.top + each.top_end, sizes.get(each.arena)) for each in facts.picture.arenas)
        if facts.matters(top) and (grew or (whole or top) < trim)
    ]
    figures = {
        "mmap_threshold_bytes": facts.params.values["mmap_threshold"],
        "mmap_threshold_default_bytes": MMAP_THRESHOLD,
        "trim_threshold_bytes": trim,
        "tops_bytes": sum(each.top + each.top_end for each in facts.picture.arenas),
        "large_tops": len(tops),
        "largest_top_bytes": max(tops, default=0),
        "large_free_bytes": large,
    }
    if grew:
        yield Cause(Statement("thresholds-grew", figures), explained)
    elif tops:
        yield Cause(Statement("top-below-threshold", figures), sum(tops))


def _middle(facts: Facts) -> Iterator[Cause]:
    if facts.matters(facts.between):
        yield Cause(Statement("free-between-live", {"bytes": facts.between, "places": facts.calls}), facts.between)


def _orphans(facts: Facts) -> Iterator[Cause]:
    """Reports arenas without threads. Only what is free in them counts: blocks in use would be in use in any arena."""
    left = orphans(facts.usages)
    indexes = {usage.header.index for usage in left}
    free = sum(each.total - each.live for each in facts.picture.arenas if each.arena in indexes)
    if left and facts.matters(free):
        figures = {
            "orphans": len(left),
            "arenas": len(facts.usages),
            "resident_bytes": total(usage.resident for usage in left),
            "free_bytes": free,
            "threads": facts.threads,
            "limit": facts.limit,
        }
        yield Cause(Statement("arenas-outlived-threads", figures), free)


def _stranded(facts: Facts) -> Iterator[Cause]:
    size = facts.part("scraps")
    if facts.matters(size):
        figures, names = stranded_by(facts.strander)
        yield Cause(Statement("pages-shared-with-live", {"bytes": size, **figures}, names), size)


class By(NamedTuple):
    """Names a type in a statement; empty if there is none."""

    figures: dict[str, Optional[float]]
    names: dict[str, str]


def stranded_by(group: Optional[BlocksOfKind]) -> By:
    if group is None:
        return By({}, {})
    row, held = group
    figures: dict[str, Optional[float]] = {
        "type_beside_bytes": group.beside,
        "type_blocks": row.blocks,
        "type_bytes": row.bytes,
        "type_releases_bytes": held.releases,
        "type_resident_bytes": held.resident,
    }
    return By(figures, {"type": row.kind.name, "certain": "yes" if row.kind.certain else "no"})


def _caches(facts: Facts) -> Iterator[Cause]:
    size = facts.part("tcache")
    if facts.matters(size):
        yield Cause(Statement("thread-caches", {"bytes": size, "threads": facts.threads}), size)


def _huge_pages(facts: Facts) -> Iterator[Cause]:
    """Reports huge pages, unless nothing is free: then the program uses what it has."""
    huge = min(facts.picture.huge or 0, facts.picture.free)
    if huge and facts.matters(huge):
        # nothing tells which free pages are parts of huge ones: the bound comes last
        yield Cause(Statement("huge-pages", {"bytes": facts.picture.huge}), 0)


def _lost(facts: Facts) -> Iterator[Cause]:
    held = facts.held
    if held is not None and facts.matters(held.lost):
        yield Cause(Statement("lost-blocks", *lost_of(held)), held.lost)


def lost_of(held: HeldSums) -> By:
    """Describes what is lost, for a statement, with the type of most of it if that is known."""
    figures: dict[str, Optional[float]] = {
        "bytes": held.lost,
        "blocks": held.lost_blocks,
        "live_bytes": held.live,
    }
    if not held.lost_rows:
        return By(figures, {})
    most = held.lost_rows[0]
    of_most = {"type_blocks": most.blocks, "type_bytes": most.all_bytes, "indirect_blocks": most.indirect_blocks}
    return By({**figures, **of_most}, {"type": most.type})


def _held(facts: Facts) -> Iterator[Cause]:
    """Reports the main holders, unless more is free than in use: then free memory is the cause."""
    held = facts.held
    if held is None or not facts.keeps:
        return
    for each in held.first:
        if facts.matters(each.bytes):
            figures: dict[str, Optional[float]] = {
                "bytes": each.bytes,
                "alone_bytes": each.alone,
                "live_bytes": held.live,
            }
            yield Cause(
                Statement("held-by-owner", figures, {"owner": each.called, "kind": each.owner.kind}), each.bytes
            )
    for joint in held.jointly:
        if facts.matters(joint.bytes):
            figures = {"bytes": joint.bytes, "live_bytes": held.live, "owners": len(joint.owners)}
            yield Cause(Statement("held-together", figures, {"owners": joint.called}), joint.bytes)
    for turn in facts.in_the_way:
        yield Cause(Statement("shares-pages", facts.held_up(turn), {"owners": turn.called}), turn.holds_up)
    if facts.matters(held.others):
        yield Cause(Statement("held-by-others", {"bytes": held.others, "live_bytes": held.live}), held.others)


def _others(facts: Facts) -> Iterator[Cause]:
    size = facts.picture.elsewhere
    if facts.foreign:
        made = facts.picture.made
        figures: dict[str, Optional[float]] = {
            "bytes": size,
            "allocators": len(facts.allocators),
            "told_bytes": sum(made.values()),
            "shared_bytes": facts.picture.shared_made,
        }
        names = {"allocators": " and ".join(each.name for each in facts.allocators), "told": " and ".join(made)}
        if facts.picture.others:
            largest = facts.picture.others[0]
            figures["largest_bytes"] = largest.bytes
            names["largest"] = f"{largest.region.start:#x}"
        yield Cause(Statement("not-this-malloc", figures, names), size)


LITTLE_FREE = 10
"""Less than one part in this many of resident memory is too little to give back."""


OF_ARENAS = (
    *("returnable_bytes", "trim_seconds", "thread_tops", "thread_tops_bytes", "scraps_bytes", "tcache_bytes"),
    *("tops_at_default_bytes", "large_free_bytes"),
)


def judge(facts: Facts) -> Statement:
    """Returns the kind of problem, with the figures of the whole picture."""
    picture, part = facts.picture, facts.part
    figures: dict[str, Optional[float]] = {
        "rss_bytes": picture.rss,
        "known_bytes": facts.rss,
        "live_bytes": picture.live,
        "free_bytes": picture.free,
        "arenas": len(facts.usages),
        "started": int(facts.started),
        "returnable_bytes": part("returnable"),
        "trim_seconds": trim_seconds(part("returnable"), facts.calls),
        "thread_tops": sum(1 for each in picture.arenas if each.arena and each.top),
        "thread_tops_bytes": part("thread_tops"),
        "scraps_bytes": part("scraps"),
        "tcache_bytes": part("tcache"),
        "not_malloc_bytes": facts.rss - picture.live - picture.free - part("unread"),
        "unread_bytes": part("unread"),
        "mmap_threshold_bytes": facts.params.values["mmap_threshold"] if facts.params else None,
        # of what thresholds at their defaults would have given back: for certain, and if large blocks left it
        "tops_at_default_bytes": facts.tops_at_default if facts.params else None,
        "large_free_bytes": facts.large if facts.params else None,
    }
    if not picture.whole:
        # what the others have is not known, and so no sum is
        figures.update(dict.fromkeys(OF_ARENAS), live_bytes=None, free_bytes=None)
        figures.update(live_at_least_bytes=picture.live, free_at_least_bytes=picture.free)
    serving = [each.name for each in facts.allocators if each.replaces_malloc]
    perhaps = [each.name for each in facts.allocators if each.replaces_malloc is None]
    by = stranded_by(facts.strander)
    if facts.held is not None:
        figures.update(lost_bytes=facts.held.lost, lost_blocks=facts.held.lost_blocks)
        figures.update(possible_bytes=facts.held.possible, unknown_bytes=facts.held.unknown)
        figures.update(perhaps_lost_bytes=facts.held.perhaps, cycle_bytes=facts.held.cycles)
    names = {"measure": picture.measure, "serves_malloc": " and ".join(serving), **by.names}
    return Statement(_kind(facts), {**figures, **by.figures}, {**names, "may_serve_malloc": " and ".join(perhaps)})


def _kind(facts: Facts) -> str:
    picture = facts.picture
    if not picture.whole:
        return "unread"
    if not facts.started and 2 * facts.part("other") <= facts.rss:
        return "no-heap"
    if 2 * (picture.live + picture.free) < facts.rss:
        return _elsewhere(facts)
    if picture.free >= picture.live and facts.matters(picture.free):
        return "freed-thresholds-grew" if facts.thresholds_explain else "freed"
    if 10 * picture.live >= 7 * (picture.live + picture.free) and LITTLE_FREE * _to_be_had(facts) < facts.rss:
        return "live-data"
    return "live-and-freed"


def _to_be_had(facts: Facts) -> int:
    """Returns what malloc_trim, or trim --apply --tops, would free."""
    return facts.part("returnable") + facts.part("thread_tops")


def _elsewhere(facts: Facts) -> str:
    if 2 * facts.part("other") > facts.rss:
        return "mostly-not-this-malloc"
    for name, kind in (("files", "mostly-mapped-files"), ("shared", "mostly-shared-memory")):
        if 2 * facts.part(name) > facts.rss:
            return kind
    return "mostly-not-malloc"


def address_space(plans: Sequence[Trim], usages: Sequence[ArenaUsage]) -> Statement:
    """Returns where address space goes, for an image without residency."""
    return Statement(
        "address-space",
        {
            "system_bytes": sum(usage.header.system_mem for usage in usages),
            "arenas": len(usages),
            "used_bytes": total(usage.used for usage in usages),
            "release_bytes": total(trim.plan.release_bytes for trim in plans),
            "tops_bytes": total(trim.plan.tops_bytes for trim in plans),
        },
    )
