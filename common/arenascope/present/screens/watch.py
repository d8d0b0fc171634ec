"""The live screen of `arenascope watch`: what is in memory now, and how it changed since the start.

It is drawn in place on the terminal's other screen. The last picture stays when it ends.
"""

from __future__ import annotations

import time
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Sequence, TextIO

from ...analysis.diff import Document
from ...analysis.report import PARTS, ResidentPicture
from ...analysis.trend import STILL, Series, ValueAt, grown_types, judged
from ...base.model import Allocator
from ..shared_text.text import Style, bar, duration, signed, table
from .report import LABELS, growth_headlines, interval_words, rate_words, size_of
from .trend import HOW, drawn
from .verdict import OtherScreen, outside_malloc_lines

MAX_MOMENTS = 2000
"""Above this, every other moment is dropped."""
MAX_TYPED = 64
"""The same for looks with types, which take more room."""
WIDEST = 100
WIDE_BAR = 24
MESSAGES = 3
NOTHING_GROWS = "so far no type grows"


class WatchLook(NamedTuple):
    """One look at a process."""

    pid: int
    name: str
    picture: Optional[ResidentPicture]
    """None if malloc was not called yet."""
    arenas: int
    held: float
    at: float
    """The time of the look, taken before types and owners, which take a while."""
    types: Optional[Document] = None
    """Types as a snapshot has them; None if the look had none."""
    allocators: Sequence[Allocator] = ()
    """Allocators other than glibc's malloc."""


class Course:
    """A process since the first look."""

    def __init__(self, first: WatchLook) -> None:
        self.first = self.last = first
        self.moments: list[ValueAt] = []
        self.held = 0.0
        self._typed: list[Document] = []
        self.looks = 0

    def add(self, looked: WatchLook, seconds: float) -> None:
        self.last = looked
        self.held += looked.held
        self.looks += 1
        if looked.picture is not None and looked.picture.rss is not None:
            self.moments.append(ValueAt(seconds, looked.picture.rss))
        if len(self.moments) > MAX_MOMENTS:
            del self.moments[1:-1:2]
        if looked.types is not None:
            self._typed.append({"taken": looked.at, "types": looked.types})
        if len(self._typed) > MAX_TYPED:
            del self._typed[1:-1:2]

    def headlines(self, style: Style) -> list[str]:
        """Allocators other than malloc that grew; types that grew, and their owners if known."""
        grown = grown_types(self._typed)
        types = [NOTHING_GROWS] if grown == [] else growth_headlines(style, grown)
        return [*outside_malloc_lines(self.last.allocators, self.changes), *types]

    @property
    def changes(self) -> Mapping[str, int]:
        """The change of each part of resident memory since the first look."""
        before, now = (each.picture.parts if each.picture is not None else {} for each in (self.first, self.last))
        return {name: now.get(name, 0) - before.get(name, 0) for name in PARTS if name in now or name in before}

    @property
    def rss(self) -> Optional[Series]:
        return judged("rss", "rss", self.moments) if self.moments else None

    @property
    def who(self) -> str:
        return f"{self.last.name or 'process'} {self.last.pid}"


class LiveScreen:
    def __init__(self, stream: TextIO, interval: float, kept_in: Optional[str], style: Callable[[], Style]) -> None:
        self._screen = OtherScreen(stream)
        self._interval = interval
        self._kept_in, self._style = kept_in, style
        self._courses: dict[int, Course] = {}
        self._messages: list[str] = []

    @property
    def looks(self) -> int:
        return sum(course.looks for course in self._courses.values())

    def add(self, looked: WatchLook) -> None:
        self._courses.setdefault(looked.pid, Course(looked)).add(looked, time.time())

    def say(self, message: str) -> None:
        self._messages = [*self._messages, f"{time.strftime('%H:%M:%S')} {message}"][-MESSAGES:]

    def draw(self) -> None:
        style = self._style()
        notes = [f"every {interval_words(self._interval)}, until Ctrl-C"]
        if self._kept_in:
            notes.append(f"kept in {self._kept_in}, for trend")
        lines = [*frame(style, list(self._courses.values()), "; ".join(notes)), *map(style.warn, self._messages)]
        self._screen.draw(lines, style.width)

    def close(self) -> None:
        """Ends the screen; the last picture stays on the terminal."""
        self._screen.close()


def frame(style: Style, courses: Sequence[Course], note: str) -> Iterator[str]:
    if len(courses) == 1:
        yield from _one(style, courses[0])
    else:
        yield from _several(style, courses)
    yield ""
    held = max((course.last.held for course in courses), default=0.0)
    total = sum(course.held for course in courses)
    looks = sum(course.looks for course in courses)
    yield style.dim(f"stood still for {duration(held)} at the last look, {duration(total)} in {looks:,}; {note}")


def _one(style: Style, course: Course) -> Iterator[str]:
    picture, rss = course.last.picture, course.rss
    if picture is None or rss is None:
        yield style.bold(f"{course.who}: no heap: glibc's malloc has not been called")
        return
    yield style.bold(f"{course.who}: RSS {style.size(picture.rss)}{_growth(style, rss)}")
    yield from map(style.bold, course.headlines(style))
    yield drawn(rss, min(style.width or WIDEST, WIDEST))
    yield ""
    rows = [
        [LABELS[name], size_of(style, picture, name), signed(style, change) if change else "", share]
        for name, change in course.changes.items()
        if change or picture.parts.get(name)
        for share in [bar(style, picture.parts.get(name, 0), picture.rss or 0, WIDE_BAR)]
    ]
    headers = ("part of resident memory", "now", "change", "share of RSS")
    yield from table(style, headers, rows, left=(0, 3), expendable=("share of RSS",))


def _several(style: Style, courses: Sequence[Course]) -> Iterator[str]:
    rows = []
    for course in courses:
        picture, rss = course.last.picture, course.rss
        if picture is None or rss is None:
            rows.append([course.who, *["?"] * 5, ""])
            continue
        rate = signed(style, rss.per_hour) if rss.per_hour and rss.until is None else ""
        sizes = [style.size(picture.rss), signed(style, rss.change), rate]
        rows.append([course.who, *sizes, *_live_and_free(style, picture), drawn(rss)])
    headers = ("process", "RSS", "change", "an hour", "in use", "free", "over time")
    yield from table(style, headers, rows, left=(0, 6), expendable=("an hour", "free", "in use", "change"))


def _live_and_free(style: Style, picture: ResidentPicture) -> Sequence[str]:
    sizes = (picture.live, picture.free)
    return [style.size(each if picture.whole else None) for each in sizes]


def _growth(style: Style, rss: Series) -> str:
    over = rss.moments[-1].seconds - rss.moments[0].seconds
    if not over:
        return ""
    rate = f", {rate_words(style, rss.per_hour, over)}" if rss.per_hour and rss.until is None else ""
    how = f" ({HOW[rss.how]}{rate})" if rss.how != STILL else ""
    return f", {signed(style, rss.change)} in {interval_words(over)}{how}"
