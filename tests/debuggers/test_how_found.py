"""version --full, in every door: which candidates there were, what was taken, and why nothing else was.

GDB's own symbols and the subjects themselves say where things are.
"""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Any, Optional

import pytest
from doors import DOORS, GDB, NEWEST, Live, give_up
from looks import opened
from marks import full_after, in_full
from shell_door import SHELL
from subjects import Subject, compiled, started

FULL = "version --full --json"
FAKE = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct { long words[300]; } main_arena = {{7, 7, 7}};
int main(void) {
    volatile char *block = malloc(1000);
    block[0] = (char)main_arena.words[0];
    printf("%lx\\n", (unsigned long)&main_arena);
    fflush(stdout);
    getchar();
    return 0;
}
"""


Places = dict[str, Optional[int]]


def ids(said: list[dict[str, Any]]) -> set[str]:
    return {each["id"] for each in said}


def taken(document: dict[str, Any], kind: str) -> dict[str, Any]:
    """The one that was taken: just one is, and stands first; against each other something is said."""
    first, *others = document["candidates"][kind]
    assert first["taken"]
    assert first["for"]
    for each in others:
        assert not each["taken"]
        assert each["against"], each
    return first


@pytest.fixture(scope="module")
def places(subject: Subject) -> Places:
    """Where GDB has main_arena and mp_; and its fastbins, None since glibc 2.43."""
    why_not = GDB.available()
    if why_not:
        give_up(why_not)
    names = ("main_arena", "mp_", "main_arena.fastbinsY")
    steps = [{"value": f"(unsigned long)&{name}"} for name in names]
    found = GDB.drive(GDB.look_at(Live(subject.pid, subject.program)), steps, load=())
    return {name: each.value for name, each in zip(names, found)}


@pytest.mark.parametrize("name", full_after(1, NEWEST[::-1]))
@pytest.mark.parametrize("symbols", [True, *in_full(False)], ids=["symbols", "stripped"])
def test_what_was_taken_is_what_gdb_says(name: str, symbols: bool, subject: Subject, places: Places) -> None:
    door = opened(DOORS[name])
    full, screen, plain = door.run(
        Live(subject.pid, subject.program), [FULL, "version --full", "version --json"], symbols
    )
    document = full.json()
    assert "candidates" not in plain.json()
    main, params, layout = (taken(document, kind) for kind in ("main_arena", "mp_", "layout"))
    assert main["name"] == f"{places['main_arena']:#x}"
    assert params["name"].startswith(f"{places['mp_']:#x}, ")
    assert layout["name"] in (f"glibc {platform.libc_ver()[1]}", "debug information")
    assert not [said for each in (main, params, layout) for said in each["against_records"]]
    for each, by_symbol in ((main, "symbol-leads-here"), (params, "by-symbol-distance")):
        assert (by_symbol in ids(each["for_records"])) == symbols
    # another release has its bins elsewhere
    losers = {each["name"]: ids(each["against_records"]) for each in document["candidates"]["layout"]}
    assert "bins-elsewhere" in losers["glibc 2.17"]
    for kind in ("thread_arena", "thread_caches"):
        assert f"  {taken(document, kind)['name']} (taken)" in screen.text
    assert f"  {main['name']} (taken)\n    + {main['for'][0]}" in screen.text
    for each in document["candidates"]["layout"]:
        assert all(f"    - {text}" in screen.text for text in each["against"])
    # a malloc_state with fastbins is that of several releases
    if places["main_arena.fastbinsY"] is not None:
        assert {"another-is-nearer", "another-is-newer"} & {name for each in losers.values() for name in each}


def main_arena_bytes(xml: str) -> int:
    found = re.search(r'<heap nr="0">.*?<system type="current" size="(\d+)"', xml, re.DOTALL)
    assert found is not None
    return int(found.group(1))


@pytest.mark.parametrize("name", full_after(1, NEWEST))
def test_of_two_libcs_the_other_says_why_it_was_not_taken(name: str) -> None:
    door = opened(DOORS[name])
    with Subject("dlmopen") as subject:
        own, second = (
            main_arena_bytes((subject.folder / "truth" / file).read_text()) for file in ("info.xml", "info2.xml")
        )
        first, other = (
            each.json() for each in door.run(Live(subject.pid, subject.program), [FULL, f"{FULL} --libc 1"], True)
        )
    main, further = taken(first, "main_arena"), taken(other, "main_arena")
    assert {each["name"] for each in first["candidates"]["main_arena"]} == {main["name"], further["name"]}
    for candidate, size in ((main, own), (further, second)):
        (has,) = [each for each in candidate["for_records"] if each["id"] == "has-bytes"]
        assert has["figures"] == {"bytes": size}
    assert "grows-by-brk" in ids(main["for_records"])
    (lost,) = [each for each in first["candidates"]["main_arena"] if not each["taken"]]
    assert ids(lost["against_records"]) >= {"does-not-grow-by-brk", "of-another-libc"}


def test_a_main_arena_of_the_programs_own_is_none(tmp_path: Path) -> None:
    """The shell asks the program's symbols, too, for it may be static: this one says itself where it has that name."""
    program = compiled(FAKE, tmp_path, "-O1", "-g")
    with started(program) as process:
        fake = f"0x{process.said.strip()}"
        (outcome,) = SHELL.run(Live(process.pid, program), [FULL], True)
    document = outcome.json()
    candidates = {each["name"]: each for each in document["candidates"]["main_arena"]}
    assert taken(document, "main_arena")["name"] == document["glibc"]["main_arena"] != fake
    assert "symbol-leads-here" in ids(candidates[fake]["for_records"])
    assert "no-bins-behind" in ids(candidates[fake]["against_records"])
