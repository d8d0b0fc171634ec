"""What `chunk` says of a block's members: GDB itself reads the same values by the block's type."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import pytest
from doors import GDB
from looks import give_up, opened
from marks import in_full
from sites import PROGRAMS, Sited
from test_paths import PRINTERS, evaluated

pytestmark = [pytest.mark.needs_gdb, pytest.mark.debugger]
OF_EACH = 3
"""Blocks of each type, and of each line that makes them."""
AS_NUMBERS = ("value", "target", "elements")
SHORTENED = ("host",)
"""It ends in a union, of which there may be the text or the pointer: GDB reads both, whichever there is."""


@pytest.mark.parametrize("kind", ["live", *in_full("core")])
@pytest.mark.parametrize(
    ("name", "arguments", "types", "forms"),
    [
        ("idioms.O0", (), 8, {"value", "text", "target", "enumerator"}),
        pytest.param("daemon.O2", ("60", "closed"), 3, {"value", "text", "target"}, marks=pytest.mark.full),
        pytest.param("server.O1", ("40", "0"), 3, {"value", "text", "elements"}, marks=pytest.mark.full),
        pytest.param("orders.O0", ("40", "plain"), 2, {"value", "text"}, marks=pytest.mark.full),
    ],
)
def test_members_have_the_values_that_gdb_reads(
    tmp_path: Path, name: str, arguments: tuple[str, ...], types: int, forms: set[str], kind: str
) -> None:
    """`types`: so many are compared at least; `forms`: what must be among the values."""
    if not PRINTERS.exists():
        give_up(f"{PRINTERS} is not installed: libstdc++'s printers")
    gdb = opened(GDB)
    sited = Sited(PROGRAMS / name, tmp_path, *arguments)
    try:
        image = sited.image(kind, tmp_path)
        chosen: dict[str, list[int]] = {}
        for address, each in sorted(sited.expected().items()):
            of = chosen.setdefault(each.type if not each.foreign else "", [])
            of += [address] if len(of) < OF_EACH else []
        places = [address for each, of in chosen.items() if each for address in of]
        (whole,) = gdb.run(image, [f"chunk {' '.join(map(hex, places))} --words 0 --json --with-values"])
        rows: dict[str, dict[str, Any]] = {}
        seen: set[str] = set()
        for answer in whole.json()["answers"]:
            chunk = answer["chunk"]
            for member in chunk["members"] or ():
                if not member["left_out"] and is_gdbs(chunk["type"]):
                    rows[expression(chunk, member)] = member
                    seen.add(chunk["type"])
        assert len(seen) >= types
        values = evaluated(gdb, image, tmp_path, "said", list(rows))
        assert [(each, rows[each], values[each]) for each in rows if not is_same(rows[each], values[each])] == []
        assert forms <= {form for member in rows.values() for form in found(member)}
    finally:
        sited.end()


def is_gdbs(type: str) -> bool:
    """Whether GDB knows a type by this name: not what a container makes up, nor what is only begun with a type."""
    return not type.startswith("std::") and " " not in type and type not in SHORTENED


def expression(chunk: dict[str, Any], member: dict[str, Any]) -> str:
    begin = f"(({chunk['type'].removesuffix('[]')} *) {chunk['user_address']})"
    return f"{begin}{member['name']}" if member["name"].startswith("[") else f"{begin}->{member['name']}"


def found(member: dict[str, Any]) -> Iterator[str]:
    return (form for form in (*AS_NUMBERS, "text", "enumerator") if member[form] is not None)


def is_same(member: dict[str, Any], said: dict[str, Any]) -> bool:
    """What is told of a member is as GDB says, and something is told where GDB says something."""
    number = member["value"] if member["target"] is None else int(member["target"], 16)
    text = member["text"] if member["enumerator"] is None else member["enumerator"]
    if said.keys() & {"number", "text", "elements"} == set():
        return False
    if "text" in said and said["text"] != text and not said["text"].isdigit():
        return False
    return said.get("number", number) == number and said.get("elements") == member["elements"]
