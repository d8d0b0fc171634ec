"""The table of scenarios: which heaps are built for real, and from where each is looked at."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

import pytest
from doors import DOORS, NEWEST
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
    name: str, words: str, env: Optional[Mapping[str, str]] = None, images: tuple[str, ...] = IMAGES
) -> Scenario:
    """`words` are the fixture and its arguments."""
    fixture, *arguments = words.split()
    return Scenario(name, fixture, tuple(arguments), env or {}, images)


# gcore writes a thread arena's 64 MiB out in full, so the fixtures that could have many threads have few here
AT_HOME = (
    scenario("hoard", "hoard 3 12"),
    scenario("workers-30MB", "workers 30 2 2"),
    scenario("workers-30MB-ended", "workers 30 2 2 end"),
    scenario("workers-100MB", "workers 100 2 1"),
    scenario("pinned-main", "pinned main 40"),
    scenario("pinned-thread", "pinned thread 100"),
    scenario("ladder-ascending", "ladder 200 ascending 20"),
    scenario("ladder-shuffled", "ladder 200 shuffled 20"),
    scenario("arenas60", "arenas60", images=("live", "kernel")),
    scenario("arenas14", "arenas60 6 8"),
    scenario("turns", "turns 4 8"),
    scenario("many_heaps", "many_heaps 4 plain"),
    scenario("many_heaps-spread", "many_heaps 4 spread"),
    scenario("bins", "bins"),
    scenario("bins-static", "bins.static"),
    scenario("bins-static-pie", "bins.static-pie"),
    scenario("full_heap", "full_heap full"),
    scenario("full_heap-retired", "full_heap retired"),
    scenario("full_heap-retired-64", "full_heap retired 64"),
    scenario("fastbins", "fastbins"),
    scenario("tcache", "tcache"),
    scenario("tcache-tls", "tcache.tls"),
    scenario("mmapped", "mmapped"),
    scenario("foreign_sbrk", "foreign_sbrk plain"),
    scenario("foreign_sbrk-fake", "foreign_sbrk fake"),
    scenario("foreign_sbrk-last", "foreign_sbrk last"),
    scenario("blocked_brk", "blocked_brk stay"),
    scenario("blocked_brk-apart", "blocked_brk apart"),
    scenario("blocked_brk-unblock", "blocked_brk unblock"),
    scenario("dlmopen", "dlmopen"),
    scenario("random-1", "random 1"),
    scenario("random-2", "random 2"),
    scenario("random-3", "random 3"),
    scenario(
        "asked-by-variables",
        "workers 1 4 1",
        env={"MALLOC_ARENA_MAX": "3", "MALLOC_MMAP_THRESHOLD_": "200000", "MALLOC_TOP_PAD_": "0x10000"},
    ),
    scenario(
        "asked-by-tunables",
        "workers 1 4 1",
        env={
            "GLIBC_TUNABLES": "glibc.malloc.tcache_count=5:glibc.malloc.trim_threshold=300000:glibc.malloc.arena_max=2"
        },
    ),
    scenario(
        "asked-wrongly", "workers 1 2 1", env={"MALLOC_MMAP_THRESHOLD": "65536", "MALLOC_TRIM_THRESHOLD_": "lots"}
    ),
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
    def id(self) -> str:
        return f"{self.scenario.id}-{self.image}-{self.door}-{'symbols' if self.symbols else 'stripped'}"


GDB, LLDB, SHELL = NEWEST
SHORT = frozenset(
    View(BY_ID[name], door, image, symbols)
    for name, image, door, symbols in (
        ("hoard", "live", GDB, True),
        ("hoard", "gcore", LLDB, False),
        ("hoard", "kernel", SHELL, True),
        ("pinned-thread", "live", LLDB, False),
        ("pinned-thread", "gcore", GDB, True),
        ("pinned-thread", "kernel", SHELL, False),
        ("many_heaps-spread", "live", LLDB, True),
        ("many_heaps-spread", "gcore", SHELL, False),
        ("many_heaps-spread", "kernel", GDB, True),
        ("bins", "live", GDB, False),
        ("bins", "gcore", SHELL, True),
        ("bins", "kernel", LLDB, True),
        ("tcache", "live", GDB, True),
        ("tcache", "gcore", LLDB, False),
        ("tcache", "kernel", SHELL, False),
        ("mmapped", "live", GDB, False),
        ("mmapped", "gcore", LLDB, True),
        ("mmapped", "kernel", SHELL, True),
        ("foreign_sbrk-fake", "live", LLDB, False),
        ("foreign_sbrk-fake", "gcore", SHELL, True),
        ("foreign_sbrk-fake", "kernel", GDB, True),
        ("blocked_brk", "live", SHELL, True),
        ("blocked_brk", "gcore", GDB, False),
        ("blocked_brk", "kernel", LLDB, False),
        ("asked-by-tunables", "live", LLDB, False),
        ("asked-by-tunables", "gcore", SHELL, True),
        ("asked-by-tunables", "kernel", GDB, True),
    )
)
"""The looks that `make test` takes."""


def every_view() -> Iterator[View]:
    """The looks that `make test-all` takes: those of `make test`, and at each image of each scenario by two doors, such
    that each door looks at each scenario, with symbols at one image and without at another."""
    for number, scenario in enumerate(TABLE):
        for place, image in enumerate(scenario.images):
            for turn, door in enumerate(DOORS):
                for symbols in (True, False):
                    view = View(scenario, door, image, symbols)
                    has_turn = (number + place + turn) % 2 == 0 and symbols is ((number + turn) // 2 % 2 == 0)
                    if view in SHORT or has_turn:
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
    for view in every_view():
        if view.image in images and (only is None or view.scenario.name in only) and where(view):
            images_of.setdefault((view.scenario, view.image), []).append(view)
    parameters = []
    for (scenario, image), chosen in images_of.items():
        # pytest-xdist takes a group's name from after the last "@" of a test's
        group = pytest.mark.xdist_group(scenario.id.replace("@", " on "))
        for more, marks in (("", [group]), ("-more", [group, pytest.mark.full])):
            part = tuple(view for view in chosen if (view in SHORT) is not bool(more))
            if part:
                parameters.append(pytest.param(part, id=f"{scenario.id}-{image}{more}", marks=marks))
    return lambda test: pytest.mark.parametrize("sight", parameters, indirect=True)(each_look(test))


def each_look(test: Callable[..., None]) -> Callable[..., None]:
    """The test of one `sight`, as a test of all that are made of one image: what it prints last is the one that
    failed."""

    @functools.wraps(test)
    def every_look(sight: Mapping[View, Callable[[], Any]], **others: Any) -> None:
        skipped = []
        for view, look in sight.items():
            print(view.id)
            try:
                test(sight=look(), **others)
            except pytest.skip.Exception as reason:
                skipped.append(reason)
        if len(skipped) == len(sight):
            raise skipped[0]

    return every_look
