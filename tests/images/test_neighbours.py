"""Memory of the program's own beside a library's variables, or malloc's own blocks, in one mapping with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from looks import Live
from marks import in_full
from shell_door import SHELL

POOL, BLOCKS, EACH = 32 << 20, 500, 2000
SOURCE = Path(__file__).with_name("neighbours.c").read_text()


def lines_of(pid: int, address: int) -> list[str]:
    """The mapping that the address lies in, and the one in front of it."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    spans = [[int(each, 16) for each in line.split()[0].split("-")] for line in lines]
    at = next(at for at, (start, end) in enumerate(spans) if start <= address < end)
    return lines[at - 1 : at + 1]


def size_of(line: str) -> int:
    start, end = (int(each, 16) for each in line.split()[0].split("-"))
    return end - start


@pytest.mark.parametrize("beside", ["blocks", *in_full("library")])
def test_what_lies_there_is_told_apart(build: Any, start: Any, beside: str) -> None:
    program = build(SOURCE, f"-DBLOCKS={BLOCKS}", f"-DEACH={EACH}", "-ldl")
    subject = start(program, beside, str(POOL))
    pool = subject.facts["pool"]
    before, own = lines_of(subject.pid, pool)
    if beside == "library":
        # .bss of libm ends in its last page of .data, or this mapping begins with it
        assert "libm" in before
        assert size_of(own) >= POOL
    else:
        assert size_of(own) > POOL + (2 << 20)
    image = Live(subject.pid, program)
    commands = (
        "report --json",
        "mappings --json",
        "owners --json",
        f"refs {pool:#x} --json",
        f"owner {pool:#x} --json",
    )
    report, mappings, owners, refs, owner = (each.json() for each in SHELL.run(image, commands))
    largest = report["other_mappings"][0]
    assert (largest["name"], int(largest["address"], 16)) == ("", pool)
    assert largest["bytes"] == pytest.approx(POOL, abs=1 << 16)
    (row,) = [each for each in mappings["mappings"] if int(each["address"], 16) <= pool < int(each["end"], 16)]
    assert not str(row["name"]).startswith(".bss") or str(row["name"]).endswith(" and more")
    # nothing else leads to what the pool has
    held = {each["kind"]: each["retained_bytes"] for each in owners["owners"] if each["retained_bytes"] > 1 << 16}
    assert held["mapping"] == pytest.approx(BLOCKS * EACH, rel=0.02)
    assert held.get("global", 0) == (0 if beside == "library" else pytest.approx(4 << 20, rel=0.02))
    for document in (refs, owner):
        assert (document["block"]["bytes"], document["block"]["state"]) == (POOL, "mapping")
    # glibc 2.43 leaves addresses of it in a register and on the stack
    plain = [each for each in refs["refs"] if each["kind"] not in ("register", "stack")]
    assert [(each["kind"], each["name"], each["into"]) for each in plain] == [("global", "pool", 0)]
    assert [each["name"] for each in owner["path"]] == ["pool"]
