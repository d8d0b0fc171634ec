"""The story of fixtures/sessions.cc: what keeps 77 MiB is named, by every command that can name it, and rightly."""

from __future__ import annotations

import re
from typing import Any

import pytest
from looks import Live
from shell_door import SHELL
from subjects import Subject

from arenascope.present.shared_text.text import Style

pytestmark = [pytest.mark.xdist_group("sessions"), pytest.mark.full]

MIB = 1 << 20
UNCACHED = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
SESSIONS = 20000
CHUNK = 48
LOOKS = (
    "types --by holds-back --json",
    "pins --json",
    "report --types --json",
    "report --json",
    "chunks --type Sess*n --limit 2 --json",
)
SLACK = 512 << 10
"""What differs from run to run: the pages of stacks, and of what the C library keeps."""


@pytest.fixture(scope="module")
def looked() -> dict[str, Any]:
    """What was said of it, and by how much its memory fell once it had deleted all sessions."""
    with Subject("sessions", env=UNCACHED) as subject:
        image, moment = Live(subject.pid, subject.program), subject.folder / "before.json"
        found: dict[str, Any] = {outcome.command: outcome.json() for outcome in SHELL.run(image, LOOKS)}
        sample = found[LOOKS[0]]["types"][0]["samples"][0]
        found["chunk"], _ = (
            outcome.json()
            for outcome in SHELL.run(image, [f"chunk {sample} --json", f"snapshot {moment} --types --json"])
        )
        assert subject.send("trim").startswith("trimmed")
        before = subject.rollup("Anonymous")
        assert subject.send("forget") == "forgotten"
        assert subject.send("trim").startswith("trimmed")
        found["fall"] = before - subject.rollup("Anonymous")
        found["diff"] = SHELL.run(image, [f"diff {moment} --json"])[0].json()
    return found


def test_types_name_what_holds_back_most(looked: dict[str, Any]) -> None:
    first = looked[LOOKS[0]]["types"][0]
    assert (first["type"], first["kind"], first["certain"]) == ("Session", "declared", True)
    assert (first["blocks"], first["bytes"]) == (SESSIONS, SESSIONS * CHUNK)
    assert first["holds_back_bytes"] == looked["fall"] > 70 * MIB


def test_pins_has_them_as_a_group(looked: dict[str, Any]) -> None:
    document = looked[LOOKS[1]]
    group = document["groups"][0]
    assert (group["type"], group["blocks"], group["resident_bytes"]) == ("Session", SESSIONS, looked["fall"])
    assert max(pin["releases_bytes"] for pin in document["pins"]) <= 8192
    # by the name that it has wherever types are shown
    assert {pin["type"] for pin in document["pins"]} == {"Session"}


@pytest.mark.full
def test_large_heaps_are_searched_for_groups_only_when_asked() -> None:
    """A live process would wait for it."""
    with Subject("sessions", "2000", "260", env=UNCACHED) as subject:
        image = Live(subject.pid, subject.program)
        unasked, asked, text = SHELL.run(image, ["pins --json", "pins --types --json", "pins"])
    assert unasked.json()["groups"] is None
    assert asked.json()["groups"][0]["type"] == "Session"
    assert "--types (" in text.text


def test_report_says_who_strands_it(looked: dict[str, Any]) -> None:
    document = looked[LOOKS[2]]
    names = {each["type"] for each in document["types"]}
    assert "Session" in names
    assert "20,000 blocks of Session (937.5 KiB)" in document["verdict"]
    cause = next(each for each in document["causes"] if each["id"] == "pages-shared-with-live")
    assert cause["names"]["type"] == "Session"
    assert cause["figures"]["type_resident_bytes"] == looked["fall"]
    # one figure for one thing, wherever it is spoken of: what is free, not what the blocks themselves are besides
    stranded = next(each["bytes"] for each in document["parts"] if each["part"] == "scraps")
    size = Style().size(stranded)
    assert cause["text"].count(" MiB") == 1
    assert re.search(rf"\[{size} .*20,000 blocks of Session", cause["text"])
    advice = document["advice"][0]
    assert {*re.findall(r"[0-9.]+ MiB", f"{document['verdict'].split('(')[1]} {advice['text']}")} == {size}


def test_unasked_a_live_process_is_not_swept_for_it(looked: dict[str, Any]) -> None:
    assert looked[LOOKS[3]]["types"] is None


def test_nothing_is_advised_that_cannot_help(looked: dict[str, Any]) -> None:
    """The threshold has grown, there is one arena, and no page is whole: no parameter would have changed anything."""
    for name in LOOKS[2:4]:
        advised = {each["id"] for each in looked[name]["advice"] if each["effect_bytes"]}
        assert advised <= {"keep-type-apart"}, name


@pytest.mark.full
def test_what_is_advised_taken(looked: dict[str, Any]) -> None:
    """The same program with its sessions apart."""
    first = looked[LOOKS[2]]["advice"][0]
    assert (first["id"], first["bound"]) == ("keep-type-apart", True)
    own = []
    for words in ((), ("20000", "58", "apart")):
        with Subject("sessions", *words, env=UNCACHED) as subject:
            subject.send("trim")
            own.append(subject.rollup("Anonymous"))
    assert 0.95 * first["effect_bytes"] <= own[0] - own[1] <= first["effect_bytes"] + SLACK


def test_a_block_says_what_it_is(looked: dict[str, Any]) -> None:
    chunk = looked["chunk"]["chunk"]
    assert (chunk["type"], chunk["kind"], chunk["certain"], chunk["bytes"]) == ("Session", "declared", True, CHUNK)


def test_of_a_class_that_is_nowhere_else_a_block_may_be() -> None:
    """What was freed keeps its vtable: where no other block tells the class's size, it is a guess."""
    with Subject("sessions", "1", "1") as subject:
        image = Live(subject.pid, subject.program)
        (found,) = SHELL.run(image, ["types --quick --match Session --json"])
        (sample,) = found.json()["types"][0]["samples"]
        document, text = SHELL.run(image, [f"chunk {sample} --no-declared{more}" for more in (" --json", "")])
    chunk = document.json()["chunk"]
    assert (chunk["type"], chunk["kind"], chunk["certain"]) == ("Session", "c++", False)
    assert "RTTI" in text.text


def test_chunks_of_a_type(looked: dict[str, Any]) -> None:
    document = looked[LOOKS[4]]
    assert [(row["type"], row["bytes"], row["state"]) for row in document["chunks"]] == [("Session", CHUNK, "used")] * 2
    assert document["left_out"] == SESSIONS - 2
    assert document["exact_sizes"] == [{"bytes": CHUNK, "used_chunks": SESSIONS, "free_chunks": 0}]


def test_diff_says_which_type_went(looked: dict[str, Any]) -> None:
    change = looked["diff"]["types"][0]
    assert (change["name"], change["before"], change["after"]) == ("Session", SESSIONS * CHUNK, 0)


def test_live_data_is_named() -> None:
    with Subject("sessions", "10", "20", env=UNCACHED) as subject:
        (outcome,) = SHELL.run(Live(subject.pid, subject.program), ["report --types --json"])
    advice = {each["id"]: each for each in outcome.json()["advice"]}
    assert "320 blocks of std::string body" in advice["look-again"]["evidence"]
