"""heap owners, and who holds what pins and types show: against programs that know what their containers hold, and the
kernel, which knows what came back."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest
from lifetimes import dies_with_us
from shell_door import ask, ask_whole, look
from subjects import Started, Subject, compiled

from arenascope.blocks.recognise.container_words import POOL

UNCACHED = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}


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
    assert look(subject.pid, f"save {saved}")[0] == 0
    document = ask_whole(subject.pid, "owners --limit 0")
    assert ask_whole(saved, "owners --limit 0")["owners"] == document["owners"]
    for name, (blocks, size) in truth(subject).items():
        row = named(document, name)
        assert (row["kind"], row["blocks"], row["retained_bytes"]) == ("global", blocks, size)
    assert sum(each["held_bytes"] for each in document["owners"]) == document["live_bytes"]
    before = subject.rollup("Anonymous")
    assert subject.send("tick") == "ticked"
    assert before - subject.rollup("Anonymous") == named(document, "first")["returns_bytes"]
    assert not [each for each in ask_whole(subject.pid, "owners")["owners"] if each["name"] == "first"]


@pytest.mark.full
def test_who_holds_what_is_shown(tmp_path: Path) -> None:
    """A few of the sessions may be known besides to what was freed and taken again, a stream's buffer, as it is never
    cleared: those are not held alone."""
    saved = tmp_path / "saved.core"
    with Subject("sessions", "2000", "1") as held:
        assert look(held.pid, f"save {saved}")[0] == 0
        for image in (held.pid, saved):
            types = ask_whole(image, "types", "--owners")["types"]
            pins = ask_whole(image, "pins", "--owners")
            (row,) = [each for each in types if each["type"] == "Session"]
            held_by = row["held_by"]
            assert (held_by["kind"], held_by["name"]) == ("global", "g_sessions")
            assert (held_by["blocks"], held_by["bytes"]) == (2000, 2000 * 48)
            owner = named(ask_whole(image, "owners"), "g_sessions")
            assert owner["held_bytes"] - 10 * 48 <= owner["retained_bytes"] <= owner["held_bytes"]
            assert [each["held_by"] for each in pins["groups"] if each["type"] == "Session"] == [held_by]
            assert {each["held_by"]["name"] for each in pins["pins"]} == {"g_sessions"}
        # a process is not copied unasked: how it is asked for can be pasted
        for command in ("types", "pins"):
            plain, told = (" ".join(look(held.pid, *each)[1].split()) for each in ([command], [command, "--owners"]))
            hint = f"arenascope {command} {held.pid} --owners ("
            assert hint in plain
            assert hint not in told
    assert [each["held_by"] for each in ask_whole(saved, "types")["types"] if each["held_by"]] == []
    # people are told unasked, of a core that is not large
    for command in ("types", "pins"):
        assert "g_sessions" in look(saved, command)[1]


def test_the_report_tells_that_all_is_held(subject: Subject) -> None:
    document = ask_whole(subject.pid, "report", "--owners")
    found = document["held"]
    assert "mend-leak" not in {each["id"] for each in document["advice"]}
    assert found["reached_bytes"] == found["live_bytes"] > 0
    assert [each["name"] for each in found["owners"][:2]] == ["first", "second"]
    # what its end would bring, measured
    (advice,) = [each for each in document["advice"] if each["id"] == "clear-owner"]
    assert advice["names"] == {"owner": "first", "kind": "global"}
    assert (advice["figures"]["blocks"], advice["figures"]["bytes"]) == truth(subject)["first"]
    before = subject.rollup("Anonymous")
    assert subject.send("tick") == "ticked"
    assert before - subject.rollup("Anonymous") == advice["effect_bytes"]


def test_a_leak_is_told_from_a_cache() -> None:
    """The story of fixtures/quotes.cc."""
    with Subject("quotes", "700", "400") as subject:
        lost, lost_bytes, kept, kept_bytes = map(int, (subject.folder / "truth" / "quotes.txt").read_text().split())
        (row,) = ask(subject.pid, "leaks", status=(1,))["leaks"]
        owners = ask_whole(subject.pid, "owners")
        types = {each["type"]: each for each in ask_whole(subject.pid, "types", "--owners")["types"]}
        report = ask_whole(subject.pid, "report", "--owners")
        params = ask_whole(subject.pid, "params")
        told = look(subject.pid, "types --owners").out
        pool_owner = ask_whole(subject.pid, "owner", types[POOL]["samples"][0])
        further = [look(subject.pid, f"{command} {row['samples'][0]}").out for command in ("refs", "owner")]
    # each sends to what tells more, and not to the other
    assert all(re.search(r"^next: arenascope leaks \d+ ", each, re.MULTILINE) for each in further)
    assert (row["type"], row["blocks"], row["strength"]) == ("Request", 400, "definite")
    assert (row["blocks"] + row["indirect_blocks"], row["bytes"] + row["indirect_bytes"]) == (lost, lost_bytes)
    owner = named(owners, "g_quotes")
    assert (owner["blocks"], owner["retained_bytes"]) == (kept, kept_bytes)
    # 201 requests are still on the list, each as large as one that is lost
    requests = types["Request"]
    assert (requests["blocks"], requests["held_by"]["kind"], requests["held_by"]["blocks"]) == (601, "unreached", 400)
    assert requests["retained_bytes"] * 400 == lost_bytes * 601
    assert "nobody (400 of 601)" in told
    table = [each for each in types.values() if re.match(r"std::unordered_map<.*> (node|buckets)$", each["type"])]
    assert len(table) == 2
    assert sum(each["retained_bytes"] for each in table) == kept_bytes
    # as every program with libstdc++ has it: memcheck calls 72,704 or 73,728 bytes still reachable
    pool = types[POOL]
    assert (pool["blocks"], pool["certain"], pool["bytes"] - 16) in ((1, True, 72704), (1, True, 73728))
    (row,) = [each for each in owners["owners"] if (each["name"] or "").startswith("unnamed variables of libstdc++.so")]
    assert row["held_bytes"] >= pool["bytes"]
    # two of libstdc++'s variables have its address, and are one owner
    assert [pool_owner["held_by"][key] for key in ("kind", "name", "tid")] == [row["kind"], row["name"], row["tid"]]
    assert pool_owner["tied_with"] is None
    assert row["tied_bytes"] == 0
    check_what_the_report_says(report, lost, lost_bytes, kept_bytes)
    assert params["note_record"]["id"] == "at-defaults"
    assert params["note_record"]["figures"]["requested"] == 0


def check_what_the_report_says(report: dict[str, Any], lost: int, lost_bytes: int, kept_bytes: int) -> None:
    """Why it stays, and what to do: with what it is, and what that brings."""
    page = os.sysconf("SC_PAGE_SIZE")
    causes = {each["id"]: each for each in report["causes"]}
    figures = {"type_blocks": 400, "type_bytes": lost_bytes, "indirect_blocks": lost - 400}
    advice = report["advice"][0]
    for said in (causes["lost-blocks"], advice):
        assert (said["names"], figures.items() <= said["figures"].items()) == ({"type": "Request"}, True), said
    keeper = causes["held-by-owner"]
    assert (keeper["names"], keeper["figures"]["bytes"]) == ({"owner": "g_quotes", "kind": "global"}, kept_bytes)
    # they lie one behind the other, but for few: of whole pages
    assert lost_bytes - 4 * page <= advice["effect_bytes"] <= lost_bytes
    assert "400 blocks of Request" in advice["action"]


@pytest.mark.full
def test_who_holds_what_several_hold() -> None:
    """Named by all who lead there, in rows, causes and sums; the program knows how much that is."""
    with Subject("web", "2000", guard_regions=False) as subject:
        (_, _), (blocks, size), *_ = (
            tuple(map(int, line.split())) for line in (subject.folder / "truth" / "web.txt").read_text().splitlines()
        )
        rows = ask_whole(subject.pid, "owners")["owners"]
        report = ask_whole(subject.pid, "report", "--owners")
        told = look(subject.pid, "owners").out
    both = {"left", "right"}
    theirs = [each for each in rows if each["name"] in both]
    assert [sum(each[key] for each in theirs) for key in ("blocks", "held_bytes")] == [blocks, size]
    for each in theirs:
        (other,) = each["leading"]["owners"]
        assert both == {each["name"], other["name"]}
        assert (each["leading"]["whole"], each["retained_blocks"]) == (True, 0)
        assert re.search(rf"^`{each['name']}` .+`{other['name']}`( \(.+\))?$", told, re.MULTILINE)
    # some are as near to the one as to the other
    assert 0 < sum(each["tied_bytes"] for each in theirs) < size
    assert all((each["leading"] is None) == (each["retained_bytes"] == each["held_bytes"]) for each in rows)
    joint = report["held"]["jointly"][0]
    assert ({each["name"] for each in joint["owners"]}, joint["retained_bytes"]) == (both, size)
    (cause,) = [each for each in report["causes"] if each["id"] == "held-together"]
    assert (cause["figures"]["bytes"], cause["figures"]["owners"]) == (size, 2)
    assert re.match("(`left` and `right`|`right` and `left`) ", cause["text"])
    assert both == set(cause["names"]["owners"].split(" and "))  # a document's names have no marks
    assert "held-by-others" not in {each["id"] for each in report["causes"]}
    # whether it is needed is asked first; then what several hold, and what is lost, each have a step
    clear = [each for each in report["advice"] if each["id"] == "clear-owner"]
    assert [{*each["names"]} for each in clear] == [{"owner", "kind"}, {"owners"}]
    assert clear[1]["figures"] == {"bytes": size, "owners": 2}
    order = [each["id"] for each in report["advice"]]
    assert order.index("look-again") < order.index("clear-owner")


# Three threads: one has its block on the stack and in a register, as a compiler leaves it, one each in one of these.
LOCALS = Path(__file__).with_name("holders_locals.c").read_text()


@pytest.mark.full
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="it names x86-64's registers")
def test_a_thread_is_one_owner(tmp_path: Path) -> None:
    program = compiled(LOCALS, tmp_path, "-O1", "-pthread")
    with subprocess.Popen([str(program)], stdout=subprocess.PIPE, text=True, preexec_fn=dies_with_us()) as process:
        threads = [[*map(int, line.split())] for line in iter(process.stdout.readline, "ready\n")]
        try:
            document = ask_whole(process.pid, "owners --limit 0")
            report = ask_whole(process.pid, "report", "--owners")
            types = ask_whole(process.pid, "types", "--owners")["types"]
        finally:
            process.kill()
    expected = [(tid, kind, size) for (tid, size), kind in zip(threads, ("stack", "register", "stack"))]
    large = [each for each in document["owners"] if each["retained_bytes"] >= 1 << 20]
    assert {(each["tid"], each["kind"], each["retained_bytes"] >> 20 << 20) for each in large} == {*expected}
    assert {each["kind"] for each in document["owners"]} <= {"stack", "register", "tls", "global"}
    held = [(each["tid"], each["kind"], each["retained_bytes"] >> 20 << 20) for each in report["held"]["owners"]]
    assert held[:3] == expected[::-1]
    (clear,) = [each for each in report["advice"] if each["id"] == "clear-owner"]
    assert (clear["names"]["kind"], clear["figures"]["bytes"] >> 20) == ("stack", 3)
    assert f"thread {threads[2][0]} " in clear["action"]
    assert {each["held_by"]["kind"] for each in types if each["bytes"] >= 1 << 20} <= {"stack", "register"}


# Threads that are given what a variable has, and two that are given what nothing else has: one by each of the two ways.
STARTED = Path(__file__).with_name("holders_started.cc").read_text()


@pytest.mark.full
def test_what_a_thread_was_started_with_is_the_variables(tmp_path: Path) -> None:
    """It is a copy, as its stack's are; what nothing else has is the thread's."""
    with Started(compiled(STARTED, tmp_path, "-O1", "-pthread", compiler="g++")) as process:
        rows = ask_whole(process.pid, "owners --limit 0")["owners"]
    (server,) = [each for each in rows if each["name"] == "server"]
    assert (server["blocks"], server["retained_blocks"], server["leading"]) == (2, 2, None)
    given = [each for each in rows if each["kind"] in ("stack", "tls") and 3000 <= each["held_bytes"] < 4000]
    assert [each["kind"] for each in given] == ["stack"]
    assert given[0]["tid"] != process.pid


def test_what_nobody_leads_to() -> None:
    with Subject("leaky") as held:
        document = ask_whole(held.pid, "owners --limit 0")
        blocks, size, _ = map(int, (held.folder / "truth" / "leaky.txt").read_text().split())
    lost, tagged = named_kind(document, "unreached"), named(document, "tagged_top")
    assert (lost["blocks"], lost["retained_bytes"]) == (blocks, size)
    # a list of which each link has a count
    assert (tagged["blocks"], tagged["retained_bytes"]) == (100, 100 * 48)


def named_kind(document: dict[str, Any], kind: str) -> dict[str, Any]:
    (row,) = [each for each in document["owners"] if each["kind"] == kind]
    return row
