"""fixtures/types/: a program of C++, C and a library that prints where its variables lie and how its types are laid
out; built in each way that changes debug information."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from looks import ROOT, give_up
from subjects import Subject

SOURCES = ROOT / "fixtures" / "types"


class Build(NamedTuple):
    """How it is compiled."""

    name: str
    flags: Sequence[str]
    compiler: str = "gcc"

    @property
    def inlines(self) -> bool:
        return "-O0" not in self.flags

    def make(self, folder: Path) -> Path:
        """Compiled in its own folder, where split debug information stays."""
        if shutil.which(self.compiler) is None:
            give_up(f"{self.compiler} is not installed")
        other = {"gcc": "g++", "clang": "clang++"}[self.compiler]
        flags = [*self.flags, "-w", f"-I{SOURCES}", "-D_GNU_SOURCE"]
        library, program = folder / "liblibrary.so", folder / "program"
        _run(folder, self.compiler, *flags, "-fPIC", "-shared", "-o", library, SOURCES / "library.c")
        _run(folder, self.compiler, *flags, "-c", "-o", folder / "plain.o", SOURCES / "plain.c")
        _run(folder, other, *flags, "-std=gnu++17", "-c", "-o", folder / "program.o", SOURCES / "program.cc")
        objects = [folder / "program.o", folder / "plain.o", library]
        _run(folder, other, *flags, "-o", program, *objects, f"-Wl,-rpath,{folder}", "-pthread")
        return program


BUILDS = (
    Build("O0-dwarf5", ["-O0", "-g", "-gdwarf-5"]),
    Build("O2-dwarf4", ["-O2", "-g", "-gdwarf-4"]),
    Build("O1-split", ["-O1", "-g", "-gsplit-dwarf"]),
    Build("O2-compressed-no-pie", ["-O2", "-g", "-gz", "-no-pie", "-fno-pie"]),
    Build("clang-O0", ["-O0", "-g"], "clang"),
)


def _run(folder: Path, *words: object) -> None:
    done = subprocess.run([*map(str, words)], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Row(NamedTuple):
    """A line of declared.txt."""

    kind: str
    name: str
    rest: Sequence[str]

    @property
    def address(self) -> int:
        return int(self.rest[0], 16)


def rows_of(subject: Subject) -> dict[str, list[Row]]:
    rows = defaultdict(list)
    for line in (subject.folder / "truth" / "declared.txt").read_text().splitlines():
        kind, name, *rest = line.split("\t")
        rows[kind].append(Row(kind, name, rest))
    return rows


def text_of(answers: dict[str, Any], number: Any) -> str:
    """A type as declared.txt writes it."""
    if number is None:
        return "void"
    facts = answers["facts"][str(number)]
    if facts["form"] in ("pointer", "reference"):
        return text_of(answers, facts["target"]) + "*"
    if facts["form"] == "array":
        return f"{text_of(answers, facts['target'])}[{facts['length']}]"
    return facts["name"] or facts["form"]
