"""Which looks are the few that tell most: pairwise, so that no two traits of a look stay untried together.

A fault shows in one trait (this scenario, that door) or where two meet; so each scenario is seen in each of its images,
by each door, with symbols and without, and each door has each image with and without symbols of as many scenarios as
any other.
"""

from __future__ import annotations

from collections import Counter
from typing import Hashable, Iterable, Iterator, Protocol, TypeVar


class Look(Protocol):
    scenario: Hashable
    door: str
    image: str
    symbols: bool


AnyLook = TypeVar("AnyLook", bound=Look)


def pairs(look: Look) -> Iterator[tuple[Hashable, ...]]:
    for trait in (look.image, look.door, look.symbols):
        yield look.scenario, trait


def sides(look: Look) -> tuple[str, str, bool]:
    return look.door, look.image, look.symbols


def pairwise(looks: Iterable[AnyLook]) -> Iterator[AnyLook]:
    """Always the same ones: of those that show the most that was not yet seen, the one from the side that is the
    rarest so far."""
    by_scenario: dict[Hashable, list[AnyLook]] = {}
    for look in looks:
        by_scenario.setdefault(look.scenario, []).append(look)
    taken: Counter[tuple[str, str, bool]] = Counter()
    for candidates in by_scenario.values():
        missing = {pair for look in candidates for pair in pairs(look)}
        while missing:
            best = min(candidates, key=lambda look: (-len(missing.intersection(pairs(look))), taken[sides(look)]))
            missing.difference_update(pairs(best))
            taken[sides(best)] += 1
            yield best
