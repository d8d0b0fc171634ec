"""Blocks that are known by their size alone: which structs they may be, where it is known what each of them is."""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple, Sequence

import pytest
from doors import Live
from looks import opened
from marks import full_after
from shell_door import SHELL, ask
from sites import PROGRAMS, Sited
from spelling import canonical

pytestmark = pytest.mark.xdist_group("declared names")


class Planted(NamedTuple):
    """A program, what it is started with, and what its lost blocks can be by what they hold, the true type too."""

    program: str
    arguments: Sequence[str]
    true: str
    allowed: Sequence[str]


PLANTED = [
    Planted("lost.O2", ("sessions",), "session", ["sample", "session"]),
    Planted("lost.O0", ("requests",), "request", ["request"]),
    Planted("lost.O0", ("sessions",), "session", ["sample", "session"]),
    Planted("lost.O2", ("requests",), "request", ["request"]),
    Planted("server.O0", ("600", "400"), "Lost", ["Lost"]),
    Planted("server.O2", ("600", "400"), "Lost", ["Lost"]),
]


class Seen(NamedTuple):
    sited: Sited
    planted: Planted


@pytest.fixture(
    scope="module",
    params=full_after(1, PLANTED),
    ids=lambda planted: f"{planted.program}-{planted.arguments[0]}",
)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    planted: Planted = request.param
    sited = Sited(PROGRAMS / planted.program, tmp_path_factory.mktemp("guesses"), *planted.arguments)
    yield Seen(sited, planted)
    sited.end()


def rows(seen: Seen, command: str) -> list[dict[str, Any]]:
    return ask(seen.sited.pid, f"{command} --limit 0 --declared", status=(0, 1))[command]


@pytest.mark.parametrize("command", ["types", "leaks"])
def test_the_true_type_is_among_a_few(seen: Seen, command: str) -> None:
    found = rows(seen, command)
    guessed = [each for each in found if each["may_be"]]
    blocks = seen.sited.expected()
    largest = max(guessed, key=lambda each: each["bytes"])
    assert largest["may_be"] == seen.planted.allowed
    # a guess may be wrong: of server's lost std::string objects one is as large as what else is lost
    wrong = [
        row
        for row in guessed
        if not {canonical(blocks[int(each, 16)].type) for each in row["samples"]} & {*row["may_be"]}
    ]
    assert sum(row["blocks"] for row in wrong) <= 1, wrong
    assert largest not in wrong
    if command == "types":
        # no name, and as certain as before
        assert {(each["kind"], each["certain"], each["how"]) for each in guessed} == {("size", True, "its size")}


@pytest.mark.parametrize("values", ["", "--values "])
def test_who_asks_for_the_type_is_told_which_blocks_may_be(seen: Seen, values: str) -> None:
    """Whether any block is known to be one, or none."""
    image = Live(seen.sited.pid, seen.sited.program)
    asked, whole = opened(SHELL).run(image, [f"types {seen.planted.true} {values}--declared", "types --declared"])
    largest = max(rows(seen, "types"), key=lambda each: len(each["may_be"]) and each["bytes"])
    said = asked.error or asked.text
    assert all(each in said for each in (largest["type"], f"{largest['blocks']:,}", largest["samples"][0]))
    assert bool(asked.error) == (seen.planted.true != "request")
    (line,) = [each for each in whole.text.splitlines() if each.startswith(f"{largest['type']} may be")]
    assert all(each in line for each in largest["may_be"])
    assert len(line) <= 80
