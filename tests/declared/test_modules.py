"""A program that only declares a struct, of which each of its libraries has another by that name."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Iterator

import pytest
from doors import Door, Live
from subjects import Started
from test_names import EACH_DOOR, names_in

LIBRARY = """
#include <stdlib.h>
struct %(part)s { long numbers[5]; };
struct thing { struct %(part)s *part; %(rest)s };
static struct thing *last_of_%(part)s;
struct thing *make_%(part)s(void) {
    struct thing *made = calloc(1, sizeof *made);
    made->part = calloc(1, sizeof *made->part);
    return last_of_%(part)s = made;
}
void *part_of_%(part)s(struct thing *of) { return of->part; }
"""
PROGRAM = """
#include <stdio.h>
#include <unistd.h>
struct thing;
struct thing *make_left(void), *make_right(void), *first_left, *first_right;
void *part_of_left(struct thing *), *part_of_right(struct thing *);
int main(void) {
    first_left = make_left();
    first_right = make_right();
    make_left();
    make_right();
    printf("%p %p\\n", part_of_left(first_left), part_of_right(first_right));
    fflush(stdout);
    while (getchar() != EOF) {}
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modules")
    compiler = ("gcc", "-g", "-O0")
    for part, rest in (("left", "long a, b, c;"), ("right", "long others[3];")):
        (folder / f"{part}.c").write_text(LIBRARY % {"part": part, "rest": rest})
        words = [*compiler, "-shared", "-fPIC", "-o", f"lib{part}.so", f"{part}.c"]
        subprocess.run(words, check=True, cwd=folder)
    (folder / "main.c").write_text(PROGRAM)
    words = [*compiler, "-o", "program", "main.c", "-L.", "-lleft", "-lright", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(words, check=True, cwd=folder)
    return folder / "program"


@pytest.fixture(scope="module")
def running(program: Path) -> Iterator[tuple[int, int, int]]:
    """Its pid, and where it has a left and a right."""
    with Started(program) as process:
        left, right = (int(each, 16) for each in process.said.split())
        yield process.pid, left, right


@pytest.mark.parametrize("door", EACH_DOOR)
def test_a_declaration_is_completed_by_no_other_module(
    program: Path, running: tuple[int, int, int], door: Door, tmp_path: Path
) -> None:
    pid, left, right = running
    names = {at: name for at, (name, _) in names_in(door, Live(pid, program), tmp_path).items()}
    assert names.get(left) in (None, "left")
    assert names.get(right) in (None, "right")
    # what the libraries hold themselves
    assert {"thing", "left", "right"} <= {*names.values()}
