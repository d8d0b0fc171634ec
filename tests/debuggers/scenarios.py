"""The table of scenarios: which heaps are built for real, and from where each is looked at."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

import pytest
from choice import few
from doors import DOORS, NEWEST
from made_once import Looks, cell_of, each_look
from platforms import ELSEWHERE, HOST, Platform

IMAGES = ("live", "gcore", "kernel")


@dataclass(frozen=True)
class Scenario:
    """A fixture with arguments, on some glibc. `images` leaves out what would take too long."""

    name: str
    fixture: str
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    images: tuple[str, ...] = IMAGES
    platform: Platform = HOST

    @property
    def id(self) -> str:
        return self.name if self.platform == HOST else f"{self.name}@{self.platform.id}"


def scenario(
    name: str, fixture: str, *arguments: str, env: Optional[Mapping[str, str]] = None, images: tuple[str, ...] = IMAGES
) -> Scenario:
    return Scenario(name, fixture, arguments, env or {}, images)


# gcore writes a thread arena's 64 MiB out in full, so the fixtures that could have many threads have few here
AT_HOME = (
    scenario("hoard", "hoard", "3", "12"),
    scenario("workers-30MB", "workers", "30", "2", "2"),
    scenario("workers-30MB-ended", "workers", "30", "2", "2", "end"),
    scenario("workers-100MB", "workers", "100", "2", "1"),
    scenario("pinned-main", "pinned", "main", "40"),
    scenario("pinned-thread", "pinned", "thread", "100"),
    scenario("ladder-ascending", "ladder", "200", "ascending", "20"),
    scenario("ladder-shuffled", "ladder", "200", "shuffled", "20"),
    scenario("arenas60", "arenas60", images=("live", "kernel")),
    scenario("arenas14", "arenas60", "6", "8"),
    scenario("turns", "turns", "4", "8"),
    scenario("many_heaps", "many_heaps", "4", "plain"),
    scenario("many_heaps-spread", "many_heaps", "4", "spread"),
    scenario("bins", "bins"),
    scenario("bins-static", "bins.static"),
    scenario("bins-static-pie", "bins.static-pie"),
    scenario("full_heap", "full_heap", "full"),
    scenario("full_heap-retired", "full_heap", "retired"),
    scenario("full_heap-retired-64", "full_heap", "retired", "64"),
    scenario("fastbins", "fastbins"),
    scenario("tcache", "tcache"),
    scenario("tcache-tls", "tcache.tls"),
    scenario("mmapped", "mmapped"),
    scenario("foreign_sbrk", "foreign_sbrk", "plain"),
    scenario("foreign_sbrk-fake", "foreign_sbrk", "fake"),
    scenario("foreign_sbrk-last", "foreign_sbrk", "last"),
    scenario("blocked_brk", "blocked_brk", "stay"),
    scenario("blocked_brk-apart", "blocked_brk", "apart"),
    scenario("blocked_brk-unblock", "blocked_brk", "unblock"),
    scenario("dlmopen", "dlmopen"),
    scenario("random-1", "random", "1"),
    scenario("random-2", "random", "2"),
    scenario("random-3", "random", "3"),
    scenario(
        "asked-by-variables",
        "workers",
        "1",
        "4",
        "1",
        env={"MALLOC_ARENA_MAX": "3", "MALLOC_MMAP_THRESHOLD_": "200000", "MALLOC_TOP_PAD_": "0x10000"},
    ),
    scenario(
        "asked-by-tunables",
        "workers",
        "1",
        "4",
        "1",
        env={
            "GLIBC_TUNABLES": "glibc.malloc.tcache_count=5:glibc.malloc.trim_threshold=300000:glibc.malloc.arena_max=2"
        },
    ),
    scenario(
        "asked-wrongly",
        "workers",
        "1",
        "2",
        "1",
        env={"MALLOC_MMAP_THRESHOLD": "65536", "MALLOC_TRIM_THRESHOLD_": "lots"},
    ),
)
# what these show another one shows, too: `make test` goes without them, `make test-all` sees them, and what runs on
# other releases, by each door, in each image, with symbols and without, but not by each in each
ALIKE = (
    "workers-30MB",
    "workers-100MB",
    "ladder-ascending",
    "arenas14",
    "bins-static-pie",
    "full_heap",
    "full_heap-retired",
    "foreign_sbrk",
    "foreign_sbrk-last",
    "blocked_brk-apart",
    "many_heaps",
    "random-2",
    "random-3",
)
# most of what these show is shown by others: `make test` goes without them, too, and `make test-all` has all of it
LATER = (
    "pinned-main",
    "turns",
    "full_heap-retired-64",
    "blocked_brk-unblock",
    "asked-wrongly",
    "tcache-tls",
    "arenas60",
    "workers-30MB-ended",
    "random-1",
    "ladder-shuffled",
    "bins-static",
    "asked-by-variables",
    "fastbins",
    "dlmopen",
)
# these also run on the other releases: one for each shape that a release, or a narrow machine, might have otherwise
EVERYWHERE = ("many_heaps", "bins", "tcache", "mmapped", "foreign_sbrk", "blocked_brk", "pinned-thread")
# from glibc 2.42 on, and Linux 6.13, a thread's stack has its guard pages in the same mapping, of which GDB 13's gcore
# writes nothing then (test_a_core_without_stacks_is_called_partial): subjects have them apart (guards.py)
GUARDED = ("2.43", "2.44")
# two arenas to a core are all that 32-bit machines allow
NARROW = {"tcache": ("3",)}


def _elsewhere() -> Iterator[Scenario]:
    for platform in ELSEWHERE:
        for each in AT_HOME:
            if each.name in EVERYWHERE:
                narrow = NARROW.get(each.name) if platform.pointer_bytes == 4 else None
                yield replace(each, platform=platform, arguments=narrow or each.arguments)


TABLE = (*AT_HOME, *_elsewhere())
BY_ID = {each.id: each for each in TABLE}


@dataclass(frozen=True)
class View:
    """One look: which heap, through which door, at what, and with which help."""

    scenario: Scenario
    door: str
    image: str
    symbols: bool

    @property
    def release(self) -> str:
        """The glibc that the heap is one of: "2.36"."""
        return self.scenario.platform.release

    @property
    def machine(self) -> str:
        """By the name that Target.machine has for it: "x86_64"."""
        return self.scenario.platform.machine

    @property
    def id(self) -> str:
        return f"{self.scenario.id}-{self.image}-{self.door}-{'symbols' if self.symbols else 'stripped'}"


def every_view() -> Iterator[View]:
    for each in TABLE:
        for image in each.images:
            for door in DOORS:
                for symbols in (True, False):
                    yield View(each, door, image, symbols)


def is_unlike(scenario: Scenario) -> bool:
    return scenario.platform == HOST and scenario.name not in ALIKE


def _taken() -> Iterator[View]:
    unlike = [view for view in every_view() if is_unlike(view.scenario)]
    yield from few((view for view in unlike if view.door in NEWEST), traits=2, beside=SHORT)
    yield from few((view for view in unlike if view.door not in NEWEST), traits=1)
    by_platform: dict[Platform, list[View]] = {}
    for view in every_view():
        if not is_unlike(view.scenario):
            by_platform.setdefault(view.scenario.platform, []).append(view)
    for alike in by_platform.values():
        taken = list(few(alike, traits=1))
        yield from taken
        # each cell of the support matrix once
        rest = {cell_of(view): view for view in alike}
        yield from (rest[cell] for cell in rest.keys() - set(map(cell_of, taken)))


SHORT = frozenset(few((view for view in every_view() if is_unlike(view.scenario) and view.door in NEWEST), traits=1))
"""The looks that `make test` takes, but for scenarios that are for LATER."""
TAKEN = SHORT.union(_taken())
"""And `make test-all`."""


def views(*, only: Optional[Sequence[str]] = None, images: Sequence[str] = IMAGES) -> Iterator[View]:
    for view in every_view():
        if view in TAKEN and view.image in images and (only is None or view.scenario.name in only):
            yield view


def seen(
    *,
    only: Optional[Sequence[str]] = None,
    images: Sequence[str] = IMAGES,
    where: Callable[[View], bool] = lambda view: True,
) -> Callable[[Callable[..., None]], Any]:
    """Makes a test of one `sight` a test for each image of each scenario, which judges all looks at it: first those of
    `make test`, by themselves, then the rest of the matrix. All looks at one scenario go to one worker, which then
    builds its heap once. `only` names scenarios; those of them that run elsewhere too are taken from everywhere."""
    assert only is None or not set(only) - set(BY_ID), only
    images_of: dict[tuple[Scenario, str], list[View]] = {}
    for view in views(only=only, images=images):
        if where(view):
            images_of.setdefault((view.scenario, view.image), []).append(view)
    parameters = []
    for (scenario, image), chosen in images_of.items():
        group = _one_worker(scenario)
        soon = [*group, pytest.mark.full] if scenario.name in LATER else group
        for more, marks in (("", soon), ("-more", [*group, pytest.mark.full])):
            part = tuple(view for view in chosen if (view in SHORT) is not bool(more))
            if part:
                looks = Looks(f"{scenario.id}-{image}{more}", part)
                parameters.append(pytest.param(looks, id=looks.id, marks=marks))
    return lambda test: pytest.mark.parametrize("sight", parameters, indirect=True)(each_look(test))


def _one_worker(scenario: Scenario) -> list[pytest.MarkDecorator]:
    # pytest-xdist takes a group's name from after the last "@" of a test's
    return [pytest.mark.xdist_group(scenario.id.replace("@", " on "))]
