"""What debug information names, in programs of which it is known what each block is: nothing wrongly, and how much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple, Optional

import pytest
from doors import GDB, Core, Image, Live
from looks import HERE, opened
from sites import PROGRAMS, Comparison, Sited, compare, sizes_of
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
    "orders": Least(0.97, 0.98, by_type=0.97),
    "idioms.rs": Least(0.88, 0.85, by_type=0.88),
    "pool": Least(0.97, 0.98, by_type=0.97),
    "pool.split": Least(0.97, 0.98, by_type=0.97),
    "server": Least(0.94, 0.98, by_type=0.94),
}
"""By type or, in C, by the member that leads there."""
EACH = [
    pytest.param(program, level, marks=[pytest.mark.full] * (level == "O1" or program in ("idioms.rs", "pool.split")))
    for program in LEAST
    for level in LEVELS
]


def names_in(image: Image, folder: Path, core: Optional[Path] = None) -> dict[int, tuple[str, bool]]:
    words = {"FOLDER": str(folder), "CORE": str(core) if core is not None else None}
    opened(GDB).do(image, [f"python import runpy; runpy.run_path({str(DRIVER)!r}, {words!r})"])
    found = json.loads((folder / "names.json").read_text())
    return {int(address): (name, certain) for address, (name, certain) in found.items()}


@pytest.mark.parametrize(("program", "level"), EACH)
def test_no_name_is_wrong(program: str, level: str, tmp_path: Path) -> None:
    """Certain or not, live and in a core; and as much has a name as was reached."""
    sited = Sited(PROGRAMS / f"{program}.{level}", tmp_path, *ARGUMENTS[program])
    try:
        expected = sited.expected()
        core = tmp_path / "core"
        live = names_in(Live(sited.pid, sited.program), tmp_path, core)
    finally:
        sited.end()
    sizes = sizes_of(sited.program, {each.type for each in expected.values() if each.type})
    for names in (live, names_in(Core(core, sited.program), tmp_path)):
        found: Comparison = compare({address: name for address, (name, _) in names.items()}, expected, sizes)
        assert found.wrong == []
        least = LEAST[program]
        assert found.typed + found.by_field >= least.named
        assert found.typed >= least.by_type
        assert found.typed_bytes_without_leaks >= least.bytes


def test_a_name_from_elsewhere_is_seen(tmp_path: Path) -> None:
    """Names that are moved by one block are wrong: the comparison sees it."""
    sited = Sited(PROGRAMS / "daemon.O0", tmp_path, *ARGUMENTS["daemon"])
    try:
        expected = sited.expected()
        names = names_in(Live(sited.pid, sited.program), tmp_path)
    finally:
        sited.end()
    addresses = sorted(names)
    moved = {here: names[there][0] for here, there in zip(addresses, addresses[1:])}
    assert len(compare(moved, expected, {}).wrong) > len(names) / 3
