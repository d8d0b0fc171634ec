"""`heap types NAME --values`: how many objects have which value is what the program itself counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, NamedTuple, Sequence

import pytest
from documents import ask_door
from doors import GDB, Door, Image, Live
from looks import failure_id, opened
from marks import in_full
from shell_door import SHELL
from sites import PROGRAMS, Sited

pytestmark = pytest.mark.xdist_group("declared containers")


class Members(NamedTuple):
    objects: int
    of: dict[str, dict[str, Any]]


def members(door: Door, image: Image, type: str, words: str = "--with-values") -> Members:
    (found,) = ask_door(door, image, f"types {type} --values {words}")
    values = found["values"]
    return Members(values["objects"], {each["member"]: each for each in values["members"]})


@pytest.fixture(scope="module", params=[("daemon.O2", "300", "closed"), *in_full(("orders.O2", "400", "index"))])
def sited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sited]:
    program, *arguments = request.param
    running = Sited(PROGRAMS / program, tmp_path_factory.mktemp("values"), *arguments)
    yield running
    running.end()


@pytest.mark.needs_gdb
@pytest.mark.parametrize("kind", ["live", *in_full("core")])
def test_values_are_what_the_program_counts(sited: Sited, kind: str, tmp_path: Path) -> None:
    image = sited.image(kind, tmp_path)
    haves, spans = sited.counted("have"), sited.counted("span")
    found = {type: members(GDB, image, type) for type in {type for type, *_ in haves}}
    for type, member, value, objects in haves:
        frequent = {each["value"]: each["objects"] for each in found[type].of[member]["most_frequent"]}
        assert frequent.get(value, 0) == int(objects), (type, member, frequent)
    for type, member, least, greatest in spans:
        each = found[type].of[member]
        assert [each["least"], each["greatest"]] == [int(least), int(greatest)], (type, member)


SECRETS: Sequence[str] = ("user-1@example.org", "Cookie", "DONE", "user-")


@pytest.mark.full
def test_documents_have_values_where_that_is_asked_for(tmp_path: Path) -> None:
    """Without: how many there are, how long they are, how often the most frequent one occurs."""
    sited = Sited(PROGRAMS / "daemon.O2", tmp_path, "100", "closed")
    try:
        image, door = Live(sited.pid, sited.program), opened(SHELL)
        words = "types session --values --declared"
        plain, told, screen = door.run(image, [f"{words} --json", f"{words} --json --with-values", words])
        header = members(SHELL, image, "header", "")
        wrong = door.run(image, ["types nothing --values --json --declared", "types --values --json"])
    finally:
        sited.end()
    assert not [each for each in SECRETS if each in plain.text]
    assert '"DONE"' in told.text
    assert "DONE" in screen.text
    name = header.of["name"]
    assert (name["distinct"], name["least"], name["greatest"]) == (3, 6, 15)
    assert [each["value"] for each in name["most_frequent"]] == [None] * 3
    assert [failure_id(each.text) for each in wrong] == ["no-type", "usage"]
