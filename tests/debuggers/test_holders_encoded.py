"""What is held by pointers alone that are written otherwise is its holder's: owners, report and types against a program
that says what it holds so and what it dropped."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple

import pytest
from partial import beside_each_other
from shell_door import ask_whole, look
from subjects import Started, compiled

from arenascope.present.screens.owner_lines import NOBODY, NOTHING

pytestmark = pytest.mark.xdist_group("encoded")

PAGE = 4096

PROGRAM = Path(__file__).with_name("holders_encoded.c").read_text()


class Running(NamedTuple):
    pid: int
    held: int
    """Bytes that tagged pointers hold, half of the blocks by `tab`, half by `chain`."""
    lost: int
    shared: str
    """The address of what a mapping leads to as well."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(PROGRAM, tmp_path_factory.mktemp("encoded"), "-O1")


@contextmanager
def running(program: Path, *, plain: int, held: int, lost: int, shared: bool = False) -> Iterator[Running]:
    with Started(program, plain, held, lost, *(["shared"] if shared else [])) as process:
        held_bytes, lost_bytes, address = process.said.split()
        yield Running(process.pid, int(held_bytes), int(lost_bytes), address)


def blocks_of(document: Mapping[str, Any]) -> dict[str, int]:
    """By whose they are: an owner's name, or what kind of nobody."""
    return {each["name"] or each["kind"]: each["blocks"] for each in document["owners"]}


HELD, LOST = 2000, 3000


def test_whoever_holds_it_so_is_its_owner(program: Path) -> None:
    with running(program, plain=100, held=HELD, lost=LOST) as seen:
        looks = "owners --limit 0", "report --owners", "types --owners --limit 0"
        owners, report, types = (ask_whole(seen.pid, words) for words in looks)
        screen = " ".join(look(seen.pid, "report --owners")[1].split())
    assert blocks_of(owners).items() >= {"tab": HELD, "chain": HELD, "unreached": LOST}.items()
    sizes = {each["name"] or each["kind"]: each["retained_bytes"] for each in owners["owners"]}
    assert (sizes["tab"] + sizes["chain"], sizes["unreached"]) == (seen.held, seen.lost)
    assert sum(sizes.values()) == owners["live_bytes"]
    held = report["held"]
    assert (held["lost_bytes"], held["lost_blocks"], held["unknown_bytes"]) == (seen.lost, LOST, 0)
    assert [each["name"] for each in held["owners"][:2]] == ["tab", "chain"]
    (mend,) = [each for each in report["advice"] if each["id"] == "mend-leak"]
    # whole pages, of which the first and the last have what others hold
    assert seen.lost - 2 * PAGE <= mend["effect_bytes"] <= seen.lost
    assert not mend["bound"]
    assert "other owners" not in screen
    keepers: Counter[str] = Counter()
    for each in types["types"]:
        if each["held_by"] is not None:
            keepers[each["held_by"]["name"] or each["held_by"]["kind"]] += each["held_by"]["blocks"]
    assert keepers.items() >= {"tab": HELD, "chain": HELD, "unreached": LOST}.items()


@pytest.mark.full
def test_the_way_to_it_begins_there(program: Path, tmp_path: Path) -> None:
    """By pointers that are no plain ones, too, and where a plain one of a lesser root leads to it."""
    core = tmp_path / "core"
    with running(program, plain=100, held=HELD, lost=0, shared=True) as seen:
        assert look(seen.pid, f"save {core}")[0] == 0
    types = ask_whole(core, "types --owners --limit 0")["types"]
    samples = {each["held_by"]["name"]: each["samples"] for each in types if each["held_by"] is not None}
    ways: dict[str, list[Any]] = {}
    for name, address in (("tab", seen.shared), *((name, samples[name][0]) for name in ("tab", "chain"))):
        path = ways[address] = ask_whole(core, f"owner {address}")["path"]
        assert (path[0]["kind"], path[0]["name"].split("+")[0]) == ("global", name), path
        assert path[0]["encoding"] == "tagged"
        assert all(each["address"] is not None for each in path)
    # it has two plain ones
    assert {"block", "mapping"} <= {each["kind"] for each in ask_whole(core, f"refs {seen.shared}")["refs"]}
    assert [each["encoding"] for each in ways[seen.shared]] == ["tagged", None]


@pytest.mark.full
def test_a_trifle_is_lost_only_after_a_second_look(program: Path, tmp_path: Path) -> None:
    """Owners do not look again for a trifle, and say so; whoever has looked knows better."""
    core = tmp_path / "core"
    with running(program, plain=64 << 20, held=5, lost=5) as seen:
        assert look(seen.pid, f"save {core}")[0] == 0
    plain = ask_whole(core, "owners --limit 0")
    assert blocks_of(plain)["unreached"] == 15
    assert f"{NOTHING} (" in look(core, "owners --limit 0")[1]
    kinds = look(core, "types --owners --limit 0")[1]
    assert NOTHING in kinds
    assert NOBODY not in kinds
    report = ask_whole(core, "report --owners")["held"]
    assert report["lost_bytes"] == seen.lost
    assert "tab" in {each["name"] for each in report["owners"]}
    # beside the report, which looks again
    _, again = beside_each_other(core, ["report --owners", "owners --limit 0"])
    assert blocks_of(again).items() >= {"tab": 5, "chain": 5, "unreached": 5}.items()
