"""Why memory that the program freed is still resident: each cause with the figures that show it."""

from __future__ import annotations

from typing import Callable, Iterator, NamedTuple, Optional, Sequence

from ..model import Allocator, Params
from .params import MMAP_THRESHOLD
from .report import Picture
from .usage import ArenaUsage, orphans

Say = Callable[[Optional[int]], str]
"""Writes a size for people."""
WORTH = 1 << 20


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
        """Worth a reader's while: 2 % of what is resident, and a megabyte."""
        return size >= max(WORTH, self.rss // 50)

    @property
    def grown(self) -> Optional[int]:
        """mmap_threshold, where the program's own frees raised it."""
        if self.params is None or self.params.values["no_dyn_threshold"]:
            return None
        value = self.params.values["mmap_threshold"]
        return value if value > MMAP_THRESHOLD else None


def places(number: int) -> str:
    return "1 place" if number == 1 else f"{number:,} places"


class Cause(NamedTuple):
    cause: str
    evidence: str


def find_causes(facts: Facts, say: Say) -> list[Cause]:
    """In the order of their weight for most processes: thresholds first."""
    return [*_thresholds(facts, say), *_middle(facts, say), *_orphans(facts, say), *_scraps(facts, say),
            *_caches(facts, say), *_huge_pages(facts, say), *_others(facts, say)]  # fmt: skip


def _thresholds(facts: Facts, say: Say) -> Iterator[Cause]:
    tops = sum(each.top + each.top_end for each in facts.picture.arenas)
    if facts.params is None or not facts.matters(tops + facts.part("returnable")):
        return
    trim = facts.params.values["trim_threshold"]
    held = [each.top + each.top_end for each in facts.picture.arenas if facts.matters(each.top + each.top_end)]
    where = f"{say(tops)} in tops" + (f", the largest {say(max(held))}" if len(held) > 1 else "")
    if facts.grown:
        yield Cause(
            f"a freed block of {say(facts.grown)} raised mmap_threshold to {say(facts.grown)} and trim_threshold to "
            f"{say(trim)}: requests below the first come from arenas, and free() leaves a top below the second alone",
            f"mp_.mmap_threshold {facts.grown:,} (default {MMAP_THRESHOLD:,}), mp_.trim_threshold {trim:,}; {where}",
        )
    elif held:
        yield Cause(f"free() gives a top back only once it reaches trim_threshold, {say(trim)}",
                    f"mp_.trim_threshold {trim:,}; {where}")  # fmt: skip


def _middle(facts: Facts, say: Say) -> Iterator[Cause]:
    size = facts.between
    if facts.matters(size):
        yield Cause("free blocks lie between live ones: glibc by itself gives back only the end of a heap",
                    f"{say(size)} of whole pages in free blocks, in {places(facts.calls)}")  # fmt: skip


def _orphans(facts: Facts, say: Say) -> Iterator[Cause]:
    left = orphans(facts.usages)
    held = sum(usage.resident or 0 for usage in left)
    if left and facts.matters(held):
        yield Cause(f"{len(left)} of {len(facts.usages)} arenas outlived their threads: arenas are never freed, only "
                    "handed to new threads",
                    f"they hold {say(held)} resident; {facts.threads} threads now"
                    + (f", at most {facts.limit} arenas" if facts.limit else ""))  # fmt: skip


def _scraps(facts: Facts, say: Say) -> Iterator[Cause]:
    size = facts.part("scraps")
    if facts.matters(size):
        yield Cause("live blocks share pages with free ones, and a page goes back only as a whole",
                    f"{say(size)} free in pages that hold something live")  # fmt: skip


def _caches(facts: Facts, say: Say) -> Iterator[Cause]:
    size = facts.part("tcache")
    if facts.matters(size):
        yield Cause("threads keep freed blocks for themselves (tcache) until they end",
                    f"{say(size)} in the caches of {facts.threads} threads")  # fmt: skip


def _huge_pages(facts: Facts, say: Say) -> Iterator[Cause]:
    huge = facts.picture.huge or 0
    if huge and facts.matters(huge):
        yield Cause("transparent huge pages back the heap: one live block can hold 2 MiB, and khugepaged may fill "
                    "again what was returned",
                    f"AnonHugePages {say(huge)} of malloc's mappings")  # fmt: skip


def _others(facts: Facts, say: Say) -> Iterator[Cause]:
    size = facts.part("other")
    if 2 * size > facts.rss or (facts.allocators and facts.matters(size)):
        names = " and ".join(each.name for each in facts.allocators)
        whose = f" ({names} {'has' if len(facts.allocators) == 1 else 'have'} a heap in this process)" if names else ""
        largest = facts.picture.others[0] if facts.picture.others else None
        named = f", the largest mapping {say(largest.bytes)} at {largest.region.start:#x}" if largest else ""
        yield Cause(f"memory that this malloc did not hand out{whose}", f"{say(size)} anonymous{named}")
