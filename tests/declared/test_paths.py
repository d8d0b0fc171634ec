"""The way to a block in the program's own words: GDB evaluates what `owner` writes, and comes to that block."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

import pytest
from doors import GDB, Gdb, Image
from looks import HERE, Outcome, give_up, opened
from marks import in_full
from shell_door import SHELL
from sites import PROGRAMS, Sited
from test_truth import COUNT_IN_FRONT

BLOCKS = 24
BUILT_IN = ("char", "void")
KEYED, FEW = 16, 2
CREW = 2
"""Threads of crew.c that have jobs."""
DRIVER = HERE.parent / "declared" / "drive_expressions.py"
PRINTERS = Path("/usr/share/gcc/python/libstdcxx")
pytestmark = [pytest.mark.needs_gdb, pytest.mark.debugger]


@pytest.mark.parametrize("kind", ["live", *in_full("core")])
@pytest.mark.parametrize(
    ("name", "arguments", "share"),
    [("daemon.O2", ("200", "closed"), 0.9), pytest.param("idioms.O0", (), 0.5, marks=pytest.mark.full)],
)
def test_gdb_comes_to_the_block_by_what_owner_writes(
    tmp_path: Path, name: str, arguments: tuple[str, ...], share: float, kind: str
) -> None:
    """`share`: of blocks that variables lead to by types."""
    gdb = opened(GDB)
    sited = Sited(PROGRAMS / name, tmp_path, *arguments)
    try:
        own = [address for address, each in sited.expected().items() if not each.foreign]
        image = sited.image(kind, tmp_path)
        chosen = random.Random(1).sample(sorted(own), BLOCKS)
        found = [each.json() for each in gdb.run(image, [f"owner {each:#x} --json" for each in chosen])]
        told = {address: each["expression"] for address, each in zip(chosen, found) if each["expression"] is not None}
        assert len(told) >= share * BLOCKS, [each["block"] for each in found if each["expression"] is None]
        assert values(gdb, image, [unfolded(each) for each in told.values()]) == list(told)
        members = {
            (f"&{member(step['type'], step['field'])}", step["offset"])
            for each in found
            for step in each["path"] or ()
            if step["field"] is not None
        }
        assert len(members) > 3
        evaluated = values(gdb, image, [each for each, _ in members])
        # before an array may stand how many there are
        cookies = [
            COUNT_IN_FRONT * (offset - COUNT_IN_FRONT == value) for value, (_, offset) in zip(evaluated, members)
        ]
        assert evaluated == [offset - cookie for cookie, (_, offset) in zip(cookies, members)]
        assert not [each for cookie, (each, _) in zip(cookies, members) if cookie and "0)[" not in each]
    finally:
        sited.end()


def member(type: str, field: str) -> str:
    """Of a struct, or of an array's element."""
    if field.startswith("["):
        element = type.removesuffix("[]")
        return f"(({'' if element.partition(' ')[0] in BUILT_IN else 'struct '}{element} *) 0){field}"
    return f"((struct {type} *) 0)->{field}"


def unfolded(expression: str) -> str:
    """With every step: "->next (5 times)" stands for five."""
    return re.sub(r"(->\w+|\[\d+\]) \((\d+) times\)", lambda found: found[1] * int(found[2]), expression)


def values(gdb: Gdb, image: Image, expressions: list[str]) -> list[int]:
    steps = [{"value": f"(unsigned long) ({each})"} for each in expressions]
    return [each.value for each in gdb.drive(gdb.look_at(image), steps)]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["live", "core"])
