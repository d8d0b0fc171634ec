"""Which looks, and which tests of many alike, are the few that tell most.

Looks are chosen such that no two traits of a look stay untried together. A fault shows in one trait (this scenario,
that door) or where two meet, seldom where three do; so `make test` has scenarios that are unlike in each of their
images, by each door, with symbols and without, and each door has each image with and without symbols of as many of them
as any other; scenarios that are for LATER (scenarios.py) it leaves to `make test-all`.
`make test-all` has of scenarios that are unlike each image by each of these doors, and each image and each door with
and without symbols; by the other doors, and of the other scenarios, what `make test` would have; and each cell of the
support matrix.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any, Callable, Collection, Container, Hashable, Iterable, Iterator, Protocol, Sequence, TypeVar

import pytest


class Look(Protocol):
    scenario: Hashable
    door: str
    image: str
    symbols: bool


AnyLook = TypeVar("AnyLook", bound=Look)


def together(look: Look, traits: int) -> Iterator[tuple[Hashable, ...]]:
    """What it shows of its scenario: as many traits at once."""
    yield from combinations((("image", look.image), ("door", look.door), ("symbols", look.symbols)), traits)


def sides(look: Look) -> tuple[str, str, bool]:
    return look.door, look.image, look.symbols


def few(looks: Iterable[AnyLook], traits: int, beside: Collection[AnyLook] = ()) -> Iterator[AnyLook]:
    """Those that show of each scenario every meeting of so many traits, beside others that are taken anyway. Always the
    same ones: of those that show the most that was not yet seen, the one from the side that is the rarest so far."""
    by_scenario: dict[Hashable, list[AnyLook]] = {}
    for look in looks:
        by_scenario.setdefault(look.scenario, []).append(look)
    taken: Counter[tuple[str, str, bool]] = Counter()
    for candidates in by_scenario.values():
        missing = {shown for look in candidates for shown in together(look, traits)}
        missing.difference_update(*(together(look, traits) for look in candidates if look in beside))
        while missing:
            best = min(
                candidates, key=lambda look: (-len(missing.intersection(together(look, traits))), taken[sides(look)])
            )
            missing.difference_update(together(best, traits))
            taken[sides(best)] += 1
            yield best


def some(values: Iterable[Any], *soon: Any) -> list[Any]:
    """Values of a parameter: these in `make test`, all in test-all."""
    return [pytest.param(each, marks=[] if each in soon else pytest.mark.full) for each in values]


def not_in_turn(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Of each test that is marked in_turns("door", "name"), those beyond the few that show every value of each of these
    parameters: the one with the most values is gone through, and the others take their values in turns."""
    for group in _alike(item for item in items if not item.get_closest_marker("full")):
        kept = turns([sorted(set(column)) for column in zip(*group.values())])
        yield from (item for item, place in group.items() if place not in kept)


def beyond_pairs(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Of those with three such parameters and more, what shows no two values together that others do not; never what
    not_in_turn leaves to `make test`."""
    for group in _alike(items):
        missing = {pair for place in group.values() for pair in _pairs(place)}
        rest = {item: place for item, place in group.items() if item.get_closest_marker("full")}
        for item, place in group.items():
            if item not in rest:
                missing.difference_update(_pairs(place))
        while missing:
            best = max(rest, key=lambda item: len(missing.intersection(_pairs(rest[item]))))
            missing.difference_update(_pairs(rest.pop(best)))
        yield from (item for item in rest if len(rest[item]) > 2)


def not_its_turn(items: Iterable[pytest.Item], doors: Container[str]) -> Iterator[pytest.Item]:
    """Of tests that are alike but for the door, those beyond one: the doors take turns from test to test of a file.
    Then of those that are left the same for kinds of image, and for ways to hold a process; and of rows of releases a
    third. What is about these themselves, and not about something that all of them show, is marked every_one."""
    left = [item for item in items if not item.get_closest_marker("full") and not item.get_closest_marker("every_one")]
    for values in (doors, ("live", "core", "saved", "gcore", "kernel"), ("ptrace", "signal")):
        later = set(_beyond_one(left, values))
        left = [item for item in left if item not in later]
        yield from later
    yield from _beyond_a_third(left)


def _beyond_one(items: Iterable[pytest.Item], values: Container[str]) -> Iterator[pytest.Item]:
    turn: Counter[str] = Counter()
    for group in _alike_but_for(items, lambda _, value: _is_of(values, value)):
        file = group[0].location[0]
        yield from (item for place, item in enumerate(group) if place != turn[file] % len(group))
        turn[file] += len(group) > 1


def _beyond_a_third(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Of a heap built in Python for each of the many rows of releases, another third for each test of a file."""
    turn: Counter[str] = Counter()
    for group in _alike_but_for(items, lambda name, _: name == "row"):
        file = group[0].location[0]
        if len(group) >= MANY:
            yield from (item for place, item in enumerate(group) if place % 3 != turn[file] % 3)
            turn[file] += 1


def _alike_but_for(
    items: Iterable[pytest.Item], one: Callable[[str, object], bool]
) -> Collection[Sequence[pytest.Item]]:
    """Tests with such a parameter: groups of those whose other parameters have the same values."""
    alike: dict[tuple[Hashable, ...], list[pytest.Item]] = {}
    met: dict[Hashable, list[object]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None:
            continue
        test = item.location[0], getattr(item, "originalname", "")
        others = {name: value for name, value in callspec.params.items() if not one(name, value)}
        if len(others) < len(callspec.params):
            places = [(name, _place(met.setdefault((test, name), []), others[name])) for name in sorted(others)]
            alike.setdefault((test, *places), []).append(item)
    return alike.values()


def _place(met: list[object], value: object) -> int:
    """Values of parameters need not have a hash."""
    if value not in met:
        met.append(value)
    return met.index(value)


def _is_of(values: Container[str], value: Any) -> bool:
    name = getattr(value, "name", value)
    return isinstance(name, str) and name in values


def beyond_most(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Of each test that is marked at_most(3), and of those of it that are left, all but three from one end to the
    other."""
    left: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("at_most") and not item.get_closest_marker("full"):
            left.setdefault((item.location[0], getattr(item, "originalname", "")), []).append(item)
    for group in left.values():
        (most,) = group[0].get_closest_marker("at_most").args
        kept = {number * len(group) // most for number in range(most)}
        yield from (item for place, item in enumerate(group) if place not in kept)


MANY = 30
Place = tuple[int, ...]
"""Which value each of the parameters has."""


def _alike(items: Iterable[pytest.Item]) -> Iterator[dict[pytest.Item, Place]]:
    alike: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("in_turns"):
            alike.setdefault((item.location[0], getattr(item, "originalname", "")), []).append(item)
    for group in alike.values():
        names = group[0].get_closest_marker("in_turns").args
        values = [[item.callspec.params[name] for item in group] for name in names]
        yield dict(zip(group, zip(*([column.index(value) for value in column] for column in values))))


def _pairs(place: Place) -> Iterator[tuple[tuple[int, int], ...]]:
    yield from combinations(enumerate(place), 2)


def turns(columns: Sequence[Sequence[int]]) -> set[tuple[int, ...]]:
    order = sorted(range(len(columns)), key=lambda number: -len(columns[number]))
    kept = set()
    for row in range(len(columns[order[0]])):
        chosen, rest = [0] * len(columns), row
        for number in order:
            chosen[number] = columns[number][rest % len(columns[number])]
            # the first of the others changes with each row, the next once that has been through, and so on
            rest = row if number == order[0] else rest // len(columns[number])
        kept.add(tuple(chosen))
    return kept
