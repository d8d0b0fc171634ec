"""Names in programs that were built in other ways than the fixtures are: for 32 bits, and as the linker optimises (how
debug information is packed: test_types_by_engine.py)."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest
from doors import GDB, Live
from looks import give_up
from shell_door import SHELL
from sites import SOURCES, Sited, compare, sizes_of
from subjects import Started
from test_names import names_in
from test_truth import ARGUMENTS

pytestmark = pytest.mark.xdist_group("other builds")
SITED = ("-g", "-fno-optimize-sibling-calls", "-fno-crossjumping", "-fno-ipa-icf", "-pthread", "-O2")
C = (
    "gcc",
    "-std=gnu11",
    "-D_GNU_SOURCE",
    *(f"-fno-builtin-{each}" for each in ("malloc", "calloc", "realloc", "free")),
)
CXX = ("g++", "-std=gnu++17")
PROGRAM = {
    "daemon": (*C, "daemon.c"),
    "idioms": (*C, "idioms.c"),
    "idioms.cc": (*CXX, "idioms.cc"),
    "server": (*CXX, "server.cc"),
}
LEAST = {"daemon": 0.97, "idioms": 0.6, "idioms.cc": 0.8}


MULTIARCH = "x86_64-linux-gnu"
NARROW = ("-m32", "-idirafter")


@pytest.mark.full
@pytest.mark.parametrize("program", ["daemon", "server"])
def test_32_bits_have_the_same_names(program: str, tmp_path: Path) -> None:
    """As often as the same program of 64 bits, of which it is known that none is wrong: the log of sites has these."""
    *compiler, source = PROGRAM[program]
    found = []
    for width, flags in (("64", ()), ("32", (*NARROW, f"/usr/include/{MULTIARCH}"))):
        built = tmp_path / width
        words = [*compiler, *SITED, *flags, "-o", str(built), str(SOURCES / source)]
        done = subprocess.run(words, capture_output=True, text=True)
        if width == "32" and done.returncode:
            give_up("gcc cannot build for 32 bits: libc6-dev-i386 is not installed")
        assert done.returncode == 0, done.stderr
        with Started(built, *ARGUMENTS[program]) as process:
            assert process.said.split() == ["ready", str(process.pid)]
            names = names_in(GDB, Live(process.pid, built), tmp_path)
            assert names_in(SHELL, Live(process.pid, built), tmp_path) == names
        found.append(Counter(name for name, _ in names.values()))
    assert found[0] == found[1]
    assert sum(found[0].values()) > 5000


@pytest.mark.full
@pytest.mark.parametrize("program", LEAST)
def test_no_name_is_wrong_where_the_linker_optimises(program: str, tmp_path: Path) -> None:
    *compiler, source = PROGRAM[program]
    built = tmp_path / f"{program}.O2"
    words = [*compiler, *SITED, "-flto", "-o", str(built), str(SOURCES / source)]
    subprocess.run(words, check=True, cwd=tmp_path, capture_output=True)
    sited = Sited(built, tmp_path, *ARGUMENTS[program])
    try:
        expected = sited.expected()
        names = names_in(GDB, Live(sited.pid, built), tmp_path)
        assert names_in(SHELL, Live(sited.pid, built), tmp_path) == names
    finally:
        sited.end()
    sizes = sizes_of(built, {each.type for each in expected.values() if each.type})
    found = compare({address: name for address, (name, _) in names.items()}, expected, sizes)
    assert found.wrong == []
    assert found.typed >= LEAST[program]
