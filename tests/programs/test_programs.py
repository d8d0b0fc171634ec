"""Real programs, caught under load: where their memory is, checked against what the kernel says of each mapping."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from doors import DOORS, GDB, NEWEST, Live, Outcome
from looks import give_up
from running import Running
from waiting import standing, states

PAGE = 4096
MALLOC = ("live", "mmapped", "tcache", "returnable", "thread_tops", "main_top", "scraps")
REPORT = "report --json"
COMMANDS = (
    REPORT,
    "report",
    "report --full",
    "arenas --json",
    "heaps --json",
    "mmapped --json",
    "info",
    "trim --json",
    "check --json",
    "report --json --stop signal",
)
MOMENTS = 8
"""Where a call of malloc was in progress, half a list may have changed: another moment is tried."""


@dataclass(frozen=True)
class Mapping:
    start: int
    end: int
    path: str
    rss: int


def mappings(pid: int) -> list[Mapping]:
    found: list[Mapping] = []
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \d+ *(.*)", line)
        if head:
            found.append(Mapping(int(head[1], 16), int(head[2], 16), head[3], 0))
        elif line.startswith("Rss:"):
            last = found.pop()
            found.append(Mapping(last.start, last.end, last.path, int(line.split()[1]) * 1024))
    return found


def is_file(mapping: Mapping) -> bool:
    return mapping.path.startswith("/") and not mapping.path.startswith(("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"))


def has_run(pid: int) -> int:
    """Nanoseconds, of all its threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def await_run(running: Running, seen: int) -> None:
    """Until it has run on; it may have begun to wait again before `seen` was read, and have nothing left to do."""
    running.await_that(lambda: has_run(running.pid) > seen or set(states(running.pid)) == {"S"}, "it stands still")


def by_part(document: dict[str, Any]) -> dict[str, int]:
    return {each["part"]: each["bytes"] for each in document["parts"]}


class Moment:
    """A program that stands still, and what each door says of it then."""

    def __init__(self, running: Running, subject: Live) -> None:
        with standing(running.pid):
            self.before = mappings(running.pid)
            self.outcomes = dict(zip(COMMANDS, DOORS["shell"].run(subject, COMMANDS)))
            self.after = mappings(running.pid)
            self.report = self.json(REPORT)
            if self.report["complete"]:
                self.scanned = DOORS["shell"].run(subject, [REPORT], symbols=False)[0].json()
                self.gdb = GDB.run(subject, [REPORT])[0].json() if not GDB.available() else None

    def json(self, command: str) -> dict[str, Any]:
        return self.outcomes[command].json()

    def text(self, command: str) -> str:
        outcome: Outcome = self.outcomes[command]
        assert outcome.error is None, outcome.error
        return outcome.text


@pytest.fixture(scope="module")
def subject(running: Running) -> Live:
    return Live(running.pid, Path(os.readlink(f"/proc/{running.pid}/exe")))


@pytest.fixture(scope="module")
def moments(running: Running, subject: Live) -> list[Moment]:
    """Until one in which no call was in progress; that one is the last."""
    found: list[Moment] = []
    while len(found) < MOMENTS and not (found and found[-1].report["complete"]):
        found.append(Moment(running, subject))
        # stopped again at once it would still be in the same call
        await_run(running, has_run(running.pid))
    return found


@pytest.fixture
def moment(moments: list[Moment]) -> Moment:
    assert moments[-1].report["complete"], [each.report["problems"] for each in moments]
    return moments[-1]


def test_the_parts_sum_to_rss(moments: list[Moment]) -> None:
    for each in moments:
        for document in (each.report, each.json("report --json --stop signal")):
            assert sum(by_part(document).values()) == document["rss_bytes"]
            assert all(size >= 0 for size in by_part(document).values())


def test_rss_is_what_smaps_says(moments: list[Moment]) -> None:
    """To a page for each mapping: a debugger's reading faults pages of files in."""
    for each in moments:
        low, high = (sum(mapping.rss for mapping in seen) for seen in (each.before, each.after))
        for document in (each.report, each.json("report --json --stop signal")):
            assert low - PAGE * len(each.before) <= document["rss_bytes"] <= high + PAGE * len(each.after)


def test_each_kind_of_mapping(moment: Moment) -> None:
    parts = by_part(moment.report)
    low, high = ([sum(each.rss for each in seen if is_file(each)), len(seen)] for seen in (moment.before, moment.after))
    assert low[0] - PAGE * low[1] <= parts["files"] <= high[0] + PAGE * high[1]
    assert parts["stacks"] >= sum(each.rss for each in moment.before if each.path == "[stack]")
    anonymous = sum(each.rss for each in moment.after if not is_file(each))
    assert sum(parts.get(name, 0) for name in MALLOC) + parts.get("other", 0) <= anonymous


def test_the_largest_of_others_are_mappings(moment: Moment) -> None:
    for each in moment.report["other_mappings"]:
        # in a mapping that malloc has a part of, it is the rest
        address = int(each["address"], 16)
        (mapping,) = [one for one in moment.before if one.start <= address < one.end]
        assert not is_file(mapping)
        # what PostgreSQL's processes share is mapped page by page, by a look at it as well
        assert each["bytes"] <= mapping.rss + (64 * PAGE if mapping.path.startswith("/dev/zero") else 0)
    parts = by_part(moment.report)
    whole = parts.get("other", 0) + parts.get("shared", 0)
    assert sum(each["bytes"] for each in moment.report["other_mappings"]) <= whole


