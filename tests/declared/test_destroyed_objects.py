"""What is left of objects whose owners are gone holds nothing, though weak pointers keep their memory."""

from __future__ import annotations

import json
import shutil
from itertools import chain
from typing import Any, Iterator, NamedTuple

import pytest
from doors import Live
from looks import give_up, opened
from marks import full_after
from schemas import valid
from shell_door import SHELL
from sites import PROGRAMS, is_rust
from subjects import Started

pytestmark = pytest.mark.xdist_group("destroyed objects")
BUILDS = [f"{name}.{level}" for level in ("O2", "O1", "O0") for name in ("watched", "watched.rs", "watched.libc++")]
DESTROYED = "destroyed"
HOLDS = {
    "lost": {DESTROYED},
    "shared": {DESTROYED, None},
    # the weak pointer still has the object's address
    "apart": {DESTROYED, None},
    "living": {None},
    "closing": {None},
}
"""By what leads to a block, as the program tells it: why these words are no pointers."""


class Watched(NamedTuple):
    image: Live
    blocks: dict[str, list[str]]
    """The addresses of blocks, by what leads to them."""

    def ask(self, *commands: str, declared: bool = True) -> list[dict[str, Any]]:
        option = "--declared" if declared else "--no-declared"
        found = opened(SHELL).run(self.image, [f"{each} --json {option}" for each in commands])
        # leaks ends with 1 where something is lost
        return [valid(json.loads(each.text)) for each in found]


@pytest.fixture(scope="module", params=full_after(2, BUILDS))
def watched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    program, file = PROGRAMS / request.param, tmp_path_factory.mktemp("watched") / "truth"
    if is_rust(program.name) and not shutil.which("rustc"):
        give_up("rustc is not installed")
    if not program.exists():
        pytest.skip(f"{program.name} is not built: make fixtures")
    with Started(program, file) as running:
        assert running.said.split() == ["ready", str(running.pid)]
        blocks: dict[str, list[str]] = {}
        for line in file.read_text().splitlines():
            what, address = line.split("\t")
            blocks.setdefault(what, []).append(address)
        yield Watched(Live(running.pid, program), blocks)


def is_libcxx(watched: Watched) -> bool:
    return "libc++" in watched.image.program.name


def test_what_only_a_destroyed_object_leads_to_is_lost(watched: Watched) -> None:
    """And nothing else is: not what an object leads to while its destructor runs."""
    (found,) = watched.ask("leaks")
    rows = [each for each in found["leaks"] if each["strength"] == "definite"]
    assert sum(each["blocks"] for each in rows) == len(watched.blocks["lost"]) == 100
    assert {*chain(*(each["samples"] for each in rows))} <= {*watched.blocks["lost"]}
    assert found["stale"]["blocks"] == 0


def test_what_a_destroyed_object_leads_to_is_others_alone(watched: Watched) -> None:
    (found,) = watched.ask("owners --limit 0")
    name = "watched::WORLD.Some.0" if is_rust(watched.image.program.name) else "g_pages"
    (row,) = [each for each in found["owners"] if each["name"] == name]
    assert row["retained_blocks"] == row["blocks"] >= len(watched.blocks["shared"]) == 100


def test_its_words_are_told(watched: Watched) -> None:
    asked = {each: watched.blocks[each][-1] for each in HOLDS if each in watched.blocks}
    found = watched.ask(*(f"refs {address}" for address in asked.values()))
    expected = {each: HOLDS[each] for each in asked}
    if is_libcxx(watched):
        # what else its control block has beside the pointer is not known
        expected["apart"] = {None}
    told = {what: {ref["stale"] for ref in each["refs"]} - {"vector-register"} for what, each in zip(asked, found)}
    assert told == expected
    (owner,) = watched.ask(f"owner {asked['lost']}")
    assert owner["held_by"]["kind"] == "unreached"


def test_vtables_tell_it_without_types(watched: Watched) -> None:
    """Rust has none."""
    (found,) = watched.ask("leaks", declared=False)
    rows = [each for each in found["leaks"] if each["strength"] == "definite"]
    told = 0 if is_rust(watched.image.program.name) else len(watched.blocks["lost"])
    # in libc++ it takes two weak pointers to tell it from what is free: every second object has them
    assert sum(each["blocks"] for each in rows) == told // (2 if is_libcxx(watched) else 1)
