"""A stripped C++ program: the report names the class whose objects keep most, which no container tells."""

from __future__ import annotations

import subprocess
from pathlib import Path

from shell_door import ask, look
from subjects import Started

SOURCE = Path(__file__).with_name("classes_that_keep.cc")


def test_a_class_is_told_with_what_its_objects_keep(tmp_path: Path) -> None:
    program = tmp_path / "database"
    subprocess.run(["g++", "-O1", "-s", "-o", program, SOURCE], check=True)
    with Started(program) as process:
        subject = Path(str(process.pid))
        types = {row["type"]: row for row in ask(subject, "report")["types"]}
        statements = types["Statement"]
        assert (statements["blocks"], statements["retained_bytes"]) == (2000, int(process.said))
        assert statements["bytes"] < statements["retained_bytes"] / 10
        # 20 sessions keep all of that, too, but are too few to be the reason
        assert types["Session"]["retained_bytes"] > statements["retained_bytes"]
        first = look(subject, "report").out.splitlines()[0]
        assert "Statement" in first
        assert "2,000" in first
