"""heap owners, and who holds what pins and types show: against programs that know what their containers hold, and the
kernel, which knows what came back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator

import pytest
from doors import DOORS, NEWEST, Live
from looks import opened
from partial import look
from schemas import valid
from subjects import Subject

UNCACHED = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}


def asked(image: object, *words: str, command: str = "owners") -> dict[str, Any]:
    code, said, complained = look(Path(str(image)), command, "--json", *words)
    assert code == 0, complained
    found: dict[str, Any] = valid(json.loads(said))
    assert found["complete"], found["problems"]
    return found


def named(document: dict[str, Any], name: str) -> dict[str, Any]:
    (row,) = [each for each in document["owners"] if each["name"] == name]
    return row


def truth(subject: Subject) -> dict[str, tuple[int, int]]:
    """(blocks, bytes) of each container."""
    first, first_bytes, second, second_bytes = (subject.folder / "truth" / "cache.txt").read_text().split()
    return {"first": (int(first), int(first_bytes)), "second": (int(second), int(second_bytes))}


@pytest.fixture
def subject() -> Iterator[Subject]:
    with Subject("cache", env=UNCACHED, guard_regions=False) as held:
        yield held


def test_what_a_container_holds_and_gives_back(subject: Subject, tmp_path: Path) -> None:
    saved = tmp_path / "saved.core"
    assert look(Path(str(subject.pid)), f"save {saved}")[0] == 0
    document = asked(subject.pid, "--limit", "0")
    assert asked(saved, "--limit", "0")["owners"] == document["owners"]
    for name, (blocks, size) in truth(subject).items():
        row = named(document, name)
        assert (row["kind"], row["blocks"], row["retained_bytes"]) == ("global", blocks, size)
    assert sum(each["retained_bytes"] for each in document["owners"]) == document["live_bytes"]
    before = subject.rollup("Anonymous")
    assert subject.send("tick") == "ticked"
    assert before - subject.rollup("Anonymous") == named(document, "first")["returns_bytes"]
    assert not [each for each in asked(subject.pid)["owners"] if each["name"] == "first"]


@pytest.mark.parametrize("door", [name for name in NEWEST if name != "shell"])
def test_in_a_debugger(subject: Subject, door: str) -> None:
    looks = ["owners --json", "pins --owners --json"]
    owners, pins = opened(DOORS[door]).run(Live(subject.pid, subject.program), looks)
    row = named(owners.json(), "first")
    assert (row["blocks"], row["retained_bytes"]) == truth(subject)["first"]
    assert {each["held_by"]["name"] for each in pins.json()["pins"]} <= {"first", "second"}


def test_who_holds_what_is_shown(tmp_path: Path) -> None:
    """One of the sessions may be known to what was freed and taken again, besides."""
    saved = tmp_path / "saved.core"
    with Subject("sessions", "2000", "1") as held:
        assert look(Path(str(held.pid)), f"save {saved}")[0] == 0
        for image in (held.pid, saved):
            types = asked(image, "--owners", command="types")["types"]
            pins = asked(image, "--owners", command="pins")
            (row,) = [each for each in types if each["type"] == "Session"]
            held_by = row["held_by"]
            assert (held_by["kind"], held_by["name"]) == ("global", "g_sessions")
            assert held_by["blocks"] in (1999, 2000)
            assert held_by["bytes"] == held_by["blocks"] * 48
            assert [each["held_by"] for each in pins["groups"] if each["type"] == "Session"] == [held_by]
            assert {each["held_by"]["name"] for each in pins["pins"]} == {"g_sessions"}
        # a process is not copied unasked: how it is asked for can be pasted
        for command in ("types", "pins"):
            plain, told = (
                " ".join(look(Path(str(held.pid)), *each)[1].split()) for each in ([command], [command, "--owners"])
            )
            hint = f"arenascope {command} {held.pid} --owners (who holds them)"
            assert hint in plain
            assert "(who holds them)" not in told
    assert [each["held_by"] for each in asked(saved, command="types")["types"] if each["held_by"]] == []
    # people are told unasked, of a core that is not large
    for command in ("types", "pins"):
        assert "g_sessions" in look(saved, command)[1]


def test_the_report_tells_a_leak_from_what_is_held(tmp_path: Path) -> None:
    saved = tmp_path / "saved.core"
    with Subject("leaky", "1200") as subject:
        document = asked(subject.pid, "--owners", command="report")
        assert look(Path(str(subject.pid)), f"save {saved}")[0] == 0
        blocks, size, _ = map(int, (subject.folder / "truth" / "leaky.txt").read_text().split())
    found = document["held"]
    assert (found["lost_blocks"], found["lost_bytes"], found["unknown_bytes"]) == (blocks, size, 0)
    assert found["reached_bytes"] + found["possible_bytes"] + size == found["live_bytes"]
    assert (found["owners"][0]["kind"], found["owners"][0]["name"]) == ("global", "held")
    leak = f"a leak: nothing leads to {size / (1 << 20):.1f} MiB in {blocks:,} blocks any more"
    assert leak in document["verdict"]
    # of a leak nothing is said that is said of what is as it should be
    assert document["advice"][0]["id"] == "mend-leak"
    assert not {"look-again", "find-what-grew", "nothing-to-tune"} & {each["id"] for each in document["advice"]}
    assert asked(saved, command="report")["held"] is None
    # people are told unasked, of a core that is not large
    assert leak in " ".join(look(saved, "report")[1].split())


def test_the_report_tells_that_all_is_held(subject: Subject) -> None:
    document = asked(subject.pid, "--owners", command="report")
    found = document["held"]
    assert "mend-leak" not in {each["id"] for each in document["advice"]}
    assert found["reached_bytes"] == found["live_bytes"] > 0
    assert [each["name"] for each in found["owners"][:2]] == ["first", "second"]


def test_a_leak_is_told_from_a_cache() -> None:
    """The story of fixtures/quotes.cc."""
    with Subject("quotes", "500", "150") as subject:
        lost, lost_bytes, kept, kept_bytes = map(int, (subject.folder / "truth" / "quotes.txt").read_text().split())
        code, said, _ = look(Path(str(subject.pid)), "leaks", "--json")
        owner = named(asked(subject.pid), "g_quotes")
    (row,) = valid(json.loads(said))["leaks"]
    assert (code, row["type"], row["blocks"], row["strength"]) == (1, "Request", 150, "definite")
    assert (row["blocks"] + row["indirect_blocks"], row["bytes"] + row["indirect_bytes"]) == (lost, lost_bytes)
    assert (owner["blocks"], owner["retained_bytes"]) == (kept, kept_bytes)


def test_what_nobody_leads_to() -> None:
    with Subject("leaky") as held:
        lost = named_kind(asked(held.pid, "--limit", "0"), "unreached")
        blocks, size, _ = map(int, (held.folder / "truth" / "leaky.txt").read_text().split())
    # what is held by tagged links only is not followed here
    assert (lost["blocks"], lost["retained_bytes"]) == (blocks + 100, size + 100 * 48)


def named_kind(document: dict[str, Any], kind: str) -> dict[str, Any]:
    (row,) = [each for each in document["owners"] if each["kind"] == kind]
    return row
