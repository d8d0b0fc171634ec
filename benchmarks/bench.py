"""All that docs/speed.md says, in one run: `make bench` prints it, and with --write writes it there.

    make bench                                    heaps of 1 GB and 5 GB: ten minutes on an idle machine
    make bench BENCH_ARGS=--write                 the same, into docs/speed.md
    make bench BENCH_ARGS='--megabytes 50 --larger 0 --blocks 50 --rounds 1'

Every figure stands beside what it is measured against, in the same run: ratios hold better than seconds.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Iterator

import declared
import holds
import kinds
import large
import owners
import run
import save
import start
import sweep
import trim
from subject import ROOT, big

BEGIN, END = "<!-- bench -->\n", "<!-- /bench -->\n"


def tables(megabytes: int, larger: int, blocks: int, rounds: int) -> Iterator[str]:
    """`larger`: the size of a second heap, for holds and sweeps; 0: none. `blocks`: thousands, whose types are told."""
    cores = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = Path(name)
        with big(folder, megabytes) as subject:
            notes = subject.notes
            yield f"On {os.cpu_count()} processors, Python {platform.python_version()}, a heap of {megabytes:,} MB:"
            yield f"{notes['blocks_made']:,} blocks, of which {notes['blocks_freed']:,} were freed; {rounds} rounds."
            yield from ("", "For how long a live process stands still, in the shell:", "")
            yield from holds.table(subject.pid, rounds, folder)
            yield from ("", "Whole commands, and what of them is the command's own inside GDB (medians):", "")
            yield from run.table(run.measure(run.Bench(subject, folder), rounds))
            yield from ("", "A copy of the process, which may be asked for as long as one likes:", "")
            yield from save.table(subject.pid, folder, rounds)
        cores.append((subject, megabytes))
        if larger:
            yield from ("", "Every command on a larger one, live and on its core, with the goals for holds:", "")
            with big(folder, larger) as subject:
                yield from large.lines(f"{larger:,} MB", large.heap_of(subject.pid), large.looks(subject.pid, folder))
                own = run.Bench(subject, folder).own("live")
            cores.append((subject, larger))
            yield ""
            yield f"In GDB, alone: {', '.join(f'{name} {seconds:.2f} s' for name, seconds in own.items())}."
        yield ""
        yield "The whole heap of a core, against a C program that does the least any tool could do: map it and follow"
        yield "the size headers. The shell's figures have the start of Python in them."
        yield ""
        yield from sweep.table((sweep.Subject(folder, *each) for each in cores), rounds)
    yield from (
        "",
        f"The start of the shell, of which a look at a core of {start.SMALL} MB has the rest of its modules:",
        "",
    )
    yield from start.table(max(rounds, 10))
    yield from ("", "What the blocks are, against the sweep alone, on a heap as C++ programs have it:", "")
    yield from kinds.table(blocks, 0, rounds)
    yield from ("", "Names by debug information, on a C and a C++ program of the tests:", "")
    yield from declared.table(min(blocks, 1000), rounds)
    yield from ("", "Whose it is, against the sweep alone, where every block has thirty pointers to others:", "")
    yield from owners.table(max(1, blocks // 10), rounds)
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
    parser.add_argument("--larger", type=int, default=5000, help="megabytes of a second heap; 0: none")
    parser.add_argument(
        "--blocks", type=int, default=2500, help="thousands of blocks, for types; a tenth of them for owners"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", nargs="?", type=Path, const=ROOT / "docs" / "speed.md", help="into that page")
    options = parser.parse_args()
    lines = []
    for line in tables(options.megabytes, options.larger, options.blocks, options.rounds):
        print(line, flush=True)
        lines.append(f"{line}\n")
    if options.write is not None:
        options.write.write_text(into(options.write.read_text(), "".join(lines)))
        sys.stderr.write(f"{options.write} has it now\n")


if __name__ == "__main__":
    main()
