"""Blocks after a header of the program's own, and large ones several pointers away, are called what they are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pythons import resting
from shell_door import ask
from subjects import Subject
from test_types import kinds_by_block

from arenascope.blocks.single_blocks import kinds_of
from arenascope.cli.shell import How, ShellDoor
from arenascope.session.session import Session


def test_what_comes_after_a_programs_own_header_is_told() -> None:
    with Subject("fronts") as subject:
        rows = [line.split("\t") for line in (subject.folder / "truth" / "fronts.txt").read_text().splitlines()]
        planted = {int(address, 16): name for address, name in rows}
        session = Session(ShellDoor(str(subject.pid), How("none")).target())
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


def test_a_pointer_past_such_a_header_is_certain() -> None:
    """Such a program has no others: by them alone its lists hang together."""
    with Subject("fronts") as subject:
        rows = [line.split("\t") for line in (subject.folder / "truth" / "fronts.txt").read_text().splitlines()]
        place = Path(str(subject.pid))
        (large,) = (address for address, name in rows if name == "g_large body")
        refs = [each for each in ask(place, f"refs {large}")["refs"] if each["name"] == "g_large"]
        # what only complements lead to is lost
        lost = ask(place, "leaks", status=(1,))["leaks"]
    assert [(each["into"], each["strength"]) for each in refs] == [(24, "definite")]
    bodies = {name for _, name in rows if name.endswith(" body")}
    assert bodies.isdisjoint(row["type"] for row in lost)


OBJECTS = """
import sys
class Plain: pass
class Slotted: __slots__ = ("kept",)
plain, slotted = Plain(), Slotted()
kept = [plain, slotted]
print(id(plain), id(slotted), 32 if sys.version_info >= (3, 11) else 16, flush=True)
sys.stdin.read()
"""


def test_a_pointer_to_an_object_past_pythons_own_words_is_certain() -> None:
    """The collector's two, and since 3.11 two more of what has a __dict__."""
    with resting(OBJECTS, PYTHONMALLOC="malloc") as process:
        plain, slotted, front = map(int, process.said.split())
        for user, into in ((plain, front), (slotted, 16)):
            found = ask(process.pid, f"refs {user:#x}")["refs"]
            refs = [each for each in found if each["into"] == into and each["encoding"] is None]
            # the list's and the module's
            assert len(refs) >= 2
            assert {each["strength"] for each in refs} == {"definite"}
