"""heap map: its cells against the figures of glibc, the kernel and the program itself, and its page in a browser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

import pytest
from browser import opened
from doors import DOORS, NEWEST, Core, Image, Live, Outcome
from looks import HERE, give_up
from scenarios import BY_ID, Scenario
from shell_door import SHELL
from subjects import Subject

SCENES = ("hoard", "many_heaps-spread", "foreign_sbrk", "random-1")
FEW = SCENES[2:3]
"""For `make test`: an arena of several heaps, and a main heap in two parts."""
OPENED = NEWEST
COMMANDS = ("map --cells 4096 --json", "chunks --summary --json", "trim --json", "map")
PARTS = ("used", "cached", "free", "top", "bookkeeping", "foreign", "damaged")
PLAY = HERE / "play_map.js"
LAYERS = (*PARTS, "resident", "releasable", "releasable_resident", "tops")
STATES = {"used": ("used",), "cached": ("tcache", "fast"), "free": ("free",), "top": ("top",)}


@dataclass
class Drawn:
    """A scenario, and what each door said of it, live and in the kernel's core."""

    scenario: Scenario
    mallinfo: dict[str, int]
    live_blocks: dict[int, int]
    smaps: dict[tuple[int, int], int]
    outcomes: dict[tuple[str, str], list[Outcome]]

    def each(self) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
        """The documents of map, chunks and trim."""
        for outcomes in self.outcomes.values():
            drawn, chunks, trim = (outcome.json() for outcome in outcomes[:3])
            yield drawn, chunks, trim


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.xdist_group(f"map {name}"), *([] if name in FEW else [pytest.mark.full])])
        for name in SCENES
    ],
)
def drawn(request: pytest.FixtureRequest) -> Drawn:
    scenario = BY_ID[request.param]
    doors = {name: DOORS[name] for name in OPENED}
    for door in doors.values():
        if door.available():
            give_up(door.available() or "")
    with Subject(scenario.fixture, *scenario.arguments, env=scenario.env) as subject:
        truth, smaps, outcomes = subject.truth, subject.smaps(), {}
        found = Drawn(scenario, truth["mallinfo"], subject.live_blocks, smaps, outcomes)
        images: dict[str, Image] = {"live": Live(subject.pid, subject.program)}
        for kind in ("live", "core"):
            if kind == "core":
                images[kind] = Core(subject.kernel_core(), subject.program)
            for name, door in doors.items():
                outcomes[name, kind] = door.run(images[kind], COMMANDS)
    return found


def cells_of(document: dict[str, Any], layer: str) -> int:
    return sum(sum(heap[layer]) for heap in document["heaps"])


def test_cells_sum_to_what_glibc_says(drawn: Drawn) -> None:
    info = drawn.mallinfo
    for document, _, _ in drawn.each():
        assert (document["complete"], document["problems"]) == (True, [])
        sums = {part: cells_of(document, part) for part in PARTS}
        assert sum(sums.values()) == info["arena"]
        assert sums["free"] + sums["top"] == info["fordblks"] - info["fsmblks"]
        taken = sum(sums[part] for part in ("used", "cached", "bookkeeping", "foreign"))
        assert taken == info["uordblks"] + info["fsmblks"]
        assert sums["damaged"] == 0


def test_cells_sum_to_what_other_commands_say(drawn: Drawn) -> None:
    for document, chunks, trim in drawn.each():
        summary = chunks["summary"]
        for part, states in STATES.items():
            assert cells_of(document, part) == sum(summary[state]["bytes"] for state in states)
        assert cells_of(document, "bookkeeping") == summary["bookkeeping_bytes"]
        assert cells_of(document, "foreign") == summary["foreign_bytes"]
        assert cells_of(document, "releasable") == trim["totals"]["release_bytes"]
        assert cells_of(document, "releasable_resident") == trim["totals"]["resident_bytes"]
        assert cells_of(document, "tops") == trim["totals"]["tops_bytes"]
        sums = {f"{layer}_bytes": cells_of(document, layer) for layer in LAYERS}
        assert document["totals"] == {**sums, "splits": cells_of(document, "splits")}


