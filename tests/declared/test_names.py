"""What debug information names, in programs of which it is known what each block is: nothing wrongly, and how much."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Iterator, Mapping, NamedTuple, Sequence

import pytest
from doors import GDB, Core, Door, Gdb, Image, Live
from lldb_door import NEWEST_LLDB, Lldb
from looks import HERE, ROOT, opened, run
from shell_door import SHELL
from sites import PROGRAMS, Expected, Sited, compare, sizes_of
from test_truth import ARGUMENTS, LEVELS

pytestmark = pytest.mark.xdist_group("declared names")
DRIVER = HERE.parent / "declared" / "drive_names.py"


class Least(NamedTuple):
    """Shares of blocks, and of bytes without leaks."""

    named: float
    bytes: float
    by_type: float = 0.0


LEAST = {
    "daemon": Least(0.97, 0.98),
    "idioms": Least(0.85, 0.60),
    "idioms.cc": Least(0.90, 0.85, by_type=0.90),
    # of a static variable in a function that is nowhere but inlined clang tells where no debugger looks
    "idioms.libc++": Least(0.84, 0.88, by_type=0.84),
    "orders": Least(0.97, 0.98, by_type=0.97),
    "idioms.rs": Least(0.95, 0.95, by_type=0.95),
    "pool": Least(0.97, 0.98, by_type=0.97),
    "pool.split": Least(0.97, 0.98, by_type=0.97),
    "server": Least(0.94, 0.98, by_type=0.94),
}
"""By type or, in C, by the member that leads there."""
SHORT = {"orders": "O1", "server": "O2"}
"""The builds of `make test`."""
BUILDS = [
    pytest.param((program, level), id=f"{program}.{level}", marks=[pytest.mark.full] * (SHORT.get(program) != level))
    for program in LEAST
    for level in LEVELS
]
EACH_DOOR = [pytest.param(door, id=door.name) for door in (GDB, NEWEST_LLDB, SHELL)]


class Standing(NamedTuple):
    """A program that stands still, a core of it, and the truth."""

    program: str
    images: Sequence[Image]
    expected: Mapping[int, Expected]
    sizes: Mapping[str, int]


@pytest.fixture(scope="module", params=BUILDS)
def standing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    program, level = request.param
    folder = tmp_path_factory.mktemp("standing")
    sited = Sited(PROGRAMS / f"{program}.{level}", folder, *ARGUMENTS[program])
    try:
        expected, core = sited.expected(), folder / "core"
        opened(GDB).do(Live(sited.pid, sited.program), [f"generate-core-file {core}"])
        sizes = sizes_of(sited.program, {each.type for each in expected.values() if each.type})
        yield Standing(program, (Live(sited.pid, sited.program), Core(core, sited.program)), expected, sizes)
    finally:
        sited.end()


def names_in(door: Door, image: Image, folder: Path, **more: str) -> dict[int, tuple[str, bool]]:
    words = {"FOLDER": str(folder), **more}
    opened(door)
    if isinstance(door, Lldb):
        words_of = f"dict({words!r}, debugger=debugger)"
        steps = [{"python": f"import runpy; runpy.run_path({str(DRIVER)!r}, {words_of})"}]
        door.drive(door.look_at(image), steps)
    elif isinstance(door, Gdb):
        door.do(image, [f"python import runpy; runpy.run_path({str(DRIVER)!r}, {words!r})"])
    else:
        words["SUBJECT"] = str(image.pid if isinstance(image, Live) else image.path)
        statement = f"import runpy; runpy.run_path({str(DRIVER)!r}, {words!r})"
        run([sys.executable, "-c", statement], {"PYTHONPATH": str(ROOT / "common")})
    found = json.loads((folder / "names.json").read_text())
    return {int(address): (name, certain) for address, (name, certain) in found.items()}


@pytest.mark.parametrize("door", EACH_DOOR)
def test_no_name_is_wrong(standing: Standing, door: Door, tmp_path: Path) -> None:
    """Certain or not, live and in a core; and as much has a name as was reached."""
    for image in standing.images:
        names = names_in(door, image, tmp_path)
        found = compare({address: name for address, (name, _) in names.items()}, standing.expected, standing.sizes)
        assert found.wrong == []
        least = LEAST[standing.program]
        assert found.typed + found.by_field >= least.named
        assert found.typed >= least.by_type
        assert found.typed_bytes_without_leaks >= least.bytes


@pytest.mark.full
def test_a_name_from_elsewhere_is_seen(tmp_path: Path) -> None:
    """Names that are moved by one block are wrong: the comparison sees it."""
    sited = Sited(PROGRAMS / "daemon.O0", tmp_path, *ARGUMENTS["daemon"])
    try:
        expected = sited.expected()
        names = names_in(GDB, Live(sited.pid, sited.program), tmp_path)
    finally:
        sited.end()
    addresses = sorted(names)
    moved = {here: names[there][0] for here, there in zip(addresses, addresses[1:])}
    assert len(compare(moved, expected, {}).wrong) > len(names) / 3
