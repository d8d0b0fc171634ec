"""heap leaks, owners and refs where there is enough to follow that numpy is loaded: against a program that counts."""

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
    rows = asked(saved, f"owners --limit 0 --graph {tmp_path / 'web.graph'}")["owners"]
    # the second time out of the file
    assert asked(saved, f"owners --limit 0 --graph {tmp_path / 'web.graph'}")["owners"] == rows
    held = {each["name"]: (each["blocks"], each["retained_bytes"]) for each in rows if each["kind"] == "global"}
    assert (held["alone"], held["chain"]) == (alone, chain)
    shared = [each for each in rows if each["kind"] == "shared"]
    # what two others lead to is not theirs, however little it is
    theirs = [each for each in shared if {one["name"] for one in each["leading"]["owners"]} == {"left", "right"}]
    assert tuple(sum(each[key] for each in theirs) for key in ("blocks", "retained_bytes")) == both
    # libc has some that two lead to, besides
    assert 0 <= sum(each["blocks"] for each in shared) - both[0] <= LIBC
    assert 0 <= sum(each["retained_bytes"] for each in shared) - both[1] <= LIBC * 1024
    (lost,) = asked(saved, "leaks", LOST)["leaks"]
    assert (lost["blocks"] + lost["indirect_blocks"], lost["bytes"] + lost["indirect_bytes"]) == nobody
    # in a web of that size each leads to some thirty others
    refs = asked(saved, f"refs {lost['samples'][0]}")["refs"]
    assert all(each["kind"] == "block" for each in refs)
    assert asked(saved, f"owner {lost['samples'][0]}")["path"] is None
