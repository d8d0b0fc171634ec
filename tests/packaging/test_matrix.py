"""docs/support-matrix.md claims no cell that the tests' own tables do not have."""

from __future__ import annotations

from pathlib import Path

import machine_table
import scenarios

PAGE = Path(__file__).resolve().parents[2] / "docs" / "support-matrix.md"
IMAGES = {"live": "live", "gcore": "gcore", "kernel core": "kernel", "emulator's core": "qemu-core", "gdb stub": "stub"}


def claimed() -> set[tuple[str, str, str, str, bool]]:
    """(release, machine, door, image, symbols) of every number on the page."""
    header, _, *rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    doors = [cell.strip() for cell in header.split("|")[4:-1]]
    found = set()
    for line in rows:
        release, machine, image, *cells = [cell.strip() for cell in line.split("|")[1:-1]]
        for door, cell in zip(doors, cells):
            for symbols, number in zip((True, False), cell.split(" / ")):
                if number != "-":
                    found.add((release, machine, door, IMAGES[image], symbols))
    return found


def test_every_cell_is_one_of_the_tests() -> None:
    views = [*scenarios.views(), *machine_table.views()]
    # the host's own release is another one elsewhere
    ours = {(view.release, view.machine, view.door, view.image, view.symbols) for view in views}
    assert len(claimed()) > 150
    platforms = {(release, machine) for release, machine, *_ in ours}
    # and so are the LLDBs that can be had
    there = {door for _, _, door, _, _ in ours}
    assert {cell for cell in claimed() if cell[:2] in platforms and cell[2] in there} <= ours
