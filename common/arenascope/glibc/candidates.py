"""The candidates met on the way to the heap, with what speaks for and against each: `heap version --full` shows it.

Where somebody asks for one, walkers also examine what they would no longer need, and find the same.
"""

from __future__ import annotations

from typing import Iterable, NamedTuple, Optional

from ..base.model import Statement

KINDS = ("main_arena", "mp_", "layout", "thread_arena", "thread_caches")


class Candidate(NamedTuple):
    """One of the candidates."""

    kind: str
    """One of KINDS."""
    name: str
    """An address, a release, a distance from the thread pointer: unique within its kind."""
    speaks_for: tuple[Statement, ...] = ()
    against: tuple[Statement, ...] = ()
    chosen: bool = False


class Trail:
    """The candidates, in the order in which they were met."""

    def __init__(self, wanted: bool = True) -> None:
        self.wanted = wanted
        """Whether anybody asks: else nothing is kept."""
        self._met: dict[tuple[str, str], Candidate] = {}

    def add(
        self, kind: str, name: str, speaks_for: Iterable[Statement] = (), against: Iterable[Statement] = ()
    ) -> None:
        """More about one that was met before comes after what was said then."""
        if not self.wanted:
            return
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


UNASKED = Trail(wanted=False)


def _once(known: tuple[Statement, ...], more: Iterable[Statement]) -> tuple[Statement, ...]:
    said = list(known)
    said += [each for each in more if each not in known]
    return tuple(said)
