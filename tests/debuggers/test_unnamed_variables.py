"""Whose blocks are, in a program without symbols: an array is one owner, named by where it begins."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest
from doors import DOORS, NEWEST, Live
from looks import opened, stripped
from partial import look
from schemas import valid
from subjects import Subject

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="code of x86-64 alone is understood")


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    held = Subject("holding", guard_regions=False)
    held.program = stripped(held.program)
    with held:
        yield held


def holders(document: dict[str, Any]) -> list[str]:
    """Which of the program's variables the rows are, by the table of symbols of the program that was stripped."""
    names = subprocess.run(["nm", "-S", Subject("holding").program], capture_output=True, text=True, check=True).stdout
    found = []
    for each in document["owners"]:
        if each["kind"] == "global" and each["name"].startswith("holding"):
            address = int(each["name"].partition("+")[2].split(" ")[0], 16)
            for start, size, name in re.findall(r"^([0-9a-f]+) ([0-9a-f]+) \w (\S+)$", names, re.MULTILINE):
                if int(start, 16) <= address < int(start, 16) + int(size, 16):
                    found.append(name)
    return found


def assert_the_array_is_one(found: list[str]) -> None:
    """It has thousands of pointers, and comes first."""
    assert found[0] == "ledger"
    assert found.count("ledger") == 1


def asked(image: Path, words: str) -> dict[str, Any]:
    code, said, complained = look(image, words, "--json")
    assert code == 0, complained
    found: dict[str, Any] = valid(json.loads(said))
    return found


def test_an_array_is_one_owner(subject: Subject, tmp_path: Path) -> None:
    saved = tmp_path / "saved.core"
    assert look(Path(str(subject.pid)), f"save {saved}")[0] == 0
    for image in (Path(str(subject.pid)), saved):
        document = asked(image, "owners --limit 0")
        assert_the_array_is_one(holders(document))
        assert document["owners"][0]["blocks"] > 1000


@pytest.mark.parametrize("door", [name for name in NEWEST if name != "shell"])
def test_in_a_debugger(subject: Subject, door: str) -> None:
    (owners,) = opened(DOORS[door]).run(Live(subject.pid, subject.program), ["owners --limit 0 --json"])
    assert_the_array_is_one(holders(owners.json()))
