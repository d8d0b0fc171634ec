"""heap owner and heap refs: a program that holds blocks in every way tells which way each is held in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional

import pytest
from doors import DOORS, NEWEST, Live
from looks import opened
from marks import full_after, in_full
from partial import beside_each_other
from shell_door import ask, ask_whole, look
from subjects import Started, Subject, compiled, may_look_into_shared_memory

pytestmark = pytest.mark.xdist_group("owners")

OF_THE_KERNEL = ("epoll", "timer")
"""Its own pointers are no part of a core that we did not write."""
ENCODINGS = {"high tag": "tagged", "shifted": "shifted", "unaligned": "unaligned", "relative": "relative"}
INSIDE = ("inside, linked", "past the end", "inside", "low tag")
"""Ways that only a pointer to the block's inside leads: perhaps it is none."""

BY_GCORE = (
    "bss",
    "tls of main",
    "second base",
    "library",
    "stack of a thread",
    "vector register",
    "mapping",
    "file, protected",
)


class Way(NamedTuple):
    """A line of owners.txt."""

    way: str
    address: str
    kind: str
    name: str
    tid: int
    steps: int


class Told(NamedTuple):
    path: Path
    ways: list[Way]


def ways_of(subject: Subject) -> list[Way]:
    rows = [line.split("|") for line in (subject.folder / "truth" / "owners.txt").read_text().splitlines()]
    ways = [Way(way, address, kind, name, int(tid), int(steps)) for way, address, kind, name, tid, steps in rows]
    return [each for each in ways if may_look_into_shared_memory() or "unmapped" not in each.way]


def wrong(way: Way, path: Optional[list[dict[str, Any]]]) -> Optional[str]:
    """What is not as the program says."""
    if not path:
        return f"{way}: nobody"
    root = path[0]
    right = (
        way.kind in ("-", root["kind"])
        and (way.name == "-" or way.name in (root["name"] or ""))
        and root["tid"] in (None, way.tid)
        and len(path) == way.steps
        and path[-1]["encoding"] == ENCODINGS.get(way.way)
        and (path[-1]["strength"] == "possible") == (way.way in (*INSIDE, *ENCODINGS))
    )
    return None if right else f"{way}: {path}"


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    with Subject("owners", guard_regions=False) as held:
        yield held


@pytest.fixture(scope="module")
def images(subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Told]]:
    saved = tmp_path_factory.mktemp("owners") / "saved.core"
    assert look(subject.pid, f"save {saved}")[0] == 0
    paths = {"live": Path(str(subject.pid)), "saved": saved, "gcore": subject.gcore()}
    with Subject("owners", guard_regions=False) as another:  # which the dump ends
        kernel = Told(another.kernel_core(), ways_of(another))
        anew = saved.with_name("anew.core")
        assert look(kernel.path, f"save {anew}")[0] == 0
        others = {"kernel": kernel, "kernel, saved anew": kernel._replace(path=anew)}
        yield {**{name: Told(path, ways_of(subject)) for name, path in paths.items()}, **others}


@pytest.mark.parametrize("image", ["live", *in_full("saved", "gcore", "kernel", "kernel, saved anew")])
def test_who_holds_it(images: dict[str, Told], image: str) -> None:
    assert len(images[image].ways) >= 30
    known = [each for each in images[image].ways if image in ("live", "saved") or each.way not in OF_THE_KERNEL]
    if image == "gcore":
        # what GDB writes has no constants of files, and all that is reserved
        known = [each for each in known if each.way in BY_GCORE]
    said = beside_each_other(images[image].path, [f"owner {each.address}" for each in known])
    assert all(each["complete"] for each in said)
    answers = dict(zip(known, said))
    assert [said for said in map(wrong, answers, (each["path"] for each in answers.values())) if said] == []
    old = {way.way: each["held_by"]["name"] for way, each in answers.items() if way.kind == "register"}
    assert {way for way, name in old.items() if name} == {"vector register"} & {*old}


ALONE = ("tls", "stack", "register", "kernel", "mapping")
"""What a debugger alone tells of: the threads; and what it is in the way of: reading where nothing is mapped."""


@pytest.mark.parametrize("door", full_after(1, NEWEST[:2]))
def test_one_of_each_kind_in_a_debugger(subject: Subject, images: dict[str, Told], door: str) -> None:
    first = {each.kind: each for each in reversed(images["live"].ways) if each.kind in ALONE}
    assert len(first) >= len(ALONE) - 1
    told_in_a_debugger(subject, list(first.values()), door)


