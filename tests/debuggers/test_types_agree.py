"""GDB and LLDB say the same of the types that a program's variables lead to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, Sequence

import pytest
from doors import GDB, Door, Live
from lldb_door import EVERY_LLDB, NEWEST_LLDB
from looks import opened
from marks import full_after, in_full
from subjects import Subject
from test_type_sources import ask
from typed import BUILDS, Build, rows_of, text_of

pytestmark = pytest.mark.xdist_group("type_sources")
Answers = dict[str, Any]


def reached(answers: Answers) -> Iterator[dict[str, Any]]:
    """Facts of all types that variables lead to, each once."""
    left = [each["type"] for each in answers["variables"].values()]
    seen: set[int] = set()
    while left:
        number = left.pop()
        if number is None or number in seen:
            continue
        seen.add(number)
        facts = answers["facts"][str(number)]
        yield facts
        left += [facts["target"], *(each["type"] for each in facts["fields"] + facts["arguments"])]


def shape(answers: Answers, facts: dict[str, Any]) -> Sequence[object]:
    """What there is to agree on. LLDB has no vtables' pointers as members."""
    fields = [
        (each["name"], each["offset"], text_of(answers, each["type"]), each["is_base"])
        for each in facts["fields"]
        if not each["name"].startswith("_vptr")
    ]
    arguments = [
        (text_of(answers, each["type"]) if each["type"] is not None else "", each["value"])
        for each in facts["arguments"]
    ]
    plain = [facts[name] for name in ("form", "size", "length", "polymorphic", "signed", "enumerators")]
    return [*plain, text_of(answers, facts["target"]), fields, arguments]


def named(answers: Answers) -> dict[str, list[Sequence[object]]]:
    found: dict[str, list[Sequence[object]]] = {}
    for facts in reached(answers):
        if facts["name"]:
            found.setdefault(facts["name"], []).append(shape(answers, facts))
    return {name: sorted(shapes, key=str) for name, shapes in found.items()}


@pytest.mark.parametrize("build", full_after(1, BUILDS), ids=lambda build: build.name)
@pytest.mark.parametrize("door", [NEWEST_LLDB, *in_full(*EVERY_LLDB[:-1])], ids=lambda door: door.name)
def test_facts_are_equal(door: Door, build: Build, tmp_path: Path) -> None:
    opened(door)
    with Subject(str(build.make(tmp_path))) as subject:
        addresses = [each.address for each in rows_of(subject)["variable"]]
        image = Live(subject.pid, subject.program)
        by_gdb, by_lldb = (ask(each, image, addresses, tmp_path) for each in (GDB, door))
    # static variables of functions LLDB does not always know; the types of the rest are the same
    both = by_gdb["variables"].keys() & by_lldb["variables"].keys()
    assert len(both) >= 13
    for answers in (by_gdb, by_lldb):
        answers["variables"] = {at: each for at, each in answers["variables"].items() if at in both}
    in_gdb, in_lldb = named(by_gdb), named(by_lldb)
    assert in_gdb.keys() == in_lldb.keys()
    assert len(in_gdb) > 15
    assert {name: (in_gdb[name], in_lldb[name]) for name in in_gdb if in_gdb[name] != in_lldb[name]} == {}


@pytest.mark.parametrize("build", BUILDS[:1], ids=lambda build: build.name)
def test_variables_are_equal(build: Build, tmp_path: Path) -> None:
    opened(NEWEST_LLDB)
    with Subject(str(build.make(tmp_path))) as subject:
        addresses = [each.address for each in rows_of(subject)["variable"]]
        image = Live(subject.pid, subject.program)
        found = [ask(each, image, addresses, tmp_path) for each in (GDB, NEWEST_LLDB)]
    variables, threads, locals = (
        [
            {
                (each["name"], each["address"], each["tid"], each.get("frame"), function_of(each))
                for each in places(answers[kind])
                # of a reference GDB has the value, LLDB the place
                if each["name"] != "referred"
            }
            for answers in found
        ]
        for kind in ("variables", "thread_variables", "locals")
    )
    assert variables[0] == variables[1]
    assert threads[0] == threads[1]
    own = [{each for each in of if each[4] in ("stay", "main", "park_without_commands")} for of in locals]
    assert own[0] == own[1]
    assert len(own[0]) >= 8


def function_of(local: dict[str, Any]) -> str:
    """Without its parameters, which LLDB does not have of static functions."""
    return str(local.get("function", "")).partition("(")[0]


def places(of: Any) -> Sequence[Any]:
    return list(of.values()) if isinstance(of, dict) else of
