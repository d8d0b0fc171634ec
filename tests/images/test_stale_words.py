"""Words that hold no pointer: what only they lead to is told so, and is not called lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from partial import beside_each_other
from shell_door import ask_whole, look
from subjects import Subject

pytestmark = pytest.mark.xdist_group("stale words")

HELD = "-"
"""Of a block that a pointer leads to as well."""
BUFFER = 4096
"""Of struct Stream, in front of its pointer."""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, tuple[str, str]]]:
    """With why each block's word holds nothing, and what kind of root leads to it."""
    saved = tmp_path_factory.mktemp("stale") / "saved.core"
    with Subject("stale") as subject:
        rows = [each.split("\t") for each in (subject.folder / "truth" / "stale.txt").read_text().splitlines()]
        assert look(subject.pid, f"save {saved}")[0] == 0
    return saved, {int(address, 16): (why, kind) for address, why, kind in rows}


def test_nothing_is_lost(core: tuple[Path, dict[int, tuple[str, str]]]) -> None:
    image, blocks = core
    assert len(blocks) >= 5
    found = ask_whole(image, "leaks")
    assert found["leaks"] == []
    assert found["stale"]["blocks"] == sum(why != HELD for why, _ in blocks.values())
    told = {int(block, 16): each["why"] for each in found["stale_words"] for block in each["samples"]}
    assert told == {block: why for block, (why, _) in blocks.items() if why != HELD}


def test_each_block_is_held_by_its_word(core: tuple[Path, dict[int, tuple[str, str]]]) -> None:
    image, blocks = core
    commands = ("owner", "refs")
    looks = [f"{command} {address:#x}" for command in commands for address in blocks]
    answers = iter(beside_each_other(image, looks))
    owner, refs_of = ({address: next(answers) for address in blocks} for _ in commands)
    wrong = []
    for address, (why, kind) in blocks.items():
        found = owner[address]
        assert found["complete"], found["problems"]
        expected = None if why == HELD else why
        ways = [each["stale"] for each in found["path"]]
        if (found["held_by"]["stale"], found["held_by"]["kind"]) != (expected, kind):
            wrong.append((why, found))
        if ways != [*[None] * (len(ways) - 1), expected]:
            wrong.append((why, found))
        if why == HELD and found["path"][-1]["offset"] not in (None, BUFFER):
            wrong.append((why, found))
        refs = {each["stale"] for each in refs_of[address]["refs"]}
        if refs != ({None, "stdio-buffer"} if why == HELD else {expected}):
            wrong.append((why, refs))
    assert wrong == []


def test_rows_of_their_own(core: tuple[Path, dict[int, tuple[str, str]]]) -> None:
    """What a stale word leads to is in no other row, and is nobody's share."""
    image, blocks = core
    rows = ask_whole(image, "owners --limit 0")["owners"]
    stale = [each for each in rows if each["stale"] is not None]
    assert sum(each["blocks"] for each in stale) == sum(why != HELD for why, _ in blocks.values())
    assert {each["stale"] for each in stale} == {why for why, _ in blocks.values()} - {HELD}
    (held,) = (each for each in rows if each["name"] == "g_held")
    assert held["retained_blocks"] == held["blocks"] == 1
    (vector,) = (each for each in rows if each["name"] == "g_vector" and each["stale"] is None)
    assert vector["retained_blocks"] == vector["blocks"] == 1
