"""heap pins: what it says of a block, against what happens when the subject frees that block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any, Optional

import pytest
from album import PINS as RANGES
from album import WITH_PINS, Album, Sight
from doors import Gdb, Live
from marks import in_full
from platforms import ELSEWHERE
from scenarios import Scenario, scenario, seen
from shell_door import SHELL
from subjects import Subject
from test_trim import Strace

PINS = "pins --own --ranges --limit 0 --json"
FASTEST = 128
"""Up to here free() may keep a block in a fastbin."""
NO_FASTBINS = ":glibc.malloc.mxfast=0"
ROUNDS = 4
# so that free() of the main thread, which the protocol's is, keeps nothing for itself
UNCACHED = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}


def uncached(name: str, words: str, tunables: str = "") -> Scenario:
    return scenario(name, words, env={"GLIBC_TUNABLES": UNCACHED["GLIBC_TUNABLES"] + tunables})


AT_HOME = (
    uncached("pinned-main", "pinned main 40"),
    uncached("pinned-thread", "pinned thread 100"),
    uncached("pinned-both", "pinned both 100"),
    uncached("many_heaps", "many_heaps 4 plain"),
    uncached("many_heaps-spread", "many_heaps 4 spread"),
    uncached("many_heaps-low-threshold", "many_heaps 4 plain", tunables=":glibc.malloc.trim_threshold=20000"),
    uncached("full_heap", "full_heap full"),
    uncached("full_heap-retired", "full_heap retired"),
    uncached("full_heap-retired-64", "full_heap retired 64"),
    uncached("full_heap-retired-9000", "full_heap retired 9000"),
    uncached("hoard", "hoard 3 12"),
    uncached("hoard-low-threshold", "hoard 3 12", tunables=":glibc.malloc.trim_threshold=70000"),
    uncached("bins", "bins"),
    uncached("fastbins", "fastbins"),
    uncached("random-1", "random 1"),
    uncached("random-2", "random 2 3000"),
    uncached("random-3-no-pad", "random 3", tunables=":glibc.malloc.top_pad=0:glibc.malloc.trim_threshold=100000"),
    uncached("hoard-no-fastbins", "hoard 3 12", tunables=NO_FASTBINS),
    uncached("random-4-no-fastbins", "random 4", tunables=NO_FASTBINS),
    uncached("foreign_sbrk-last", "foreign_sbrk last"),
    uncached("blocked_brk", "blocked_brk stay"),
    uncached("thp", "pinned both 40", tunables=":glibc.malloc.hugetlb=1"),
)
ELSEWHERE_TOO = (("pinned-both", "full_heap-retired-64"), ("many_heaps", "random-1"))
"""Of these another release has the one pair, the next the other."""
TABLE = (
    *AT_HOME,
    *(
        replace(each, platform=platform)
        for platform, names in zip(ELSEWHERE, cycle(ELSEWHERE_TOO))
        for each in AT_HOME
        if each.name in names
    ),
)


@dataclass
class Happened:
    """What one call of the subject gave back, as the kernel saw it."""

    brk: int
    unmapped: list[tuple[int, int]]
    madvised: list[tuple[int, int]]

    @property
    def steps(self) -> list[list[Any]]:
        """In the words of `pins --ranges`; the length of an unmapped heap is that of its whole reservation."""
        return [
            *(["munmap", f"{start:#x}", size] for start, size in self.unmapped),
            *(["madvise", f"{start:#x}", size] for start, size in self.madvised),
        ]


def watched(subject: Subject, command: str, curbrk: int) -> Happened:
    with Strace(subject.pid, subject.folder) as trace:
        reply = subject.send(command)
    assert not reply.startswith(("unknown", "BROKEN")), reply
    return Happened(curbrk - trace.breaks[-1] if trace.breaks else 0, trace.unmapped, trace.madvised)


def system_bytes(subject: Subject) -> int:
    """mallinfo().arena: the sum of all arenas' system_mem, asked of the subject."""
    assert subject.send("truth") == "ok"
    return int(subject.truth["mallinfo"]["arena"])


def choose(pins: list[dict[str, Any]], held: set[int], least: int, turn: int) -> Optional[dict[str, Any]]:
    """One that the ledger knows and that no fastbin takes: the first by free() and the first by trim, in turns, and
    then some from further down."""
    free = [pin for pin in pins if pin["bytes"] > least and int(pin["user_address"], 16) in held]
    wanted = [pin for pin in free if pin["by"] == ("free" if turn % 2 == 0 else "trim")] or free
    return wanted[turn // 2 * len(wanted) // ROUNDS] if wanted else None


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(each, id=each.id, marks=() if each.id == "pinned-both" else pytest.mark.full) for each in TABLE],
)
def test_freeing_a_pin_releases_what_was_foretold(scenario: Scenario) -> None:
    least = 0 if NO_FASTBINS in scenario.env["GLIBC_TUNABLES"] else FASTEST
    with Subject(scenario.fixture, *scenario.arguments, env=scenario.env, platform=scenario.platform) as subject:
        image, held, freed = Live(subject.pid, subject.program), set(subject.live_blocks), 0
        brk = subject.curbrk()
        for turn in range(ROUNDS):
            outcome, trim = SHELL.run(image, [PINS, "trim --ranges --json"])
            document, before = outcome.json(), trim.json()["totals"]["release_bytes"]
            assert document["complete"], document["problems"]
            pin = choose(document["pins"], held, least, turn)
            if pin is None:
                break
            held.remove(int(pin["user_address"], 16))
            system = system_bytes(subject)
            by_free = watched(subject, f"freeat {pin['user_address']}", brk)
            system -= system_bytes(subject)
            by_trim = watched(subject, "trim", brk - by_free.brk)
            brk -= by_free.brk + by_trim.brk
            judge(pin, document, by_free, by_trim, system, before)
            freed += 1
        assert freed or scenario.fixture in ("full_heap", "fastbins")
        assert subject.send("check") == "intact"
        assert subject.quit() == 0


