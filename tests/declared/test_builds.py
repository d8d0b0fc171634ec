"""Names in programs that were built in other ways than the fixtures are: as their debug information is packed, and as
the linker optimises."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from doors import GDB, Live
from sites import SOURCES, Sited, compare, sizes_of
from test_names import names_in
from test_truth import ARGUMENTS

pytestmark = pytest.mark.xdist_group("other builds")
WAYS = {
    "compressed": ("-gz",),
    "DWARF 4": ("-gdwarf-4",),
    "type units": ("-gdwarf-4", "-fdebug-types-section"),
    "split, DWARF 4": ("-gdwarf-4", "-gsplit-dwarf"),
    "linker": ("-flto",),
}
SITED = ("-g", "-fno-optimize-sibling-calls", "-fno-crossjumping", "-fno-ipa-icf", "-pthread", "-O2")
C = (
    "gcc",
    "-std=gnu11",
    "-D_GNU_SOURCE",
    *(f"-fno-builtin-{each}" for each in ("malloc", "calloc", "realloc", "free")),
)
PROGRAM = {"daemon": (*C, "daemon.c"), "idioms": (*C, "idioms.c"), "idioms.cc": ("g++", "-std=gnu++17", "idioms.cc")}
LEAST = {"daemon": 0.97, "idioms": 0.6, "idioms.cc": 0.8}
SHORT = [("linker", "idioms.cc")]
EACH = [
    pytest.param(way, program, id=f"{way}, {program}", marks=[pytest.mark.full] * ((way, program) not in SHORT))
    for way in WAYS
    for program in PROGRAM
]


@pytest.mark.parametrize(("way", "program"), EACH)
def test_no_name_is_wrong(way: str, program: str, tmp_path: Path) -> None:
    *compiler, source = PROGRAM[program]
    # its twin has the same code, and what addr2line can read (sites.py)
    built = tmp_path / f"{program}.split.O2"
    twin = tmp_path / f"{program}.O2"
    for to, flags in ((built, WAYS[way]), (twin, WAYS[way] if way == "linker" else ())):
        words = [*compiler, *SITED, *flags, "-o", str(to), str(SOURCES / source)]
        subprocess.run(words, check=True, cwd=tmp_path, capture_output=True)
    sited = Sited(built, tmp_path, *ARGUMENTS[program])
    try:
        expected = sited.expected()
        names = names_in(GDB, Live(sited.pid, built), tmp_path)
    finally:
        sited.end()
    sizes = sizes_of(twin, {each.type for each in expected.values() if each.type})
    found = compare({address: name for address, (name, _) in names.items()}, expected, sizes)
    assert found.wrong == []
    assert found.typed >= LEAST[program]