def test_other_allocators_are_named(moment: Moment, program: Any) -> None:
    """Each with its share where its mappings are known, and never with more than there is."""
    assert tuple(each["name"] for each in moment.report["allocators"]) == program.allocators
    other = by_part(moment.report).get("other", 0)
    for each in moment.report["allocators"]:
        if each["name"] == "PostgreSQL":
            # one mapping, which all its processes share
            shared = [mapping.rss for mapping in moment.after if mapping.path.startswith("/dev/zero")]
            assert shared == [pytest.approx(each["resident_bytes"], abs=64 * PAGE)]
        else:
            assert each["resident_bytes"] is None
            assert 0 <= each["at_most_bytes"] <= other


def test_the_report_says_only_what_its_row_allows(moment: Moment, program: Any) -> None:
    said = program.said
    assert moment.report["judgement"]["id"] in said.judgements
    ids = [each["id"] for key in ("causes", "advice") for each in moment.report[key]]
    assert not set(said.must) - set(ids), ids
    assert not set(said.never) & set(ids), ids


def test_what_concerns_most_comes_first(moment: Moment, program: Any) -> None:
    helps = [each for each in moment.report["advice"] if each["effect_bytes"]]
    effects = [each["effect_bytes"] for each in helps]
    # what only sizes of free pieces speak for comes after what is sure
    sure = [each["effect_bytes"] - each["figures"].get("large_free_bytes", 0) for each in helps]
    assert sure == sorted(sure, reverse=True)
    ids = [each["id"] for each in moment.report["advice"]]
    if "ask-who-mapped" in ids and by_part(moment.report).get("other", 0) > max(effects, default=0):
        assert ids[0] == "ask-who-mapped"


def test_nothing_is_amiss(moments: list[Moment], moment: Moment) -> None:
    assert moment.report["problems"] == []
    for each in moments:
        damage = [breach for breach in each.json("check --json")["breaches"] if not breach["transient"]]
        assert not damage, damage


def test_every_heap_is_mapped(moment: Moment, running: Running, program: Any) -> None:
    heaps = moment.json("heaps --json")["heaps"]
    for heap in heaps:
        start, end = int(heap["address"], 16), int(heap["end"], 16)
        # a fork splits the mapping of the break
        inside = sum(max(0, min(end, each.end) - max(start, each.start)) for each in moment.before)
        assert inside == end - start, heap
    # the arenas of threads begin at 64 MiB, and malloc alone asks for what lies so
    assert len({int(heap["address"], 16) for heap in heaps if heap["arena"]}) == len(
        [heap for heap in heaps if heap["arena"]]
    )
    assert len(list(Path(f"/proc/{running.pid}/task").iterdir())) >= program.threads


def test_every_mmapped_block_is_found(moment: Moment) -> None:
    """glibc counts them in mp_; they are found among all that the program has mapped."""
    document = moment.json("mmapped --json")
    assert document["match"], (document["expected"], len(document["blocks"]))


def test_malloc_info_agrees_with_arenas(moment: Moment) -> None:
    document = ElementTree.fromstring(moment.text("info"))
    arenas = moment.json("arenas --json")
    numbers = [int(heap.get("nr", "-1")) for heap in document.findall("heap")]
    assert numbers == [each["index"] for each in arenas["arenas"]]
    for heap, each in zip(document.findall("heap"), arenas["arenas"]):
        # malloc_info leaves PREV_INUSE in the sizes of chunks in bins
        flags = each["bins"]["chunks"]
        assert totals(heap) == {
            "fast": (each["fast"]["chunks"], each["fast"]["bytes"]),
            "rest": (each["bins"]["chunks"] + 1, each["bins"]["bytes"] + each["top_bytes"] + flags),
        }
        assert int(heap.find("system[@type='current']").get("size")) == each["system_bytes"]
    whole = totals(document)
    assert whole["mmap"] == (arenas["mmapped"]["chunks"], arenas["mmapped"]["bytes"])
    assert whole["fast"][1] == arenas["totals"]["fast"]["bytes"]
    assert whole["rest"] == tuple(map(sum, zip(*(totals(heap)["rest"] for heap in document.findall("heap")))))


def totals(element: ElementTree.Element) -> dict[str, tuple[int, int]]:
    return {
        each.get("type", ""): (int(each.get("count", "-1")), int(each.get("size", "-1")))
        for each in element.findall("total")
    }


def test_what_trim_says_is_what_report_says(moment: Moment) -> None:
    parts, trim = by_part(moment.report), moment.json("trim --json")["totals"]
    assert parts.get("returnable", 0) == trim["resident_bytes"]
    assert trim["tops_resident_bytes"] <= parts.get("thread_tops", 0)


@pytest.mark.parametrize("door", NEWEST)
def test_while_it_runs(door: str, running: Running, subject: Live) -> None:
    """Nobody holds it for the test: what is read is one moment all the same, and it goes on afterwards."""
    if DOORS[door].available():
        give_up(DOORS[door].available() or "")
    document = DOORS[door].run(subject, [REPORT])[0].json()
    assert sum(by_part(document).values()) == document["rss_bytes"]
    seen, rounds = has_run(running.pid), sum(running.rounds)
    await_run(running, seen)
    if running.clients:
        running.await_that(lambda: sum(running.rounds) > rounds, "it does not answer")
