"""The first line of `containers` and of `types NAME --values` is the answer; what `next:` says can be typed."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Iterator

import pytest
from doors import GDB, Door, Live
from looks import failure_id, opened
from marks import full_after, in_full
from shell_door import SHELL
from sites import PROGRAMS, Sited

from arenascope.base.class_names import with_short_names
from arenascope.base.errors import NoTypeError
from arenascope.cli.main import main
from arenascope.commands import types
from arenascope.commands.types import named_type
from arenascope.present.screens.type_lines import name_of
from arenascope.present.shared_text.lines_and_tables import shortened_name
from arenascope.session.session import Session

pytestmark = [pytest.mark.needs_gdb, pytest.mark.xdist_group("type screens")]
DOORS: tuple[Door, ...] = (GDB, SHELL)
LEAST, MOST = 3, 0.8
"""Types of which values are known; the part of objects whose value is told."""
PERCENT = re.compile(r"([\d.]+) %")


@pytest.fixture(
    scope="module",
    params=[("daemon.O2", "300", "closed"), *in_full(("server.O1", "40", "0"), ("idioms.cc.O1",))],
    ids=lambda each: each[0],
)
def sited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sited]:
    program, *arguments = request.param
    running = Sited(PROGRAMS / program, tmp_path_factory.mktemp("screens"), *arguments)
    yield running
    running.end()


def asked(door: Door, sited: Sited, *commands: str) -> list[str]:
    more = " --declared" if door is SHELL else ""
    image = Live(sited.pid, sited.program)
    return [each.text for each in opened(door).run(image, [f"{each}{more}" for each in commands])]


@pytest.mark.parametrize("door", full_after(1, DOORS), ids=lambda door: door.name)
def test_the_first_line_is_the_answer(sited: Sited, door: Door) -> None:
    screen, text, whole = asked(door, sited, "containers", "containers --json", "types --json")
    largest, first = json.loads(text)["containers"][0], screen.splitlines()[0]
    assert first.startswith(largest["path"])
    assert f"{largest['elements']:,}" in first
    in_use = json.loads(whole)["totals"]["bytes"]
    assert percent(first) == pytest.approx(100 * largest["held_bytes"] / in_use, abs=0.5)
    typed = re.search(r"types (?:\d+ )?(\S+) --values", " ".join(screen.split()))
    assert typed is not None
    screen, text = asked(door, sited, f"types {typed[1]} --values", f"types {typed[1]} --values --json --with-values")
    values = json.loads(text)["values"]
    first = screen.splitlines()[0]
    assert first.startswith(f"{values['type']}:")
    assert f"{values['objects']:,} objects" in first
    for member in values["members"]:
        frequent = member["most_frequent"][:1]
        if member["form"] in ("boolean", "enum") and frequent and frequent[0]["objects"] >= MOST * values["objects"]:
            told = first.partition(f" {member['member']} = {frequent[0]['value']} ")[2]
            assert percent(told) == pytest.approx(100 * frequent[0]["objects"] / values["objects"], abs=0.1)


@pytest.mark.parametrize(
    "program",
    [
        "idioms.O1",
        "idioms.rs.O1",
        *in_full("daemon.O2", "orders.O1", "server.O1", "pool.O1", "idioms.cc.O1", "idioms.libc++.O1"),
    ],
)
def test_each_name_on_the_screen_is_accepted(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `types NAME`, with --values and without; and cut short, where one name alone is cut like that."""
    looked: list[int] = []

    def tried(session: Session, *given: Any, **named: Any) -> Any:
        seen = types_of(session, *given, **named)
        values = 0
        for row in seen.rows:
            shown = with_short_names(name_of(row.kind))
            for name in (shown, row.kind.name):
                assert row in named_type(session, seen.rows, name, False).rows
            found = named_type(session, seen.rows, shown, True)
            assert found.values is not None or row in found.rows
            values += found.values is not None
            members = [each.place.name for each in found.values.columns] if found.values is not None else []
            assert not [each for each in members if "_vptr" in each]
            told = shown.startswith("make_shared<") or shown.rpartition("::")[2].startswith("{lambda")
            # one alone may have been destroyed, as only a weak_ptr knows of it
            assert found.values is not None or not told or row.blocks == 1
            cut = shortened_name(shown, 24)
            with suppress(NoTypeError):
                assert {row.kind.name} <= {each.kind.name for each in named_type(session, seen.rows, cut, False).rows}
        looked.append(values)
        return seen

    types_of = types.types_of
    monkeypatch.setattr(types, "types_of", tried)
    running = Sited(PROGRAMS / program, tmp_path)
    try:
        assert main(["types", str(running.pid), "--declared"]) == 0
    finally:
        running.end()
    assert looked
    assert min(looked) >= LEAST


@pytest.mark.full
def test_a_name_alone(sited: Sited) -> None:
    """Beside a process or core it is no second one. What is not there is told with what is like it."""
    (text,) = asked(SHELL, sited, "types --json --limit 0")
    rows = [each for each in json.loads(text)["types"] if each["kind"] == "declared" and each["certain"]]
    name = next(each["type"] for each in rows if each["type"].isalpha())
    one, wrong = asked(SHELL, sited, f"types {name} --json", f"types {name}y --json")
    found = {each["type"]: each["blocks"] for each in json.loads(one)["types"]}
    assert found == {each["type"]: each["blocks"] for each in rows if each["type"].removesuffix("[]") == name}
    assert failure_id(wrong) == "no-type"
    assert name in wrong


def percent(text: str) -> float:
    found = PERCENT.search(text)
    assert found is not None, text
    return float(found[1])
