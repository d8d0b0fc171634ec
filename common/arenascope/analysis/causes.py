"""Why memory that the program freed is still resident: each cause with the figures that show it."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

from ..model import Allocator, Params, Statement
from .params import MMAP_THRESHOLD
from .report import Picture
from .usage import ArenaUsage, orphans

WORTH = 1 << 20


def matters(size: int, rss: int) -> bool:
    """Worth a reader's while: 2 % of what is resident, and a megabyte."""
    return size >= max(WORTH, rss // 50)


class Facts(NamedTuple):
    """What verdict, causes and advice are drawn from."""

    picture: Picture
    params: Optional[Params]
    page: int
    usages: Sequence[ArenaUsage]
    threads: int
    limit: Optional[int]
    """How many arenas this process may have."""
    calls: int
    """madvise calls that malloc_trim(0) would make."""
    tunables: bool
    """This glibc reads GLIBC_TUNABLES."""
    release: str
    allocators: Sequence[Allocator] = ()
    """Others, and runtimes with a heap of their own."""

    @property
    def rss(self) -> int:
        return self.picture.rss if self.picture.rss is not None else self.picture.known

    def part(self, name: str) -> int:
        return self.picture.parts.get(name, 0)

    @property
    def between(self) -> int:
        """What malloc_trim returns from between live blocks; the rest is the end of the main arena's top."""
        return self.part("returnable") - sum(each.top_end for each in self.picture.arenas)

    def matters(self, size: int) -> bool:
        return matters(size, self.rss)

    @property
    def grown(self) -> Optional[int]:
        """mmap_threshold, where the program's own frees raised it."""
        if self.params is None or self.params.values["no_dyn_threshold"]:
            return None
        value = self.params.values["mmap_threshold"]
        return value if value > MMAP_THRESHOLD else None


def find_causes(facts: Facts) -> list[Statement]:
    """In the order of their weight for most processes: thresholds first."""
    return [
        *_thresholds(facts),
        *_middle(facts),
        *_orphans(facts),
        *_scraps(facts),
        *_caches(facts),
        *_huge_pages(facts),
        *_others(facts),
    ]


def _thresholds(facts: Facts) -> Iterator[Statement]:
    tops = sum(each.top + each.top_end for each in facts.picture.arenas)
    if facts.params is None or not facts.matters(tops + facts.part("returnable")):
        return
    held = [each.top + each.top_end for each in facts.picture.arenas if facts.matters(each.top + each.top_end)]
    figures = {
        "mmap_threshold_bytes": facts.params.values["mmap_threshold"],
        "mmap_threshold_default_bytes": MMAP_THRESHOLD,
        "trim_threshold_bytes": facts.params.values["trim_threshold"],
        "tops_bytes": tops,
        "large_tops": len(held),
        "largest_top_bytes": max(held, default=0),
    }
    if facts.grown:
        yield Statement("thresholds-grew", figures)
    elif held:
        yield Statement("top-below-threshold", figures)


def _middle(facts: Facts) -> Iterator[Statement]:
    if facts.matters(facts.between):
        yield Statement("free-between-live", {"bytes": facts.between, "places": facts.calls})


def _orphans(facts: Facts) -> Iterator[Statement]:
    left = orphans(facts.usages)
    held = sum(usage.resident or 0 for usage in left)
    if left and facts.matters(held):
        yield Statement(
            "arenas-outlived-threads",
            {
                "orphans": len(left),
                "arenas": len(facts.usages),
                "resident_bytes": held,
                "threads": facts.threads,
                "limit": facts.limit,
            },
        )


def _scraps(facts: Facts) -> Iterator[Statement]:
    size = facts.part("scraps")
    if facts.matters(size):
        yield Statement("pages-shared-with-live", {"bytes": size})


def _caches(facts: Facts) -> Iterator[Statement]:
    size = facts.part("tcache")
    if facts.matters(size):
        yield Statement("thread-caches", {"bytes": size, "threads": facts.threads})


def _huge_pages(facts: Facts) -> Iterator[Statement]:
    huge = facts.picture.huge or 0
    if huge and facts.matters(huge):
        yield Statement("huge-pages", {"bytes": huge})


def _others(facts: Facts) -> Iterator[Statement]:
    size = facts.part("other")
    if 2 * size > facts.rss or (facts.allocators and facts.matters(size)):
        figures: dict[str, Optional[float]] = {"bytes": size, "allocators": len(facts.allocators)}
        names = {"allocators": " and ".join(each.name for each in facts.allocators)}
        if facts.picture.others:
            largest = facts.picture.others[0]
            figures["largest_bytes"] = largest.bytes
            names["largest"] = f"{largest.region.start:#x}"
        yield Statement("not-this-malloc", figures, names)
