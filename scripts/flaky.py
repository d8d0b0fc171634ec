#!/usr/bin/env python3
"""Runs the tests again and again and reports each run: `make flaky N=10`, `TARGET=test-all`, `LOAD=1`.

Addresses are random in every run. Under load, two busy processes for each core fight for it the whole time; one of each
two starts and ends others, so that pids run through, and whoever shares libc's pages comes and goes. What a run that
failed has printed is kept in build/flaky/: it may be a long time until that is seen again.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "flaky"
WORDS = ("passed", "failed", "error", "skipped")
BUSY = (
    "while True: pass",
    "import subprocess\nwhile True: subprocess.call('/bin/true')",
)


class Run(NamedTuple):
    seconds: float
    cpu_seconds: float
    counts: dict[str, int]
    failed: list[str]
    status: int
    printed: str


def children() -> float:
    spent = os.times()
    return spent.children_user + spent.children_system


def run(target: str, load: bool) -> Run:
    start, before = time.monotonic(), children()
    with ExitStack() as stack:
        for program in BUSY * len(os.sched_getaffinity(0)) if load else ():
            busy = subprocess.Popen([sys.executable, "-c", program])
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        done = subprocess.run(
            ["make", target],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
        )
        # what the load itself has used is counted only once it is waited for, below
        cpu = children() - before
    lines = done.stdout.splitlines()
    closing = next((line for line in reversed(lines) if re.search(r"\d+ \w+.* in [\d.]+s", line)), "")
    counts = {word: sum(map(int, re.findall(rf"(\d+) {word}", closing))) for word in WORDS}
    failed = [
        line.partition(" ")[2].partition(" - ")[0] for line in lines if line.startswith(("FAILED tests", "ERROR tests"))
    ]
    if not closing:
        print("\n".join(lines[-30:]))
    return Run(time.monotonic() - start, cpu, counts, failed, done.returncode, done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("times", type=int)
    parser.add_argument("--target", default="test", choices=("test", "test-all"))
    parser.add_argument("--load", action="store_true")
    options = parser.parse_args()
    print(f"make {options.target}, {options.times} times{', under load' if options.load else ''}")
    print("| run | seconds | CPU seconds | " + " | ".join(WORDS) + " |\n" + "| ---: " * (3 + len(WORDS)) + "|")
    failures: Counter[str] = Counter()
    status = 0
    for number in range(1, options.times + 1):
        one = run(options.target, options.load)
        failures.update(one.failed)
        status = status or one.status
        counts = " | ".join(str(one.counts[word]) for word in WORDS)
        print(f"| {number} | {one.seconds:.0f} | {one.cpu_seconds:.0f} | {counts} |", flush=True)
        # the table waits for nobody, whoever does need not wait for the table
        if one.status:
            KEPT.mkdir(parents=True, exist_ok=True)
            (KEPT / f"{options.target}-{int(time.time())}.log").write_text(one.printed)
        for name in one.failed:
            print(f"failed in run {number}: {name}", file=sys.stderr, flush=True)
    for name, times in failures.most_common():
        print(f"failed {times} of {options.times} times: {name}")
    return min(status, 1)


if __name__ == "__main__":
    sys.exit(main())
