"""heap leaks, owners and refs where there is much to follow: against a program that counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell_door import ask_whole, look
from subjects import Subject

LOST = 1
LIBC = 4


@pytest.mark.full
def test_a_web_of_pointers(tmp_path: Path) -> None:
    saved = tmp_path / "saved.core"
    with Subject("web", "20000") as subject:
        lines = (subject.folder / "truth" / "web.txt").read_text().splitlines()
        alone, both, nobody, chain = (tuple(map(int, line.split())) for line in lines)
        assert look(subject.pid, f"save {saved}")[0] == 0
    rows = ask_whole(saved, "owners --limit 0")["owners"]
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
    (lost,) = ask_whole(saved, "leaks", status=(LOST,))["leaks"]
    assert (lost["blocks"] + lost["indirect_blocks"], lost["bytes"] + lost["indirect_bytes"]) == nobody
    # in a web of that size each leads to some thirty others
    refs = ask_whole(saved, f"refs {lost['samples'][0]}")["refs"]
    assert all(each["kind"] == "block" for each in refs)
    assert ask_whole(saved, f"owner {lost['samples'][0]}")["path"] is None
