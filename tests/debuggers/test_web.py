"""heap leaks, owners and refs where there is much to follow: against a program that counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from partial import look
from schemas import valid
from subjects import Subject

LOST = 1
LIBC = 4


def asked(image: Path, words: str, status: int = 0) -> dict[str, Any]:
    code, said, complained = look(image, words, "--json")
    assert code == status, complained
    found: dict[str, Any] = valid(json.loads(said))
    assert found["complete"], found["problems"]
    return found


@pytest.mark.full
def test_a_web_of_pointers(tmp_path: Path) -> None:
    saved = tmp_path / "saved.core"
    with Subject("web", "20000") as subject:
        lines = (subject.folder / "truth" / "web.txt").read_text().splitlines()
        alone, both, nobody, chain = (tuple(map(int, line.split())) for line in lines)
        assert look(Path(str(subject.pid)), f"save {saved}")[0] == 0
    rows = asked(saved, "owners --limit 0")["owners"]
    held = {each["name"]: (each["blocks"], each["retained_bytes"]) for each in rows if each["kind"] == "global"}
    assert (held["alone"], held["chain"]) == (alone, chain)
    # what two lead to has one main holder, and neither holds it alone, however little it is
    theirs = [each for each in rows if each["name"] in ("left", "right")]
    assert tuple(sum(each[key] for each in theirs) for key in ("blocks", "held_bytes")) == both
    assert [each["retained_bytes"] for each in theirs] == [0, 0]
    assert {one["name"] for each in theirs for one in each["leading"]["owners"]} == {"left", "right"}
    # libc has some that two lead to, besides
    shared = [each for each in rows if each["leading"] and each not in theirs]
    assert 0 <= sum(each["blocks"] for each in shared) <= LIBC
    assert 0 <= sum(each["held_bytes"] for each in shared) <= LIBC * 1024
    (lost,) = asked(saved, "leaks", LOST)["leaks"]
    assert (lost["blocks"] + lost["indirect_blocks"], lost["bytes"] + lost["indirect_bytes"]) == nobody
    # in a web of that size each leads to some thirty others
    refs = asked(saved, f"refs {lost['samples'][0]}")["refs"]
    assert all(each["kind"] == "block" for each in refs)
    assert asked(saved, f"owner {lost['samples'][0]}")["path"] is None
