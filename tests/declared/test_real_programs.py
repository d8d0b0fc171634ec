"""Programs that nobody wrote for arenascope: what debug information names there is what their functions made."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Iterator, Mapping, NamedTuple, Sequence

import pytest
from documents import valued_types
from doors import GDB, Core, Image, Live
from looks import opened
from real_programs import ARIA2, DNSMASQ, LUA, NINJA, RealProgram, Standing
from sites import Expected, compare, sizes_of
from test_doors_agree import said_by_all
from test_names import names_in

pytestmark = [
    pytest.mark.full,
    pytest.mark.needs_network,
    pytest.mark.slow,
    pytest.mark.xdist_group("real programs"),
]


class Least(NamedTuple):
    typed: float
    """Of blocks."""
    names: int
    """Different ones."""
    unknown: float = 0.02
    """Of these at most nothing tells what they should be."""


LEAST = {
    "lua5.4": Least(0.60, 10),
    "ninja-build": Least(0.98, 20),
    "dnsmasq": Least(0.97, 4, 0.5),
    "aria2": Least(0.99, 50),
}
SAMPLE = 50


class Look(NamedTuple):
    real: RealProgram
    images: Sequence[Image]
    expected: Mapping[int, Expected]
    sizes: Mapping[str, int]


@pytest.fixture(scope="module", params=[pytest.param(each, id=each.source) for each in (LUA, NINJA, DNSMASQ, ARIA2)])
def look(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    folder = tmp_path_factory.mktemp("real")
    standing = Standing(request.param, folder)
    try:
        expected, core = standing.expected(), folder / "core"
        live = Live(standing.pid, standing.program)
        opened(GDB).do(live, [f"generate-core-file {core}"])
        sizes = sizes_of(standing.program, {each.type for each in expected.values() if each.type})
        yield Look(request.param, (live, Core(core, standing.program)), expected, sizes)
    finally:
        standing.end()


@pytest.mark.parametrize("image", [0, 1], ids=["live", "core"])
def test_no_name_is_wrong(look: Look, image: int, tmp_path: Path) -> None:
    """All blocks are compared, and enough of each name."""
    told = {address: name for address, (name, _) in names_in(GDB, look.images[image], tmp_path).items()}
    found = compare(told, look.expected, look.sizes)
    assert found.wrong == []
    least = LEAST[look.real.source]
    assert found.typed >= least.typed
    judged = Counter(name for address, name in told.items() if address in look.expected and look.expected[address].type)
    unknown = sum(not each.type for address, each in look.expected.items() if address in told)
    assert unknown <= least.unknown * len(told)
    assert sum(judged.values()) >= SAMPLE
    assert len(judged) >= least.names


def test_a_name_from_elsewhere_is_seen(look: Look, tmp_path: Path) -> None:
    """Names that are moved by one block are wrong: the comparison sees it."""
    told = names_in(GDB, look.images[0], tmp_path)
    addresses = sorted(told)
    moved = {here: told[there][0] for here, there in zip(addresses, addresses[1:])}
    assert len(compare(moved, look.expected, look.sizes).wrong) > len(told) / 10


@pytest.mark.parametrize("image", [0, 1], ids=["live", "core"])
def test_all_doors_say_the_same(look: Look, image: int) -> None:
    valued = valued_types(GDB, look.images[0])
    assert valued
    said_by_all(look.images[image], valued)
