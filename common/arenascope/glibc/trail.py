"""What came into question on the way to the heap, with what spoke for and against it: `heap version --full` shows it.

Walkers are given a Trail only where somebody asks. They then also look at what they would not have needed any more, and
find the same.
"""

from __future__ import annotations

from typing import Iterable, Optional

from ..model import Statement
from ..records import NamedTuple

KINDS = ("main_arena", "mp_", "layout", "thread_arena", "thread_caches")


class Candidate(NamedTuple):
    """One of those that came into question."""

    kind: str
    """One of KINDS."""
    name: str
    """An address, a release, a distance from the thread pointer: once of each kind."""
    speaks_for: tuple[Statement, ...] = ()
    against: tuple[Statement, ...] = ()
    chosen: bool = False


class Trail:
    """The candidates, in the order in which they were met."""

    def __init__(self) -> None:
        self._met: dict[tuple[str, str], Candidate] = {}

    def add(
        self, kind: str, name: str, speaks_for: Iterable[Statement] = (), against: Iterable[Statement] = ()
    ) -> None:
        """More on one that was met before comes after what was said of it then."""
        known = self._met.get((kind, name), Candidate(kind, name))
        self._met[kind, name] = known._replace(
            speaks_for=_once(known.speaks_for, speaks_for), against=_once(known.against, against)
        )

    def choose(self, kind: str, name: Optional[str], instead: Optional[Statement] = None) -> None:
        """This one was taken, or none; `instead` says why not another that nothing spoke against."""
        for key, each in self._met.items():
            if each.kind != kind:
                continue
            chosen = each.name == name
            lost = (instead,) if instead is not None and not chosen and not each.against else ()
            self._met[key] = each._replace(chosen=chosen, against=(*each.against, *lost))

    def of(self, kind: str) -> list[Candidate]:
        """The one that was taken comes first, then those with the most in their favour."""
        met = [each for each in self._met.values() if each.kind == kind]
        return sorted(met, key=lambda each: (not each.chosen, -len(each.speaks_for)))


def _once(known: tuple[Statement, ...], more: Iterable[Statement]) -> tuple[Statement, ...]:
    said = list(known)
    said += [each for each in more if each not in known]
    return tuple(said)