def judge(
    pin: dict[str, Any], document: dict[str, Any], by_free: Happened, by_trim: Happened, system: int, before: int
) -> None:
    pending = sum(each["bytes"] for each in document["pending"] if each["arena"] == pin["arena"])
    trimmed = max(by_trim.brk, 0) + sum(size for _, size in by_trim.madvised)
    if pin["by"] == "free":
        # system_mem falls by just what free() releases
        assert pin["releases_bytes"] == system - sum(step[2] for step in pin["already"])
        assert [[how, where] for how, where, _ in pin["ranges"] if how != "brk"] == [
            [how, where] for how, where, _ in by_free.steps
        ]
        assert [step for step in pin["ranges"] if step[0] == "madvise"] == [
            step for step in by_free.steps if step[0] == "madvise"
        ]
        assert len({size for _, size in by_free.unmapped}) < 2
        assert sum(step[2] for step in pin["ranges"] if step[0] == "brk") == by_free.brk
    else:
        assert pin["releases_bytes"] == system + trimmed - before - (pending if system else 0)
        assert system in (0, pending) or pin["reason"] == "top"


def inside(parts: dict[tuple[int, int], int], steps: list[list[Any]]) -> int:
    """The sum over the mappings that these ranges reach into, and the one right below."""
    return sum(
        size
        for (start, end), size in parts.items()
        if any(start < int(low, 16) + length and int(low, 16) <= end for _, low, length in steps)
    )


@pytest.mark.parametrize("name", ["pinned-main", "random-3-no-pad", *in_full("pinned-thread", "many_heaps")])
def test_rss_falls_by_what_it_says(name: str) -> None:
    one = next(each for each in AT_HOME if each.name == name)
    with Subject(one.fixture, *one.arguments, env=one.env) as subject:
        held = subject.live_blocks
        (outcome,) = SHELL.run(Live(subject.pid, subject.program), [PINS])
        mine = [pin for pin in outcome.json()["pins"] if int(pin["user_address"], 16) in held]
        pin = next(pin for pin in mine if pin["by"] == "free")
        before = subject.smaps("Anonymous")
        subject.send(f"freeat {pin['user_address']}")
        fall = inside(before, pin["ranges"]) - inside(subject.smaps("Anonymous"), pin["ranges"])
        assert 0 < pin["resident_bytes"] == fall <= pin["releases_bytes"]


@pytest.mark.parametrize("seed", ["1", *in_full("2", "5", "6")])
def test_several_together(seed: str, gdb: Gdb) -> None:
    """The last blocks below a top, freed from the lowest on."""
    one = uncached("together", f"random {seed}", tunables=NO_FASTBINS)
    with Subject(one.fixture, *one.arguments, env=one.env) as subject:
        outcome, heaps = SHELL.run(Live(subject.pid, subject.program), [PINS, "heaps --json"])
        held, done = sorted(subject.live_blocks), 0
        for run in outcome.json()["together"]:
            lowest = int(run["lowest"], 16)
            parts = [(int(each["address"], 16), int(each["end"], 16)) for each in heaps.json()["heaps"]]
            end = next(end for start, end in parts if start < lowest < end)
            mine = [user for user in held if lowest < user < end]
            if len(mine) != run["blocks"]:
                continue  # one of them is the thread's cache, or the C library's
            system = system_bytes(subject)
            for user in mine:
                assert subject.send(f"freeat {user:#x}") == f"freed {user:#x}"
            assert system - system_bytes(subject) == sum(step[2] for step in run["ranges"])
            done += 1
        if not done:
            pytest.skip("this seed leaves no several blocks at an end that keep more together than one by one")
        assert subject.quit() == 0


NAMED = ("pinned-main", "pinned-thread")


@seen(only=NAMED)
def test_the_block_in_the_way_is_named(sight: Sight) -> None:
    """By every door, of every image: it is the fixture's own "pin", and the list's first."""
    first = sight.json(RANGES)["pins"][0]
    name = "pin" if sight.view.scenario.name == "pinned-main" else "thread_pin"
    assert first["user_address"] == sight.truth["blocks"][name]
    assert (first["reason"], first["by"]) == ("top", "free")
    usable = sight.live_blocks[int(first["user_address"], 16)]
    assert first["bytes"] == usable + sight.view.scenario.platform.pointer_bytes
    freed = sight.truth["notes"]["freed_bytes" if name == "pin" else "thread_freed_bytes"]
    assert 0.9 * freed < first["releases_bytes"] < 1.1 * freed


def without_residency(document: dict[str, Any]) -> list[Any]:
    rows = [*document["pins"], *document["together"], document["one_per_arena"]]
    return [*({**row, "resident_bytes": None} for row in rows), document["left_out"], document["pending"]]


@seen(only=WITH_PINS)
def test_every_image_names_the_same(sight: Sight, album: Album) -> None:
    live = album.alive(sight).json(RANGES)
    document = sight.json(RANGES)
    assert document["complete"], document["problems"]
    assert without_residency(document) == without_residency(live)
    resident = [pin["resident_bytes"] for pin in document["pins"]]
    assert resident == [None if sight.view.image == "gcore" else pin["resident_bytes"] for pin in live["pins"]]
