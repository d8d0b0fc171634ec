"""Blocks after a header of the program's own, and large ones several pointers away, are called what they are."""

from __future__ import annotations

from collections import Counter

from planted import kinds_by_block
from subjects import Subject

from arenascope.gather.single import kinds_of
from arenascope.session import Session
from arenascope.shell import ShellDoor


def test_what_comes_after_a_programs_own_header_is_told() -> None:
    with Subject("fronts") as subject:
        rows = [line.split("\t") for line in (subject.folder / "truth" / "fronts.txt").read_text().splitlines()]
        planted = {int(address, 16): name for address, name in rows}
        session = Session(ShellDoor(str(subject.pid), "none", ()).target())
        found = kinds_by_block(session)
        header, word = session.layout.header, session.layout.word
        placed = [(block - header, session.memory.word(block - word) & ~7) for block in planted]
        alone = kinds_of(session, placed)
    assert len(planted) > 300
    wrong = Counter((name, found[block].name) for block, name in planted.items() if found[block].name != name)
    assert not wrong
    # one row for each
    assert len({found[block] for block in planted}) == len(set(planted.values()))
    # what only a way leads to is a guess, what a header says is none
    assert {name for block, name in planted.items() if not found[block].certain} == {
        "g_cache->+24->+8 body",
        "g_large body",
        "g_links body",
        "text, ASCII",
    }
    told = {name: alone[block - header].name for block, name in planted.items() if not name.endswith("body")}
    assert told == {name: name for name in told}