@pytest.mark.full
@pytest.mark.parametrize("door", full_after(1, NEWEST[:2]))
def test_in_a_debugger(subject: Subject, images: dict[str, Told], door: str) -> None:
    told_in_a_debugger(subject, [each for each in images["live"].ways if each.kind in ALONE], door)


def told_in_a_debugger(subject: Subject, ways: list[Way], door: str) -> None:
    asked = [f"owner {each.address} --json" for each in ways]
    outcomes = opened(DOORS[door]).run(Live(subject.pid, subject.program), asked)
    assert [said for said in map(wrong, ways, (each.json()["path"] for each in outcomes)) if said] == []


@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
def test_the_member_that_points_there(door: str) -> None:
    """Of fixtures/quotes.cc."""
    with Subject("quotes", "10", "5", guard_regions=False) as held:
        request = int(ask(held.pid, "leaks", status=(0, 1))["leaks"][0]["samples"][0], 16)
        with open(f"/proc/{held.pid}/mem", "rb") as memory:
            memory.seek(request + 16)
            body = int.from_bytes(memory.read(8), sys.byteorder)
        json_outcome, text = opened(DOORS[door]).run(
            Live(held.pid, held.program), [f"refs {body} --json", f"refs {body}"]
        )
    (ref,) = json_outcome.json()["refs"]
    assert (int(ref["block"], 16), ref["offset"], ref["type"]) == (request, 16, "Request")
    assert ref["field"] == "body_"
    assert "Request.body_" in text.text


@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
def test_words_that_hold_nothing(door: str) -> None:
    """In a process: a core's are in tests/images/test_stale_words.py."""
    with Subject("stale", guard_regions=False) as held:
        rows = [each.split("\t") for each in (held.folder / "truth" / "stale.txt").read_text().splitlines()]
        asked = [f"owner {address} --json" for address, _, _ in rows]
        outcomes = opened(DOORS[door]).run(Live(held.pid, held.program), asked)
    told = [each.json()["held_by"]["stale"] or "-" for each in outcomes]
    assert told == [why for _, why, _ in rows]


NESTED = """
#include <cstdio>
#include <unistd.h>
struct Body { size_t length; char *text; };
struct Named { virtual ~Named() {} char *label = nullptr; };
struct Item : Named { long number = 7; Body body; };
Item *item;
int main() {
    item = new Item;
    item->label = new char[100];
    item->body.text = new char[200];
    printf("%p %p\\n", (void *)item->label, (void *)item->body.text);
    fflush(stdout);
    pause();
}
"""


@pytest.mark.full
@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
def test_the_member_of_a_member_and_of_a_base(door: str, tmp_path: Path) -> None:
    program = compiled(NESTED, tmp_path, "-g", "-O0", compiler="g++")
    with Started(program) as process:
        looks = [f"refs {at} --json" for at in process.said.split()]
        outcomes = opened(DOORS[door]).run(Live(process.pid, program), looks)
    found = [[ref["field"] for ref in each.json()["refs"] if ref["kind"] == "block"] for each in outcomes]
    assert found == [["label"], ["body.text"]]


@pytest.mark.full
def test_every_pointer_to_a_block(images: dict[str, Told]) -> None:
    """The list's second node: the first leads there, nothing else does."""
    way = next(each for each in images["live"].ways if each.way == "list node")
    path = ask_whole(images["live"].path, f"owner {way.address}")["path"]
    (ref,) = ask_whole(images["live"].path, f"refs {path[2]['block']}")["refs"]
    assert (ref["kind"], ref["block"], ref["offset"], ref["into"]) == ("block", path[1]["block"], 0, 0)
    inner = hex(int(path[2]["block"], 16) + 9)
    assert ask_whole(images["live"].path, f"refs {inner}")["block"]["user_address"] == path[2]["block"]


def test_a_mapping_that_is_not_mallocs(images: dict[str, Told]) -> None:
    """The stack of a coroutine that waits: its context, a variable, has the pointers to it."""
    way = next(each for each in images["live"].ways if each.way == "coroutine")
    place = ask_whole(images["live"].path, f"owner {way.address}")["path"][0]["address"]
    found = ask_whole(images["live"].path, f"refs {place}")
    assert found["block"]["state"] == "mapping"
    assert any("mapped_context" in (each["name"] or "") for each in found["refs"])


def test_nothing_is_mapped_there(images: dict[str, Told]) -> None:
    for command in ("refs", "owner"):
        found = ask(images["live"].path, f"{command} 0x1000")
        assert (found["block"], found["problem_records"][0]["id"]) == (None, "not-mapped")
