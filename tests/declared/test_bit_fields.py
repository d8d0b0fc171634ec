"""Bit-fields have the values that the program itself reads of them, however the compiler says where they lie."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from shell_door import ask
from subjects import Started

SOURCE = Path(__file__).with_name("bit_fields.c")


@pytest.mark.parametrize("release", ["5", pytest.param("3", marks=pytest.mark.full)])
def test_bit_fields_have_the_values_that_the_program_reads(release: str, tmp_path: Path) -> None:
    """Until DWARF 3 a bit-field is counted from its unit's other end. A second block, with zeros, must not match."""
    program = tmp_path / "bit_fields"
    subprocess.run(["gcc", "-g", f"-gdwarf-{release}", "-O2", "-o", program, SOURCE], check=True)
    with Started(program) as process:
        conditions, live = process.said.strip().split(";"), Path(str(process.pid))
        assert len(conditions) == 12
        found = ask(live, "types", "--where", f"flags: {' and '.join(conditions)}")["where"]
        assert (found["objects"], found["matching_objects"], found["unknown_objects"]) == (2, 1, 0)
        # one wrong value of the twelve would be enough
        others = [f"{name} == {int(value) + 1}" for name, value in (each.split(" == ") for each in conditions)]
        found = ask(live, "types", "--where", f"flags: {' or '.join(others)}")["where"]
        assert found["matching_objects"] == 0
