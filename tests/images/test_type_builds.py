"""What fixtures/kinds.cc planted is told of every build: each compiler with each library, level, and file."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest
from looks import give_up, needs
from subjects import Subject
from test_types import CLAIMING, is_right, kinds_by_block, planted_by

from arenascope.cli.shell import How, ShellDoor
from arenascope.session.session import Session

SOURCE = Path(__file__).resolve().parents[2] / "fixtures" / "kinds.cc"
TOOLCHAINS = (("g++", "libstdc++"), ("clang++", "libstdc++"), ("clang++", "libc++"))
FORMS = {
    "symbols": ("-g",),
    "stripped": ("-s",),
    # names apart from code, as with every form of today's linkers
    "static": ("-s", "-static", "-pthread", "-Wl,-z,separate-code"),
}


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("toolchain", TOOLCHAINS, ids="-".join)
def test_every_build_is_told(toolchain: tuple[str, str], level: str, form: str, tmp_path: Path) -> None:
    compiler, library = toolchain
    needs(compiler)
    program = tmp_path / "kinds"
    with_library = ["-stdlib=libc++"] if library == "libc++" else []
    built = subprocess.run(
        [compiler, "-std=gnu++17", "-w", level, *with_library, *FORMS[form], "-o", program, SOURCE],
        text=True,
        capture_output=True,
        check=False,
    )
    if built.returncode and library == "libc++":
        give_up(f"no such libc++: {built.stderr.splitlines()[0]}")
    assert built.returncode == 0, built.stderr
    with Subject(str(program)) as subject:
        planted = planted_by(subject.folder / "truth")
        found = kinds_by_block(Session(ShellDoor(str(subject.pid), How("none", declared=False)).target()))
    assert len({what for what in planted.values() if what[0] != "-"}) >= 30
    missed = Counter((what, found[block]) for block, what in planted.items() if not is_right(what, found[block]))
    assert not [each for each in missed if each[1].kind in CLAIMING]
    assert sum(missed.values()) <= len(planted) // 20, missed
