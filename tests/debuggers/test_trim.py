"""heap trim: what it foretells, against the calls that malloc_trim(0) then makes, and what the kernel takes back."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Sequence

import pytest
from album import Album, Sight
from doors import Gdb, Live
from looks import needs
from platforms import ELSEWHERE, HOST
from scenarios import BY_ID, Scenario, scenario, seen
from subjects import Subject

from arenascope.present.shared_text.lines_and_tables import NO_HEAP

SECONDS = 120


class Strace:
    """`with Strace(pid, folder) as trace`: afterwards, what every thread called."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid = pid
        self.output = folder / "strace.txt"

    def __enter__(self) -> Strace:
        needs("strace")
        self._process = subprocess.Popen(
            [
                "strace",
                "-f",
                "-p",
                str(self.pid),
                "-e",
                "trace=madvise,brk,munmap,mmap,mremap",
                "-e",
                "signal=none",
                "-o",
                str(self.output),
            ],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        watchdog = threading.Timer(SECONDS, self._process.kill)
        watchdog.start()
        line = self._process.stderr.readline()
        watchdog.cancel()
        assert "attached" in line, f"strace said {line!r}"
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.send_signal(signal.SIGINT)  # detaches
        self._process.wait(SECONDS)
        self._process.stderr.close()
        self.calls = self.output.read_text().splitlines()

    @property
    def madvised(self) -> list[tuple[int, int]]:
        """Sorted (address, bytes) of each madvise(MADV_DONTNEED), whatever came of it."""
        # a call that strace saw between two of another thread is written in two lines
        found = self._find(r"madvise\((0x[0-9a-f]+), (\d+), MADV_DONTNEED(?:\)| <unfinished)")
        return sorted((int(address, 16), int(size)) for address, size in found)

    @property
    def refused(self) -> list[tuple[int, int]]:
        """Those of them that failed."""
        found = self._find(r"madvise\((0x[0-9a-f]+), (\d+), MADV_DONTNEED\) += -1")
        return sorted((int(address, 16), int(size)) for address, size in found)

    @property
    def breaks(self) -> list[int]:
        """Where brk() put the break, call by call."""
        return [int(result, 16) for result in self._find(r"brk(?:\(.*| resumed>)\) += (0x[0-9a-f]+)")]

    @property
    def unmapped(self) -> list[tuple[int, int]]:
        """(address, bytes) of each munmap, in order."""
        found = self._find(r"munmap\((0x[0-9a-f]+), (\d+)(?:\)| <unfinished)")
        return [(int(address, 16), int(size)) for address, size in found]

    @property
    def others(self) -> list[str]:
        """Calls that malloc_trim never makes."""
        return [line for line in self.calls if re.search(r"\b(munmap|mmap|mremap)\(", line)]

    def _find(self, pattern: str) -> list[Any]:
        return [found for line in self.calls for found in re.findall(pattern, line)]


PAGE = 4096
OWN_PAGES = 16 * PAGE
TRIM = "trim --ranges --json"

# malloc_trim runs in these; those that the table of scenarios has take their arguments from there
HERE = (
    "hoard",
    "workers-30MB",
    "workers-30MB-ended",
    "workers-100MB",
    "pinned-main",
    "pinned-thread",
    "ladder-ascending",
    "ladder-shuffled",
    "arenas60",
    "many_heaps",
    "many_heaps-spread",
    "bins",
    "bins-static",
    "bins-static-pie",
    "full_heap",
    "full_heap-retired",
    "full_heap-retired-64",
    "fastbins",
    "tcache",
    "mmapped",
    "foreign_sbrk",
    "foreign_sbrk-fake",
    "foreign_sbrk-last",
    "blocked_brk",
    "blocked_brk-apart",
    "blocked_brk-unblock",
    "dlmopen",
    "random-1",
    "random-2",
    "random-3",
    "asked-by-variables",
    "asked-by-tunables",
)
IN_SHORT = ("hoard", "many_heaps-spread", "tcache", "blocked_brk", "big", "tiny_top-page-and-a-bit", "locked")
"""The scenarios that `make test` trims; `make test-all` has each of TABLE."""
TABLE = (
    *(BY_ID[name] for name in HERE),
    *(each for each in BY_ID.values() if each.platform != HOST),
    scenario("pinned-both", "pinned both 40"),
    scenario("random-4-short", "random 4 900"),
    scenario("big", "big 60 7"),
    scenario("tiny_top", "tiny_top"),  # MINSIZE: the break moves up
    scenario("tiny_top-48", "tiny_top 48"),
    scenario("tiny_top-page", "tiny_top 4112"),
    scenario("tiny_top-page-and-a-bit", "tiny_top 4144"),
    *(
        replace(scenario(f"tiny_top{more}", f"tiny_top {size}"), platform=platform)
        for platform in ELSEWHERE
        for more, size in (("", ""), ("-page-and-a-bit", "4144"))
    ),
    scenario("locked", "locked"),
    scenario("thp", "pinned both 40", env={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}),
    scenario("thp-ladder", "ladder 200 shuffled 20", env={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}),
)


# also looked at in cores: one for each shape that a core might tell otherwise
IMAGES_OF = (
    "hoard",
    "ladder-shuffled",
    "many_heaps-spread",
    "bins-static-pie",
    "bins-static",
    "fastbins",
    "foreign_sbrk-last",
    "blocked_brk-unblock",
    "dlmopen",
    "random-1",
    "bins",
    "tcache",
    "blocked_brk",
)


@dataclass(frozen=True)
class Foretold:
    """What arenascope said before, in the terms of the kernel."""

    document: dict[str, Any]
    curbrk: int
    """Where the break was."""

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return sorted(
            (int(address, 16), size) for arena in self.document["arenas"] for address, size in arena["madvise_ranges"]
        )

    @property
    def places(self) -> list[tuple[int, int]]:
        """(address, bytes) of all that gives something back, and of the end of the break in any case."""
        last = max(self.brk_bytes, 0) + PAGE
        return [*self.ranges, (self.curbrk - last, last)]

    @property
    def brk_bytes(self) -> int:
        return sum(arena["brk_bytes"] for arena in self.document["arenas"])


def foretell(gdb: Gdb, subject: Subject) -> Foretold:
    image = gdb.look_at(Live(subject.pid, subject.program))
    (outcome,) = gdb.drive(image, [{"do": f"heap {TRIM}"}])
    for kept in (each["kept"] for each in outcome.json()["arenas"]):
        assert kept["top_resident_bytes"] <= kept["top_bytes"]
    return Foretold(outcome.json(), subject.curbrk())


def reasons(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The figures of why something stays, by its id."""
    return {each["id"]: each["figures"] for each in document["reasons"]}


def inside(parts: dict[tuple[int, int], int], places: Sequence[tuple[int, int]]) -> int:
    """The sum over the mappings that these ranges reach into."""
    return sum(
        size
        for (start, end), size in parts.items()
        if any(start < low + length and low < end for low, length in places)
    )


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(each, id=each.id, marks=() if each.id in IN_SHORT else pytest.mark.full) for each in TABLE],
)
def test_malloc_trim_does_what_was_foretold(scenario: Scenario, gdb: Gdb) -> None:
    with Subject(scenario.fixture, *scenario.arguments, env=scenario.env, platform=scenario.platform) as subject:
        foretold = foretell(gdb, subject)
        before, parts_before = subject.rollup("Anonymous"), subject.smaps("Anonymous")
        with Strace(subject.pid, subject.folder) as trace:
            reply = subject.send("trim")
        after, parts_after = subject.rollup("Anonymous"), subject.smaps("Anonymous")

        assert foretold.document["complete"], foretold.document["problems"]
        assert trace.madvised == foretold.ranges
        assert foretold.brk_bytes == (foretold.curbrk - trace.breaks[-1] if trace.breaks else 0)
        assert trace.others == []
        assert reply == f"trimmed {int(bool(foretold.ranges or foretold.brk_bytes))}"

        places = foretold.places
        fall = inside(parts_before, places) - inside(parts_after, places)
        assert fall == foretold.document["totals"]["resident_bytes"]
        # the rest of the process has used some of its stack and stdio meanwhile; what is swapped counts nowhere here
        assert fall - OWN_PAGES <= before - after <= fall

        assert subject.send("check") == "intact"
        assert subject.send("tick") == "ticked"
        assert subject.quit() == 0


def without_residency(document: dict[str, Any]) -> list[dict[str, Any]]:
    arenas = [
        {**arena, "kept": {**arena["kept"], "top_resident_bytes": None}, "resident_bytes": None}
        for arena in document["arenas"]
    ]
    totals = {**document["totals"], "resident_bytes": None, "tops_resident_bytes": None}
    return [*arenas, totals]


@seen(only=IMAGES_OF)
def test_every_image_gives_the_same_ranges(sight: Sight, album: Album) -> None:
    document = sight.json("trim --ranges")
    assert document["arenas"]
    assert without_residency(document) == without_residency(album.alive(sight).json("trim --ranges"))
    assert document["applied"] is None


@seen(only=IMAGES_OF, images=("kernel",))
def test_a_kernel_core_knows_what_is_resident(sight: Sight, album: Album) -> None:
    document, live = sight.json("trim --ranges"), album.alive(sight).json("trim --ranges")
    assert document["arenas"] == live["arenas"]
    assert document["totals"] == live["totals"]


@seen(only=IMAGES_OF, images=("gcore",))
def test_gdbs_core_does_not_know_what_is_resident(sight: Sight) -> None:
    document = sight.json("trim --ranges")
    assert [document["totals"][key] for key in ("resident_bytes", "tops_resident_bytes")] == [None, None]
    for arena in document["arenas"]:
        assert [arena["resident_bytes"], arena["kept"]["top_resident_bytes"]] == [None, None]


@seen(only=("hoard",), where=lambda view: view.symbols)
def test_a_lower_bound_is_called_one(sight: Sight) -> None:
    first = sight.text("trim").splitlines()[0]
    assert bool(re.search("(at least|all) .*resident", first)) is (sight.view.image == "gcore"), first


@seen(only=IMAGES_OF)
def test_arenas_tells_the_same_in_sum(sight: Sight) -> None:
    """`heap arenas` shows what a trim would bring, and `heap trim` how."""
    found = [(arena["trim_bytes"], arena["trim_resident_bytes"]) for arena in sight.json("arenas")["arenas"]]
    arenas = sight.json("trim --ranges")["arenas"]
    assert found == [(arena["madvise_bytes"] + arena["brk_bytes"], arena["resident_bytes"]) for arena in arenas]
    for arena in arenas:
        assert arena["madvise_bytes"] == sum(size for _, size in arena["madvise_ranges"])
        assert arena["madvise_ranges"] == sorted(arena["madvise_ranges"], key=lambda each: int(each[0], 16))


def test_a_top_of_minsize_makes_the_heap_grow(gdb: Gdb) -> None:
    """systrim's `area <= pad` is unsigned: with MINSIZE bytes of top it asks for a page more."""
    with Subject("tiny_top") as subject:
        foretold = foretell(gdb, subject)
        assert subject.truth["notes"]["top_bytes"] == 32
        assert foretold.brk_bytes == -PAGE
        assert foretold.document["totals"] == {**foretold.document["totals"], "release_bytes": 0, "resident_bytes": 0}
        assert reasons(foretold.document)["break-grows"] == {"bytes": PAGE}
        assert subject.send("trim") == "trimmed 1"
        # and once it has grown, there is nothing to do, and nothing damaged: its maximum is below what it has
        assert foretell(gdb, subject).brk_bytes == 0
        (check,) = gdb.run(Live(subject.pid, subject.program), ["check --json"])
        assert check.json()["breaches"] == []


def test_locked_memory_stays_and_is_named(gdb: Gdb) -> None:
    with Subject("locked") as subject:
        (document,) = gdb.run(Live(subject.pid, subject.program), ["trim --json"])
        for arena in document.json()["arenas"]:
            assert 0 < arena["resident_bytes"] < arena["madvise_bytes"] + arena["brk_bytes"]
        locks = [int(address, 16) for address in subject.truth["notes"].values() if str(address).startswith("0x")]
        with Strace(subject.pid, subject.folder) as trace:
            subject.send("trim")
        assert len(trace.refused) == 4
    kept = sum(at + size - lock for at, size in trace.refused for lock in locks if at <= lock < at + size)
    assert reasons(document.json())["pages-locked"] == {"bytes": kept}


def test_a_process_that_never_called_malloc(gdb: Gdb) -> None:
    with Subject("untouched") as subject:
        document, text = gdb.run(Live(subject.pid, subject.program), ["trim --ranges --json", "trim"])
        assert document.json()["arenas"] == []
        assert text.text == f"{NO_HEAP}\n"


def test_one_arena_alone(gdb: Gdb) -> None:
    with Subject("hoard", "3", "12") as subject:
        everything, second, none = gdb.run(
            Live(subject.pid, subject.program),
            ["trim --ranges --json", "trim --ranges --json --arena 2", "trim --arena 9"],
        )
        assert second.json()["arenas"] == everything.json()["arenas"][2:3]
        assert re.findall(r"\d+", none.error) == ["9", "0", "3"]
