"""All that docs/speed.md says, in one run: `make bench` prints it, and with --write writes it there.

    make bench                                    heaps of 1 and 5 GB, 10 million blocks: ten minutes on an idle machine
    make bench BENCH_ARGS=--write                 the same, into docs/speed.md
    make bench BENCH_ARGS='--megabytes 50 --larger 100 --thousands 10 --rounds 1'

Every figure stands beside what it is measured against, in the same run: ratios hold better than seconds.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Iterator, Sequence

import blocks
import looks
import names
import run
import save
import start
import trim
from subject import ROOT, big

BEGIN, END = "<!-- bench -->\n", "<!-- /bench -->\n"


def tables(megabytes: int, larger: int, thousands: Sequence[int], rounds: int) -> Iterator[str]:
    yield f"On {os.cpu_count()} processors, Python {platform.python_version()}, {rounds} rounds. Every command:"
    yield ""
    yield from looks.table(larger, rounds)
    yield from ("", "Many small blocks:", "")
    yield from blocks.table(thousands, rounds)
    yield from ("", "Names by debug information, where that is there:", "")
    yield from names.table(thousands[0], rounds)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = Path(name)
        with big(folder, megabytes) as subject:
            notes = subject.notes
            yield ""
            yield f"A heap of {megabytes:,} MB, {notes['blocks_made']:,} blocks, {notes['blocks_freed']:,} freed:"
            yield "whole commands, and what of them is the command's own inside GDB (medians):"
            yield ""
            yield from run.table(run.measure(run.Bench(subject, folder), rounds))
            yield from ("", "A copy of the process, which may be asked for as long as one likes:", "")
            yield from save.table(subject.pid, folder, rounds)
    yield from ("", f"The start of the shell, and a look at a core of {start.SMALL} MB:", "")
    yield from start.table(max(rounds, 10))
    yield from ("", "`malloc_trim(0)` itself, by the process's own clock:", "")
    yield from trim.table(rounds, megabytes)


def into(page: str, lines: str) -> str:
    """The page with these between its two marks."""
    head, _, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not end:
        raise SystemExit("the page has no marks of the benchmark")
    return f"{head}{BEGIN}{lines}{END}{tail}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--larger", type=int, default=5000, help="megabytes of the heap that every command looks at")
    parser.add_argument("--thousands", type=int, nargs="*", default=[1000, 10_000], help="of small blocks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", nargs="?", type=Path, const=ROOT / "docs" / "speed.md", help="into that page")
    options = parser.parse_args()
    lines = []
    for line in tables(options.megabytes, options.larger, options.thousands, options.rounds):
        print(line, flush=True)
        lines.append(f"{line}\n")
    if options.write is not None:
        options.write.write_text(into(options.write.read_text(), "".join(lines)))
        sys.stderr.write(f"{options.write} has it now\n")


if __name__ == "__main__":
    main()
