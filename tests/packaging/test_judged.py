"""A test that judges many looks tells which of them failed, and how; and what `make test` takes leaves nothing out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Optional

import machine_table
import pytest
from choice import MANY, beyond_most, not_its_turn, turns
from doors import DOORS, NEWEST
from made_once import Looks, Sights, cell_of, each_look
from platforms import HOST
from scenarios import ALIKE, AT_HOME, IMAGES, SHORT, TABLE, TAKEN, every_view, is_unlike


@dataclass(frozen=True)
class Look:
    door: str
    release: str = "2.36"
    machine: str = "x86_64"
    image: str = "live"
    symbols: bool = True
    size: Optional[int] = 3

    @property
    def id(self) -> str:
        return f"bins-live-{self.door}-symbols"


def test_a_failure_names_the_look_and_the_figure() -> None:
    @each_look
    def sizes(sight: Look) -> None:
        if sight.size is None:
            pytest.skip("has none")
        assert sight.size == 3, "of the top"

    looks = Looks("bins-live", (Look("gdb"), Look("lldb-19", size=4), Look("shell", size=None)))
    sights = Sights(looks, lambda view: view, [])
    with pytest.raises(pytest.fail.Exception) as failure:
        sizes(sight=sights)
    first, *story = str(failure.value).splitlines()
    assert first == "1 of 3 looks, first bins-live-lldb-19-symbols: of the top"
    assert "--- bins-live-lldb-19-symbols" in story
    assert any(line.startswith("E ") and "4 == 3" in line for line in story), story
    assert [outcome for _, (_, outcome) in sights.properties] == ["passed", "failed", "skipped"]
    assert sights.properties[1] == ("cell", ("2.36|x86_64|lldb-19|live|symbols", "failed"))


def test_only_where_every_look_is_skipped_the_test_is() -> None:
    @each_look
    def skips(sight: Look) -> None:
        pytest.skip("has none")

    with pytest.raises(pytest.skip.Exception, match="has none"):
        skips(sight=Sights(Looks("bins-live", (Look("gdb"), Look("shell"))), lambda view: view, []))


@pytest.mark.parametrize("scenario", [each for each in AT_HOME if each.name not in ALIKE], ids=lambda each: each.id)
def test_the_few_looks_show_each_scenario_from_all_sides(scenario) -> None:
    mine = [view for view in SHORT if view.scenario == scenario]
    assert {view.image for view in mine} == set(scenario.images)
    assert {view.door for view in mine} == set(NEWEST)
    assert {view.symbols for view in mine} == {True, False}


def test_the_few_looks_are_spread_evenly() -> None:
    """Each door has each image, with symbols and without, of several scenarios."""
    times = Counter((view.door, view.image, view.symbols) for view in SHORT)
    assert set(times) == {
        (view.door, view.image, view.symbols)
        for view in every_view()
        if view.door in NEWEST and view.scenario.platform == HOST
    }
    assert min(times.values()) > 2
    assert len(SHORT) < 5 * len(AT_HOME)


@pytest.mark.parametrize("scenario", [each for each in TABLE if is_unlike(each)], ids=lambda each: each.id)
def test_no_two_traits_of_a_look_stay_untried_together(scenario) -> None:
    mine = [view for view in TAKEN if view.scenario == scenario]
    newest = [view for view in mine if view.door in NEWEST]
    assert {(view.image, view.door) for view in newest} == {(i, door) for i in scenario.images for door in NEWEST}
    for symbols in (True, False):
        assert {view.image for view in newest if view.symbols is symbols} == set(scenario.images)
        assert {view.door for view in newest if view.symbols is symbols} == set(NEWEST)
    older = [view for view in mine if view.door not in NEWEST]
    assert {view.image for view in older} == set(scenario.images)
    assert {view.door for view in older} == DOORS.keys() - set(NEWEST)


def test_older_debuggers_are_spread_evenly() -> None:
    """Each has each image, with symbols and without, of several scenarios."""
    older = DOORS.keys() - set(NEWEST)
    times = Counter((view.door, view.image, view.symbols) for view in TAKEN if is_unlike(view.scenario))
    assert all(times[door, image, symbols] > 2 for door in older for image in IMAGES for symbols in (True, False))


@pytest.mark.parametrize("scenario", [each for each in TABLE if not is_unlike(each)], ids=lambda each: each.id)
def test_what_is_alike_is_seen_from_all_sides(scenario) -> None:
    mine = [view for view in TAKEN if view.scenario == scenario]
    assert {view.image for view in mine} == set(scenario.images)
    assert {view.door for view in mine} == set(DOORS)
    assert {view.symbols for view in mine} == {True, False}


def test_every_cell_of_the_matrix_is_seen() -> None:
    assert {cell_of(view) for view in TAKEN} == {cell_of(view) for view in every_view()}
    elsewhere = {cell_of(view) for view in machine_table.views()}
    assert elsewhere == {cell_of(view) for view in machine_table.every_view()}


def test_in_turns_every_value_occurs() -> None:
    doors, names, symbols = range(3), range(7), range(2)
    kept = turns([names, doors, symbols])
    assert len(kept) == len(names)
    assert [set(column) for column in zip(*kept)] == [set(names), set(doors), set(symbols)]
    assert {(door, symbol) for _, door, symbol in kept} == {(door, symbol) for door in doors for symbol in symbols}


@dataclass(eq=False)
class Item:
    """As much of one as not_its_turn and beyond_most ask for."""

    originalname: str
    params: dict[str, Any]
    marks: tuple[str, ...] = ()
    most: int = 0
    location: tuple[str, ...] = ("a file",)

    @property
    def callspec(self) -> Item:
        return self

    def get_closest_marker(self, name: str) -> object:
        if name == "at_most":
            return pytest.mark.at_most(self.most) if self.most else None
        return name in self.marks

    @property
    def place(self) -> tuple[object, ...]:
        return (self.originalname, *self.params.values())


def test_doors_take_turns_from_test_to_test() -> None:
    doors = ("gdb", "lldb", "shell")
    tests = [Item("first", {"door": door, "size": size}) for size in (1, 2) for door in doors]
    tests += [Item("second", {"of": door}) for door in doors[:2]]
    tests += [Item("third", {"door": door}, ("every_one",)) for door in doors]
    tests += [Item("fourth", {"size": 1})]
    tests += [Item("fifth", {"door": door, "image": image}) for image in ("live", "core") for door in doors]
    tests += [Item("sixth", {"image": image}) for image in ("live", "core")]
    tests += [Item(name, {"row": number}) for name in ("seventh", "eighth") for number in range(MANY)]
    later = set(not_its_turn(tests, doors))
    assert [each.place for each in tests if each not in later] == [
        ("first", "gdb", 1),
        ("first", "lldb", 2),
        ("second", "gdb"),
        ("third", "gdb"),
        ("third", "lldb"),
        ("third", "shell"),
        ("fourth", 1),
        ("fifth", "gdb", "live"),
        ("fifth", "lldb", "core"),
        ("sixth", "live"),
        *(("seventh", number) for number in range(0, MANY, 3)),
        *(("eighth", number) for number in range(1, MANY, 3)),
    ]


def test_so_many_are_left_from_one_end_to_the_other() -> None:
    tests = [Item("first", {"size": size}, most=3) for size in range(7)]
    tests += [Item("second", {"size": size}, ("full",) if size < 4 else (), most=1) for size in range(6)]
    tests += [Item("third", {"size": size}) for size in range(3)] + [Item("fourth", {"size": 0}, most=2)]
    later = set(beyond_most(tests))
    left = [each.place for each in tests if each not in later and "full" not in each.marks]
    assert left == [
        *(("first", size) for size in (0, 2, 4)),
        ("second", 4),
        *(("third", size) for size in range(3)),
        ("fourth", 0),
    ]
