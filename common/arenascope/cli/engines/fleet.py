"""arenascope fleet: one command over many cores, on dask.distributed or Ray, into a folder of Parquet files.

Started again it goes on with what is not done. A core that cannot be read, or that a worker dies of, becomes a row that
says so.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Iterable, Iterator, Optional

from ...base import optional_libraries
from ...base.errors import ArenascopeError, UsageError
from ...base.printable import one_line
from ...base.suggestions import with_suggestion
from ...commands.all_commands import COMMAND_NAMES, find_command
from ...commands.framework.arguments import HELP, Group, Outline, argument
from ..shell import typed_program
from .which_cores import Core, find_cores
from .worker import Result, Task

ENGINES = {"dask": "distributed", "ray": "ray"}
"""Each with the library that it is; the first that is there is taken."""
EVERY = 5.0
"""Seconds after which what is done is written, so that little is lost whatever happens."""
MAX_ROWS = 200
EXTRAS = "pip install 'arenascope[fleet]'"
OUTLINE = Outline(
    "One command over the cores of a fleet, by dask.distributed or Ray, into Parquet.",
    "Folders are gone through for cores; what lies at s3://, gs://, hdfs:// and whatever else fsspec knows is copied "
    "to where a worker runs, and removed there. Started again with the same --output it goes on with what is not done, "
    "or has changed since. A core that cannot be read, or that a worker dies of, is a row whose `error` says so.",
    "fleet /cores --output reports/\nfleet s3://bucket/cores/ --engine ray --address auto --output reports/",
    (
        Group(
            "options",
            (
                argument("cores", metavar="CORE|FOLDER|URL", nargs="+", help="what to look at, also patterns with *"),
                argument("--output", metavar="FOLDER", help="where the Parquet files go: a folder or a URL"),
                argument("--command", dest="asked", default="report", metavar="NAME", help="which command (report)"),
                argument("--engine", choices=tuple(ENGINES), help="which engine (the first that is installed)"),
                argument("--address", metavar="ADDRESS", help="its scheduler's; without it, this machine does it"),
                argument(
                    "--workers", type=int, metavar="N", help="worker processes on this machine (chosen automatically)"
                ),
                argument("--again", action="store_true", help="also what could not be read the last time"),
                HELP,
            ),
        ),
    ),
)


def run(options: argparse.Namespace) -> int:
    if not options.output:
        raise UsageError("--output names no folder for the Parquet files", "fleet CORE... --output reports/")
    if options.workers is not None and options.workers < 1:
        raise UsageError(f"--workers {options.workers} is no number of workers")
    try:
        find_command(options.asked)
    except KeyError:
        hint = with_suggestion(options.asked, COMMAND_NAMES, "arenascope help all lists them")
        raise UsageError(f"there is no command {options.asked}", hint) from None
    engine = _engine(options.engine)
    table = _table(options.output)
    cores = find_cores(options.cores)
    done = table.done(again=options.again)
    due = [core for core in cores if core not in done]
    if len(due) < len(cores):
        _say(f"{len(cores) - len(due):,} of {len(cores):,} cores were done before")
    failed = 0
    if due:
        try:
            with engine(options.address, options.workers) as opened:
                failed = _keep(opened.results(Task(options.asked, typed_program()), due), table, len(due))
        finally:
            table.flush()
        _say(f"{options.output}: {table.rows:,} of {len(due):,} looked at, {failed:,} of them could not be read")
    return 2 if failed else 0


def _keep(results: Iterable[tuple[Core, Result]], table: Any, total: int) -> int:
    """How many could not be read."""
    failed, last = 0, time.monotonic()
    for number, (core, result) in enumerate(_shown(results, total), 1):
        table.add(core, result)
        failed += result.error is not None
        if time.monotonic() - last >= EVERY or number % MAX_ROWS == 0:
            table.flush()
            last = time.monotonic()
    return failed


def _shown(results: Iterable[tuple[Core, Result]], total: int) -> Iterator[tuple[Core, Result]]:
    tqdm: Any = optional_libraries.load("tqdm") if sys.stderr.isatty() else None
    if tqdm is not None:
        yield from tqdm.tqdm(results, total=total, unit="core", file=sys.stderr)
    else:
        yield from results


def _engine(asked: Optional[str]) -> Any:
    for name in [asked] if asked else ENGINES:
        if _is_there(ENGINES[name]):
            return _opener(name)
    needs = ENGINES[asked] if asked else " nor ".join(ENGINES.values())
    raise ArenascopeError(f"{'no ' if asked else 'neither '}{needs} is installed", EXTRAS)


def _opener(name: str) -> Any:
    if name == "dask":
        from . import by_dask

        return by_dask.open
    from . import by_ray

    return by_ray.open


def _table(where: str) -> Any:
    for library in ("pyarrow", "fsspec"):
        if not _is_there(library):
            raise ArenascopeError(f"{library} is not installed", EXTRAS)
    from .parquet_table import Table

    return Table(where)


def _is_there(library: str) -> bool:
    from importlib.util import find_spec

    return find_spec(library) is not None


def _say(text: str) -> None:
    sys.stderr.write(f"{one_line(text)}\n")