def test_every_cell_has_the_blocks_that_the_program_holds(drawn: Drawn) -> None:
    header, word = 16, 8
    for document, _, _ in drawn.each():
        checked = 0
        for heap in document["heaps"]:
            start, end, cell = int(heap["address"], 16), int(heap["end"], 16), heap["cell_bytes"]
            held = [0] * len(heap["used"])
            for user, usable in drawn.live_blocks.items():
                low, high = user - header, user - header + usable + word
                if start <= low < end:
                    checked += 1
                    for at in range((low - start) // cell, (high - 1 - start) // cell + 1):
                        held[at] += min(high, start + (at + 1) * cell) - max(low, start + at * cell)
            assert all(ledger <= used for ledger, used in zip(held, heap["used"]))
            # what no ledger knows is glibc's own, and small: caches, stdio
            assert sum(heap["used"]) - sum(held) < 16384 + 2 * 4096
        assert checked


def test_resident_is_what_smaps_says(drawn: Drawn) -> None:
    """Where a mapping, as far as it is open, is a heap and nothing else."""
    for document, _, _ in drawn.each():
        checked = 0
        for heap in document["heaps"]:
            place = int(heap["address"], 16), int(heap["end"], 16)
            if place in drawn.smaps:
                assert sum(heap["resident"]) == drawn.smaps[place]
                checked += 1
        assert checked


def test_doors_and_images_draw_the_same(drawn: Drawn) -> None:
    documents = [document["heaps"] for document, _, _ in drawn.each()]
    assert all(document == documents[0] for document in documents)
    texts = {(key, outcomes[3].text) for key, outcomes in drawn.outcomes.items()}
    assert len({text for (door, _), text in texts if door == "shell"}) == 1
    for _, text in texts:
        assert "incomplete:" not in text
        assert "\x1b" not in text


# the page


@pytest.fixture
def random_heap() -> Iterator[Subject]:
    scenario = BY_ID["random-1"]
    with Subject(scenario.fixture, *scenario.arguments) as subject:
        yield subject


def written(subject: Subject, folder: Path) -> tuple[Path, dict[str, Any]]:
    page = folder / "map.html"
    (outcome,) = SHELL.run(Live(subject.pid, subject.program), [f"map --json --html {page}"])
    return page, outcome.json()


@pytest.mark.full
def test_the_page_in_a_browser(random_heap: Subject, tmp_path: Path) -> None:
    """Its script unpacks the data: what it adds up is what JSON says."""
    page, document = written(random_heap, tmp_path)
    assert document["html"] == {"file": str(page), "bytes": page.stat().st_size}
    dom = opened(page, tmp_path)
    assert dom.problems == []
    assert dom.ready == str(len(document["heaps"]))
    assert dom.canvases == len(document["heaps"])
    known = {layer: document["totals"][f"{layer}_bytes"] for layer in LAYERS}
    hidden = {layer for layer in ("foreign", "damaged") if not known[layer]}
    assert dom.totals == {
        **{layer: size for layer, size in known.items() if layer not in hidden},
        "all": random_heap.truth["mallinfo"]["arena"],
        **({"splits": document["totals"]["splits"]} if document["totals"]["splits"] else {}),
    }


def test_the_page_asks_nobody(random_heap: Subject, tmp_path: Path) -> None:
    text = written(random_heap, tmp_path)[0].read_text()
    assert "default-src 'none'" in text
    assert not re.findall(r"https?:|//[a-z]+\.|\bsrc=|\bhref=|url\(|@import", text)
    assert not re.findall(r"\bfetch\b|XMLHttp|WebSocket|sendBeacon|\bimport\(", text)
    assert "innerHTML" not in text


@pytest.mark.full
def test_the_page_zooms_and_tells(random_heap: Subject, tmp_path: Path) -> None:
    page, document = written(random_heap, tmp_path)
    told = opened(page, tmp_path, PLAY.read_text()).texts
    whole = int(told["at-first"])
    # a wheel over a strip that nobody chose scrolls the page
    assert told["scrolls-on"] == told["at-first"] == told["by-zero"]
    assert 16 <= int(told["by-wheel"]) < whole / 20
    assert told["dragged"] == "10"
    assert abs(int(told["by-plus"]) - whole / 2) <= 1
    assert told["by-arrow"] == "true"
    heap = document["heaps"][1]
    low, high = (int(each, 16) for each in told["tip-place"].split(" – "))
    assert int(heap["address"], 16) <= low < high <= int(heap["end"], 16)
    shown = dict(re.findall(r"(in use|cached|free|top|bookkeeping)([\d,]+) B", told["tip-bytes"]))
    assert sum(int(each.replace(",", "")) for each in shown.values()) == high - low
    assert told["without-layers"] == "other"
    assert [int(each) for each in told["order"].split(",")] == sorted(
        (int(heap["end"], 16) - int(heap["address"], 16) for heap in document["heaps"]), reverse=True
    )
