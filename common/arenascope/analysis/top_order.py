"""Orders top's processes. Processes whose lists were not followed to the end may have more free than was seen, so their
place is uncertain."""

from __future__ import annotations

from typing import Callable, Generic, Mapping, Optional, Protocol, Sequence, TypeVar


class FreeFigures(Protocol):
    """The free bytes of a process; None: not known."""

    @property
    def free_bytes(self) -> Optional[int]: ...

    @property
    def stranded_bytes(self) -> Optional[int]: ...


class SeenProcess(FreeFigures, Protocol):
    """A process as one look found it; `exact`: by a look that held it."""

    @property
    def pid(self) -> int: ...

    @property
    def rss_bytes(self) -> int: ...

    @property
    def system_bytes(self) -> Optional[int]: ...

    @property
    def free_resident_bytes(self) -> Optional[int]: ...

    @property
    def figures(self) -> Optional[str]:
        """One of FIGURES; None if nothing is known."""

    @property
    def exact(self) -> Optional[FreeFigures]: ...


AnyProcess = TypeVar("AnyProcess", bound=SeenProcess)
FIGURES = (EXACT, ESTIMATE, AT_LEAST) = ("exact", "estimate", "at-least")
"""How the figures were obtained: from a held process; from a running one, with all lists followed to the end; or only
as far as they were followed."""
DEFAULT = "free"
SORTS: Mapping[str, Callable[[SeenProcess], int]] = {
    "free": lambda each: _known(
        each.exact.free_bytes if each.exact else None, each.free_resident_bytes, each.free_bytes
    ),
    "stranded": lambda each: _known(each.exact.stranded_bytes if each.exact else None, each.stranded_bytes),
    "system": lambda each: _known(each.system_bytes),
    "rss": lambda each: each.rss_bytes,
}
ALWAYS_KNOWN = ("system", "rss")


def _known(*sizes: Optional[int]) -> int:
    """Returns the first known size; if there is none, a value that sorts last."""
    return next((size for size in sizes if size is not None), -1)


def figures(exact: Optional[FreeFigures], whole: Optional[bool]) -> Optional[str]:
    """Returns one of FIGURES; `whole`: whether free lists were followed to their end."""
    if exact is not None and exact.free_bytes is not None:
        return EXACT
    return None if whole is None else ESTIMATE if whole else AT_LEAST


def at_most(row: SeenProcess, sort: str) -> int:
    """Returns an upper bound: all arena memory that was not seen to be free may be free, too."""
    seen = SORTS[sort](row)
    if row.figures != AT_LEAST or sort in ALWAYS_KNOWN:
        return seen
    return seen + max(0, (row.system_bytes or 0) - (row.free_bytes or 0))


class Order(Generic[AnyProcess]):
    """Processes sorted by the lower bound, or by the figures of --exact. `limit` are shown (0: all), and those of
    --exact."""

    def __init__(self, rows: Sequence[AnyProcess], sort: str, limit: int) -> None:
        self._rows = sorted(rows, key=lambda row: (-SORTS[sort](row), row.pid))
        self._sort = sort
        self._room = limit or len(rows)

    @property
    def shown(self) -> list[AnyProcess]:
        """The processes to show. Any that may be the largest of all replaces the last."""
        shown, hidden = self._rows[: self._room], self._rows[self._room :]
        if hidden:
            largest = SORTS[self._sort](shown[0])
            above = [row for row in hidden if at_most(row, self._sort) > largest]
            above = sorted(above, key=lambda row: -at_most(row, self._sort))[: len(shown) - 1]
            shown = shown[: len(shown) - len(above)] + above
        pids = {row.pid for row in shown}
        return [row for row in self._rows if row.pid in pids or row.exact is not None]

    @property
    def uncertain(self) -> list[AnyProcess]:
        """The processes that may belong further up, including hidden ones that may belong among the shown."""
        found = []
        for number, row in enumerate(self._rows):
            above = min(number, self._room) - 1
            if above >= 0 and at_most(row, self._sort) > SORTS[self._sort](self._rows[above]):
                found.append(row)
        return found

    @property
    def to_follow(self) -> list[AnyProcess]:
        """The processes to follow further: shown ones, or ones that may have to be, that were not followed to their
        ends. The one that may be largest comes first."""
        least = SORTS[self._sort](self._rows[self._room - 1]) if len(self._rows) > self._room else -1
        parts = [
            row
            for number, row in enumerate(self._rows)
            if row.figures == AT_LEAST and (number < self._room or at_most(row, self._sort) > least)
        ]
        return sorted(parts, key=lambda row: -at_most(row, self._sort))
