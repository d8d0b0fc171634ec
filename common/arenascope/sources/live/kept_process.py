"""A process whose free memory is looked at: all that is read of it while it is held is kept, and is what is known of it
once it runs on."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from functools import cached_property
from typing import Callable, Mapping, Optional, Sequence, TypeVar

from ...base.background import BackgroundWork
from ...base.errors import HoldEnded, MemoryReadError
from ..target import MappingUse, MemoryUse, PageUse, Region, RegionIndex, Span
from . import proc_tables
from .pagemap import PagemapResidency, PagesOfStretch
from .process import ProcessImage

T = TypeVar("T")


class KeptResidency:
    """Residency that keeps each stretch that was asked about, and answers for any part of it."""

    def __init__(self, pages: PagemapResidency, ask: Callable[[int, int], PagesOfStretch]) -> None:
        self._pages, self._ask = pages, ask
        self._starts: list[int] = []
        self._stretches: list[PagesOfStretch] = []
        """In order; none lies within another, as no part of a kept stretch is asked for again."""

    @property
    def exact(self) -> bool:
        return self._pages.exact

    def _around(self, start: int, end: int) -> Optional[PagesOfStretch]:
        """Returns the stretch around a range; None if the process is gone."""
        start, end = self._pages.whole_pages(start, end)
        place = bisect_right(self._starts, start)
        if place and end <= self._stretches[place - 1].end:
            return self._stretches[place - 1]
        try:
            stretch = self._ask(start, end)
        except (OSError, ValueError):
            return None
        self._starts.insert(place, start)
        self._stretches.insert(place, stretch)
        return stretch

    def count(self, start: int, end: int) -> Optional[PageUse]:
        around = self._around(start, end)
        return around.count(*self._pages.whole_pages(start, end)) if around is not None else None

    def resident_ranges(self, start: int, end: int) -> Optional[Sequence[Span]]:
        around = self._around(start, end)
        return around.resident(*self._pages.whole_pages(start, end)) if around is not None else None


class KeptProcess(ProcessImage):
    """A process that answers from what was read while it was held. What cannot change is read later, too."""

    def __init__(self, pid: int) -> None:
        super().__init__(pid)
        self._held = self._let_go = False
        self._kept: dict[tuple[int, int], Optional[bytes]] = {}
        """By address and size; None: unreadable."""
        self._answers: dict[str, object] = {}
        self._smaps: Optional[BackgroundWork[bytes]] = None

    def hold(self) -> None:
        """Begins to keep. Raises an error if the process has ended, or become another program, since it was opened."""
        first = next((each for each in self._regions if each.readable), None)
        if first is not None:
            with suppress(MemoryReadError):
                super().read(first.start, 1)
        self._held = True

    def let_go(self) -> None:
        """Ends the hold: what can change is not read any more."""
        if self._smaps is not None:
            self._smaps.wait()
        self._let_go = True

    def _late(self) -> HoldEnded:
        return HoldEnded(f"process {self.pid} was let go before it was read whole", "look again")

    def read(self, address: int, size: int) -> bytes:
        if not self._held:
            return super().read(address, size)
        key = address, size
        if key not in self._kept:
            if self._let_go and not self._is_constant(address, size):
                raise self._late()
            try:
                self._kept[key] = super().read(address, size)
            except MemoryReadError:
                self._kept[key] = None
        data = self._kept[key]
        if data is None:
            raise MemoryReadError(address, size)
        return data

    def fill(self, address: int, block: memoryview) -> int:
        if self._let_go and not self._is_constant(address, len(block)):
            raise self._late()
        return super().fill(address, block)

    def _is_constant(self, address: int, size: int) -> bool:
        region = self._index.find(address)
        return region is None or (not region.writable and address + size <= region.end)

    @cached_property
    def _index(self) -> RegionIndex:
        return RegionIndex(self.regions())

    def _once(self, what: str, ask: Callable[[], T]) -> T:
        if not self._held:
            return ask()
        if what not in self._answers:
            if self._let_go:
                raise self._late()
            self._answers[what] = ask()
        answer: T = self._answers[what]  # type: ignore[assignment]
        return answer

    def regions(self) -> Sequence[Region]:
        return self._once("regions", super().regions)

    def thread_names(self) -> Mapping[int, str]:
        return self._once("thread_names", super().thread_names)

    def environment(self) -> Optional[Mapping[str, str]]:
        return self._once("environment", super().environment)

    def residency(self) -> KeptResidency:
        return self._once("residency", self._residency)

    def _residency(self) -> KeptResidency:
        pages = self.page_tables()

        def ask(start: int, end: int) -> PagesOfStretch:
            if self._let_go:
                raise self._late()
            return pages.stretch(start, end)

        return KeptResidency(pages, ask)

    def mapping_use(self) -> Optional[Sequence[MappingUse]]:
        return self._once("mapping_use", self._mapping_use)

    def _mapping_use(self) -> Optional[Sequence[MappingUse]]:
        """Reads smaps, for which the kernel visits all pages, while lists are followed. Not if pages are in swap:
        reading brings them back, and the two would be of two moments."""
        if self.guarded(lambda: proc_tables.read_status(self.memory_tid)).swap != 0:
            return super().mapping_use()
        self._smaps = BackgroundWork(self.smaps)
        return proc_tables.Uses(self._smaps.result)

    def memory_use(self) -> Optional[MemoryUse]:
        if self._smaps is not None:
            return proc_tables.Uses(self._smaps.result).memory
        return self._once("memory_use", super().memory_use)

    def locked(self) -> Optional[Sequence[Span]]:
        return self._once("locked", super().locked)