@pytest.mark.parametrize(
    ("name", "arguments", "share"),
    [pytest.param("server.O2", ("60", "0"), 0.9, marks=pytest.mark.full), ("orders.O1", ("120", "kept"), 0.9)],
)
def test_keys_are_those_by_which_gdb_finds_the_element(
    tmp_path: Path, name: str, arguments: tuple[str, ...], share: float, kind: str
) -> None:
    """Containers are read by GCC's own printers. What can be sent on has keys on request alone."""
    if not PRINTERS.exists():
        give_up(f"{PRINTERS} is not installed: libstdc++'s printers")
    gdb = opened(GDB)
    sited = Sited(PROGRAMS / name, tmp_path, *arguments)
    try:
        sizes = {address: each.size for address, each in sited.expected().items() if not each.foreign}
        image = sited.image(kind, tmp_path)
        chosen = random.Random(2).sample(sorted(sizes), KEYED)
        told = {}
        for address, answer in zip(
            chosen, gdb.run(image, [f"owner {each:#x} --json --with-values" for each in chosen])
        ):
            expression = answer.json()["expression"]
            if expression is not None:
                told[address] = expression
        assert len(told) >= share * KEYED
        for expression, (plain, screen) in both(gdb, image, {address: told[address] for address in list(told)[:FEW]}):
            bare = plain.json()["expression"]
            assert re.sub(r'\["[^"]*"\]|\[[\w.]+\]', "[]", expression) == re.sub(r"\[#?\d+\]", "[]", bare)
            assert expression in screen.text.splitlines()
        told = {address: re.sub(r" \(.*\)$", "", each) for address, each in told.items()}
        keys = [each for expression in told.values() for each in re.findall(r'\["|\[\d+\]', expression)]
        assert keys.count('["') > 2
        assert len(set(keys)) > 3
        places = evaluated(gdb, image, tmp_path, "place", list(told.values()))
        assert [
            (hex(address), expression, places[expression])
            for address, expression in told.items()
            if not leads_there(places[expression], address, sizes[address])
        ] == []
    finally:
        sited.end()


@pytest.mark.parametrize("kind", ["live", *in_full("core")])
@pytest.mark.parametrize("level", ["O2", *in_full("O0")])
def test_what_a_thread_alone_holds_is_told_by_its_frame(tmp_path: Path, level: str, kind: str) -> None:
    gdb = opened(GDB)
    sited = Sited(PROGRAMS / f"crew.{level}", tmp_path, "20")
    try:
        sizes = {address: each.size for address, each in sited.expected().items() if each.type in ("job", "char")}
        image = sited.image(kind, tmp_path)
        chosen = random.Random(3).sample(sorted(sizes), KEYED)
        found = [each.json()["expression"] for each in gdb.run(image, [f"owner {each:#x} --json" for each in chosen])]
        told = {address: unfolded(each) for address, each in zip(chosen, found) if each is not None}
        assert len(told) == len(chosen)
        assert len({each.partition(" frame ")[0] for each in told.values()}) == CREW
        places = evaluated(gdb, image, tmp_path, "place", list(told.values()))
        assert [
            (hex(address), each, places[each])
            for address, each in told.items()
            if not leads_there(places[each], address, sizes[address])
        ] == []
    finally:
        sited.end()


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "arguments"), [("orders.O2", ("120", "kept")), pytest.param("crew.O2", ("20",), marks=pytest.mark.full)]
)
def test_the_shell_writes_the_same(tmp_path: Path, name: str, arguments: tuple[str, ...]) -> None:
    """Through variables of functions, with keys, threads and frames; of a process and of a core."""
    sited = Sited(PROGRAMS / name, tmp_path, *arguments)
    try:
        own = sorted(address for address, each in sited.expected().items() if not each.foreign)
        image, core = sited.image("live", tmp_path), sited.image("core", tmp_path)
        chosen = random.Random(4).sample(own, FEW)
        ways = [
            [each.json()["expression"] for each in opened(door).run(seen, [asked.format(each) for each in chosen])]
            for door, seen, asked in (
                (GDB, image, "owner {:#x} --json --with-values"),
                (SHELL, image, "owner {:#x} --json --with-values --declared"),
                (SHELL, core, "owner {:#x} --json --with-values --declared"),
            )
        ]
    finally:
        sited.end()
    assert ways == [ways[0]] * 3
    assert all(": " in each for each in ways[0])


def both(gdb: Gdb, image: Image, told: Mapping[int, str]) -> Iterator[tuple[str, tuple[Outcome, Outcome]]]:
    """Each expression with what has no keys, and with the screen."""
    answers = iter(gdb.run(image, [f"owner {each:#x}{more}" for each in told for more in (" --json", "")]))
    return zip(told.values(), zip(answers, answers))


def evaluated(gdb: Gdb, image: Image, folder: Path, what: str, expressions: Sequence[str]) -> dict[str, Any]:
    """By GDB itself: the "place" of each expression, or what is "said" of it."""
    (folder / "expressions.json").write_text(json.dumps(expressions))
    words = {"FOLDER": str(folder), "WHAT": what}
    gdb.do(image, [f"python import runpy; runpy.run_path({str(DRIVER)!r}, {words!r})"])
    return json.loads((folder / "told.json").read_text())


def leads_there(place: object, block: int, size: int) -> bool:
    """The object lies in the block, or points to its start."""
    if not isinstance(place, list):
        return False
    at, length, pointers = place
    return block in pointers or block <= at < at + length <= block + size
