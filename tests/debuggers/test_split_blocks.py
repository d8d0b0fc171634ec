"""Blocks served by mmap in several mappings, or with a part gone: told in full, or it is said that not all are."""

from __future__ import annotations

from typing import Any, Iterator

import pytest
from documents import ask_door
from doors import DOORS, NEWEST, Core, Image, Live
from marks import full_after, in_full
from subjects import PAGE, Subject
from test_mappings import check_parts

pytestmark = pytest.mark.xdist_group("split blocks")

MIB = 1 << 20
BLOCK = MIB + PAGE
"""With malloc's header."""
PART = 64 << 10
WAYS = ("huge", "dontdump", "locked", "readonly", "none", "head", "file", "shared", "hole", "tail")
TAKEN = {"hole": PART, "tail": PART, "shared": PART, "file": PAGE}
"""What is no longer the block's."""
TELL = ("types", "leaks", "owners", "refs {0:#x}", "owner {0:#x}", "mappings", "report", "mmapped", "chunks --type *")
"""What tells of live blocks."""


def ask(door: str, image: Image, *commands: str) -> list[dict[str, Any]]:
    return ask_door(DOORS[door], image, *commands)


def users(subject: Subject) -> dict[str, int]:
    return {name: int(user, 16) for name, user in subject.truth["blocks"].items()}


def is_apart(subject: Subject, user: int) -> bool:
    """Whether the block is more than one mapping, or less."""
    mapped = [span for span in subject.smaps() if span[1] > user and span[0] < user + MIB]
    return len(mapped) > 1 or mapped[0][1] < user + MIB


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    with Subject("split", guard_regions=False) as held:
        yield held


@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
@pytest.mark.parametrize("image", ["live", *in_full("gcore")])
def test_every_block_is_found(subject: Subject, door: str, image: str) -> None:
    assert {name for name, user in users(subject).items() if is_apart(subject, user)} >= {*WAYS} - {"huge"}
    seen = Live(subject.pid, subject.program) if image == "live" else Core(subject.gcore(), subject.program)
    check_found(subject, *ask(door, seen, "mmapped", "types"))


def check_found(subject: Subject, mmapped: dict[str, Any], types: dict[str, Any]) -> None:
    counted = subject.truth["mallinfo"]
    assert (mmapped["match"], mmapped["complete"], types["complete"]) == (True, True, True), mmapped["problems"]
    places = {int(each["address"], 16) + 16: each["bytes"] for each in mmapped["blocks"]}
    assert places == dict.fromkeys(users(subject).values(), BLOCK)
    assert (len(places), sum(places.values())) == (counted["hblks"], counted["hblkhd"])
    assert types["totals"]["mmapped_bytes"] == counted["hblkhd"]


@pytest.mark.full
def test_in_a_kernels_core() -> None:
    with Subject("split") as subject:
        core = Core(subject.kernel_core(), subject.program)
        check_found(subject, *ask("shell", core, "mmapped", "types"))
        check_found(subject, *ask("gdb", core, "mmapped", "types"))


@pytest.mark.parametrize("way", full_after(1, WAYS))
def test_each_way_alone(way: str) -> None:
    with Subject("split", way, guard_regions=False) as subject:
        check_found(subject, *ask("shell", Live(subject.pid, subject.program), "mmapped", "types"))


def test_parts_of_resident_memory() -> None:
    """Against smaps: what a file or nothing holds now is not the block's. Nobody looked at it before."""
    with Subject("split", guard_regions=False) as subject:
        smaps = subject.smaps()
        mappings, report, mmapped = ask("shell", Live(subject.pid, subject.program), "mappings", "report", "mmapped")
        assert subject.smaps() == smaps
        rows = {(int(each["address"], 16), int(each["end"], 16)): each for each in mappings["mappings"]}
        assert {place: each["resident_bytes"] for place, each in rows.items()} == smaps
        check_parts(mappings, report)
        parts = {each["part"]: each["bytes"] for each in report["parts"]}
        assert sum(parts.values()) == report["rss_bytes"] == sum(smaps.values())
        assert parts["mmapped"] == len(WAYS) * BLOCK - sum(TAKEN.values())
        assert sum(each["mmapped_blocks"] for each in rows.values()) == len(WAYS)
        resident = {int(each["address"], 16) + 16: each["resident_bytes"] for each in mmapped["blocks"]}
        assert resident == {user: BLOCK - TAKEN.get(name, 0) for name, user in users(subject).items()}
        for name, user in users(subject).items():
            covering = [each for place, each in rows.items() if place[1] > user and place[0] < user + MIB]
            own = {each["part"] for each in covering} - {{"file": "files"}.get(name, name)}
            assert own == {"malloc"}, name


def lost(document: dict[str, Any]) -> list[int]:
    return [each["bytes"] + each["indirect_bytes"] for each in document["leaks"] if each["strength"] == "definite"]


@pytest.mark.full
@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
def test_what_is_lost_in_a_split_block(door: str) -> None:
    with Subject("split", "readonly", "lost", guard_regions=False) as subject:
        dropped = [subject.truth["notes"]["lost_bytes"]]
        leaks, owners = ask(door, Live(subject.pid, subject.program), "leaks", "owners")
        assert (lost(leaks), leaks["complete"], owners["complete"]) == (dropped, True, True)
        assert lost(ask(door, Core(subject.gcore(), subject.program), "leaks")[0]) == dropped


@pytest.mark.full
@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
def test_a_block_that_is_not_recognised_is_said_to_be_missing(door: str) -> None:
    """Its header says nothing any more; what else is lost may hang on it."""
    with Subject("split", "huge", "readonly", "lost", guard_regions=False) as subject:
        user = users(subject)["readonly"]
        with open(f"/proc/{subject.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(user - 8)
            memory.write(bytes(8))
        counted = subject.truth["mallinfo"]
        words = f"2 blocks of {counted['hblkhd'] - BLOCK} bytes recognised, mp_ counts 3 of {counted['hblkhd']}"
        commands = [each.format(users(subject)["huge"]) for each in TELL]
        told = dict(zip(TELL, ask(door, Live(subject.pid, subject.program), *commands)))
        for each, document in told.items():
            assert (document["complete"], document["problems"].count(words)) == (False, 1), each
        assert lost(told["leaks"]) == []
        assert told["leaks"]["unknown"]["bytes"] == subject.truth["notes"]["lost_bytes"]
