"""What a second worker brings `arenascope fleet`: many small cores, by one worker of dask.distributed and by two.

    python3 benchmarks/fleet.py                    200 cores; the machine should be idle for "seconds"
    python3 benchmarks/fleet.py --cores 40 --engine ray

Two answers. By the clock: how long from the first word to the last, less what a run over a single core takes, which is
the start of the cluster. By processors: what the busiest worker used, less the same of such a run; that is fair where
others use the machine, too. Then one of two workers is killed in the middle: each core has its line all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

from subject import ARENASCOPE, QUIET, WITH_US, running

FIXTURES = (("bins",), ("hoard", "2", "12"), ("random", "1"))
TICKS = os.sysconf("SC_CLK_TCK")
OFTEN = 0.02
"""Seconds from look to look at what workers use."""


class Run(NamedTuple):
    seconds: float
    busiest: float
    """Seconds of processors that the worker used which used most."""
    rows: int
    wrong: int


def make_cores(folder: Path, many: int) -> None:
    """A few processes' cores under many names: to whoever reads them each is another one."""
    made = []
    for number, (fixture, *words) in enumerate(FIXTURES):
        place = folder / f"truth{number}"
        place.mkdir()
        with running(fixture, place, *words) as process:
            subprocess.run(["gcore", "-o", str(folder / "made"), str(process.pid)], check=True, **QUIET)
            made.append(folder / f"made.{process.pid}")
    cores = folder / "cores"
    cores.mkdir()
    for number in range(many):
        os.link(made[number % len(made)], cores / f"core.{number}")


def below(pid: int) -> Iterator[int]:
    """Every process that it started, and those that they did."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from below(int(child))


def family(pid: int) -> list[int]:
    try:
        return list(below(pid))
    except OSError:
        return []  # one of them has just ended


def used(pid: int) -> Optional[float]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS


def reads(pid: int, cores: Path) -> bool:
    try:
        return any(os.readlink(each).startswith(f"{cores}/") for each in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def fleet(cores: Path, workers: int, engine: str, kill: bool = False) -> Run:
    """`kill`: one worker, once a fifth of what one alone would need is over."""
    words = ["fleet", str(cores), "--engine", engine, "--workers", str(workers)]
    started = time.perf_counter()
    told = cores.with_suffix(".jsonl")
    with told.open("w") as out:
        process = subprocess.Popen([*ARENASCOPE, *words], env=WITH_US, stdout=out, stderr=subprocess.DEVNULL)
    by_pid: dict[int, float] = {}
    killed = False
    while process.poll() is None:
        for pid in family(process.pid):
            now = used(pid)
            if now is not None:
                by_pid[pid] = now
            if kill and not killed and reads(pid, cores):
                os.kill(pid, signal.SIGKILL)
                killed = True
        time.sleep(OFTEN)
    seconds = time.perf_counter() - started
    rows = [json.loads(line) for line in told.read_text().splitlines()]
    if kill and not killed:
        raise SystemExit("no worker was seen at work: none was killed")
    return Run(
        seconds,
        busiest=max(by_pid.values(), default=0.0),
        rows=len({row["subject"] for row in rows}),
        wrong=sum(row.get("error") is not None for row in rows),
    )


def table(many: int, engine: str, folder: Path) -> Iterator[str]:
    make_cores(folder, many)
    few = folder / "few"
    few.mkdir()
    os.link(folder / "cores" / "core.0", few / "core.0")
    runs = {}
    for workers in (1, 2):
        start = fleet(few, workers, engine)
        whole = fleet(folder / "cores", workers, engine)
        runs[workers] = whole, whole.seconds - start.seconds, whole.busiest - start.busiest
    killed = fleet(folder / "cores", 2, engine, kill=True)
    yield f"| {many:,} cores, {engine} | seconds | less the start | busiest worker, processors | rows | gone wrong |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for workers, (whole, net, busiest) in runs.items():
        yield f"| {workers} | {whole.seconds:.1f} | {net:.1f} | {busiest:.1f} | {whole.rows} | {whole.wrong} |"
    yield f"| 2, one killed | {killed.seconds:.1f} | | | {killed.rows} | {killed.wrong} |"
    yield ""
    (_, one, alone), (_, two, together) = runs[1], runs[2]
    fair = alone / together
    yield f"Two workers: {one / two:.2f} times as fast by the clock, {fair:.2f} times by what the busiest uses."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, default=200)
    parser.add_argument("--engine", choices=("dask", "ray"), default="dask")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        for line in table(options.cores, options.engine, Path(name)):
            print(line, flush=True)
        shutil.rmtree(name, ignore_errors=True)


if __name__ == "__main__":
    main()
