#!/usr/bin/env python3
"""Writes docs/support-matrix.md from what `pytest --cells FILE` counted: `make matrix`. No cell says more than ran."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "support-matrix.md"
IMAGES = {"live": "live", "gcore": "gcore", "kernel": "kernel core", "qemu-core": "emulator's core", "stub": "gdb stub"}
HEAD = """# Support matrix

Made by `make matrix` from the tests that ran on {day}; do not edit. A number counts the tests that passed in that cell,
with libc's symbols / without them; each holds figures against what the process itself said (malloc_info, malloc_stats,
mallinfo, strace, page tables). `-` means that no test ran there. {failures}

Beside these, unit tests build heaps of every structure from glibc 2.17 to 2.44 in memory, for 64 and 32 bit, both byte
orders and pages of 4, 16 and 64 KiB, and of releases that do not exist ([how these are read](derivation.md)). What is
looked at is a process (live), a core by GDB (gcore) or by the kernel, one that QEMU wrote of its guest (emulator's
core), or a process behind a remote stub (gdb stub).

"""


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def page(cells: dict[str, dict[str, int]], day: str) -> str:
    rows: dict[tuple[str, str, str], dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    failed = 0
    for name, counts in cells.items():
        release, machine, door, image, symbols = name.split("|")
        failed += counts["failed"]
        if counts["passed"] or counts["failed"]:
            rows[release, machine, image][door][symbols] = counts["passed"]
    doors = sorted({door for row in rows.values() for door in row})
    text = HEAD.format(day=day, failures="None failed." if not failed else f"{failed} failed.")
    text += f"| glibc | machine | image | {' | '.join(doors)} |\n" + "| --- " * (3 + len(doors)) + "|\n"
    order = list(IMAGES)
    for key in sorted(rows, key=lambda key: (version(key[0]), key[1], order.index(key[2]))):
        release, machine, image = key
        row = [shown(rows[key].get(door)) for door in doors]
        text += f"| {release} | {machine} | {IMAGES[image]} | {' | '.join(row)} |\n"
    return text


def shown(counts: dict[str, int] | None) -> str:
    if not counts:
        return "-"
    return " / ".join(str(counts[name]) if counts.get(name) else "-" for name in ("symbols", "stripped"))


def main() -> int:
    counted = json.loads(Path(sys.argv[1]).read_text())
    PAGE.write_text(page(counted, date.today().isoformat()))
    print(f"wrote {PAGE.relative_to(ROOT)}: {len(counted)} cells")
    return 0


if __name__ == "__main__":
    sys.exit(main())
