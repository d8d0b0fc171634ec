"""Which structs blocks may be that are known by their size alone, in heaps built in memory."""

from __future__ import annotations

from typing import NamedTuple, Sequence

import pytest
from test_declared import Program

from arenascope.blocks.declared.fitting_structs import fitting_structs

LOST, REQUEST, CHUNK = 40, 144, 160
IDS = 0x1234_5678


class Row(NamedTuple):
    blocks: int
    bytes: int
    samples: Sequence[int]


class Sessions:
    """A program that has lost some of its sessions, of which each has an id in front."""

    def __init__(self) -> None:
        self.program = Program()
        self.types = self.program.types
        self.lost = [self.program.malloc(f"lost {at}", REQUEST) for at in range(LOST)]
        for at, block in enumerate(self.lost):
            self.program.put(block, IDS + at)

    def struct(self, name: str, size: int = REQUEST, pointer: bool = False) -> int:
        first = self.types.to(self.types.void) if pointer else self.types.long
        return self.types.struct(name, size, ("first", 0, first), ("second", 8, self.types.long))

    def may_be(self, row: Row) -> Sequence[str]:
        session = self.program.session
        return fitting_structs(session, [row]).get(row.samples[0], ())

    def look(self) -> Sequence[str]:
        self.program.named()
        session = self.program.session
        session.target.types = self.types  # type: ignore[misc]
        session.block_results.named = self.program.found
        return self.may_be(Row(LOST, LOST * CHUNK, self.lost[:3]))


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


def test_those_for_which_malloc_gives_such_a_block(sessions: Sessions) -> None:
    for size in (128, 136, 137, 152, 153, 160):
        sessions.struct(f"of {size}", size)
    assert sessions.look() == ["of 137", "of 152"]


def test_what_the_blocks_hold_contradicts_some(sessions: Sessions) -> None:
    """A pointer that would lead nowhere, and an enum of which there is no such value."""
    sessions.struct("Session")
    types = sessions.types
    types.struct("Request", 152, ("next", 0, types.to(types.int)))
    types.struct("Flag", REQUEST, ("on", 0, types.add(types.all[types.int]._replace(name="bool", form="boolean"))))
    assert sessions.look() == ["Session"]


def test_what_is_the_systems_or_a_librarys_is_left_out(sessions: Sessions) -> None:
    for name in ("stat", "_IO_FILE", "std::pair<int, int>"):
        sessions.struct(name)
    types = sessions.types
    types.struct("without members", REQUEST)
    number = sessions.struct("with a vtable")
    types.all[number] = types.all[number]._replace(polymorphic=True)
    assert sessions.look() == ()


def test_of_many_that_fit_alike_none_is_told(sessions: Sessions) -> None:
    for name in "ABC":
        sessions.struct(name)
    assert sessions.look() == ["A", "B", "C"]
    sessions.struct("D")
    assert sessions.look() == []


def test_pointers_that_lead_where_they_should_tell_more(sessions: Sessions) -> None:
    types = sessions.types
    for name in "ABCD":
        sessions.struct(name)
    user = types.struct("User", 40, ("id", 0, types.long))
    types.struct("Linked", REQUEST, ("id", 0, types.long), ("user", 8, types.to(user)))
    for at, block in enumerate(sessions.lost):
        sessions.program.put(block, IDS + at, sessions.program.malloc(f"user {at}", 40))
    assert sessions.look() == ["Linked"]


def test_blocks_of_one_size_may_be_of_several_types(sessions: Sessions) -> None:
    """Half of them have an address in front that leads nowhere, the others none."""
    sessions.struct("Request", pointer=True)
    sessions.struct("Session")
    types = sessions.types
    types.struct("Node", REQUEST, ("next", 0, types.to(types.int)))
    for block in sessions.lost[::2]:
        sessions.program.put(block, 0)
    assert sessions.look() == ["Node", "Request", "Session"]


def test_the_programs_structs_are_listed_once(sessions: Sessions) -> None:
    sessions.struct("Session")
    assert sessions.look() == ["Session"]
    others = sessions.may_be(Row(1, CHUNK, sessions.lost[:1]))
    assert others == ["Session"]
    assert sessions.types.structs_asked == 1


def test_blocks_of_several_sizes_may_be_anything(sessions: Sessions) -> None:
    sessions.struct("Session")
    other = sessions.program.malloc("other", 40)
    assert sessions.look() == ["Session"]
    asked = sessions.types.structs_asked
    assert sessions.may_be(Row(2, CHUNK + 48, [sessions.lost[0], other])) == ()
    assert sessions.types.structs_asked == asked
