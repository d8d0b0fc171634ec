"""arenascope fleet: one command over many cores, on dask.distributed or Ray, into a folder of Parquet files; or over
processes of other hosts.

Started again it goes on with what is not done. A core that cannot be read, or that a worker dies of, becomes a row that
says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any, Iterable, Iterator, Optional, Sequence, TypeVar

from ...base import optional_libraries
from ...base.errors import ArenascopeError, TargetError, UsageError
from ...base.printable import one_line
from ...base.suggestions import with_suggestion
from ...base.whole_file import write_whole
from ...commands.all_commands import COMMAND_NAMES, find_command
from ...commands.framework.arguments import HELP, Group, Outline, argument, seconds
from ...present.formats.json import failure
from ...present.shared_text.text import count
from ..shell import typed_program
from .which_cores import Core, find_cores
from .worker import Result, Task

ENGINES = {"dask": "distributed", "ray": "ray"}
"""Each with the library that it is; the first that is there is taken."""
EVERY = 5.0
"""Seconds after which what is done is written, so that little is lost whatever happens."""
MAX_ROWS = 200
SECONDS = 300
"""For one host."""
PARTLY = "it could not be read whole"
T = TypeVar("T")
EXTRAS = "pip install 'arenascope[fleet]'"
OUTLINE = Outline(
    "One command over the cores of a fleet, or over processes of other hosts.",
    "Folders are gone through for cores. Of a core at s3://, gs://, http:// or whatever else fsspec knows, a "
    "worker fetches the parts that the command reads, or all of it if it is packed or the store gives no parts; it "
    "keeps none of it. Started again with the same --output it goes on with what is not done, or has changed "
    "since. A core that cannot be read, or that a worker dies of, is a row whose `error` says so. Cores take "
    "dask.distributed or Ray. With --via, the processes named are looked at on each of these hosts, always anew: "
    "`ssh HOST`, `kubectl exec -i POD --`, or what else runs a command there and passes on its input and output. "
    "It takes Python 3.9 or newer there, and the right to look at the process. The program is sent along, stays in "
    "memory, and leaves nothing behind.",
    "fleet /cores --output reports/\nfleet s3://bucket/cores/ --engine ray --address auto --output reports/\n"
    "fleet redis-server --via 'ssh web1' --via 'ssh web2' --html fleet.html",
    (
        Group(
            "options",
            (
                argument(
                    "cores",
                    metavar="CORE|FOLDER|URL|PID",
                    nargs="+",
                    help="what to look at, also patterns with *; with --via pids, names of processes, or paths there",
                ),
                argument(
                    "--via",
                    metavar="COMMAND",
                    action="append",
                    default=[],
                    help="a host, by the command that runs another one there (may be repeated); no shell sees it",
                ),
                argument(
                    "--seconds",
                    type=seconds,
                    default=SECONDS,
                    metavar="TIME",
                    help=f"with --via: how long one host may take ({SECONDS}s)",
                ),
                argument("--jsonl", action="store_true", help="also write one JSON document a line to standard output"),
                argument(
                    "--html",
                    metavar="FILE",
                    help="also write a page that says which differ from the others, and in what (of the reports)",
                ),
                argument(
                    "--output",
                    metavar="FOLDER",
                    help="where the Parquet files go: a folder or a URL (with --via it may be left out)",
                ),
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
    _check(options)
    table = _table(options.output) if options.output else None
    keep = Keep(options.asked, table, options.jsonl or not (table or options.html), paged=bool(options.html))
    try:
        if options.via:
            _look_at_hosts(options, keep)
        else:
            _look_at_cores(options, keep)
    finally:
        keep.flush()
    if options.html:
        _write_page(options.html, keep.paged)
    return 2 if keep.failed else 0


def _write_page(file: str, looked: Sequence[tuple[Core, Result]]) -> None:
    from ...analysis.fleet_differences import compared
    from ...present.pages.fleet import page

    reports = [{**result.document, "subject": core.url} for core, result in looked if result.document is not None]
    rows = compared(reports)
    shown = {row.subject for row in rows}
    problems = [f"{core.url}: {result.error or PARTLY}" for core, result in looked if core.url not in shown]
    data = page(rows, problems)
    write_whole(file, data)
    _say(f"{file}: {count(len(data), 'byte')}")


def _check(options: argparse.Namespace) -> None:
    if not (options.output or options.via):
        raise UsageError("--output names no folder for the Parquet files", "fleet CORE... --output reports/")
    if options.via and (options.engine or options.address or options.again):
        raise UsageError("--engine, --address and --again are for cores, and not with --via")
    if options.html and options.asked != "report":
        raise UsageError("--html compares reports", "leave out --command")
    if options.workers is not None and options.workers < 1:
        raise UsageError(f"--workers {options.workers} is no number of workers")
    if not options.seconds > 0:
        raise UsageError("--seconds must be more than 0")
    try:
        find_command(options.asked)
    except KeyError:
        hint = with_suggestion(options.asked, COMMAND_NAMES, "arenascope help all lists them")
        raise UsageError(f"there is no command {options.asked}", hint) from None


def _look_at_hosts(options: argparse.Namespace, keep: Keep) -> None:
    from . import via  # with what it takes to start and talk to programs

    for each in options.via:
        via.split(each)
    asked = via.Asked(Task(options.asked, typed_program()), options.cores, options.seconds)
    vias = list(dict.fromkeys(options.via))
    for looked in _shown(via.looks(vias, asked), len(vias), "host"):
        for core, result in looked:
            if result.error is not None:
                _say(f"{core.url}: {result.error}")
            keep.add(core, result)
    _say(f"{keep.number:,} looked at by way of {count(len(vias), 'host')}, {keep.failed:,} of them could not be read")


def _look_at_cores(options: argparse.Namespace, keep: Keep) -> None:
    engine = _engine(options.engine)
    cores = find_cores(options.cores)
    done = keep.table.done(again=options.again)
    due = [core for core in cores if core not in done]
    if len(due) < len(cores):
        keep.was_done(set(cores) - set(due))
        _say(f"{len(cores) - len(due):,} of {len(cores):,} cores were done before")
    if not due:
        return
    with engine(options.address, options.workers) as opened:
        for core, result in _shown(opened.results(Task(options.asked, typed_program()), due), len(due), "core"):
            keep.add(core, result)
    _say(f"{options.output}: {keep.number:,} of {len(due):,} looked at, {keep.failed:,} of them could not be read")


class Keep:
    """Where results go as they come."""

    def __init__(self, command: str, table: Any, lines: bool, *, paged: bool) -> None:
        self.table, self._command, self._lines = table, command, lines
        self._is_paged = paged
        self.paged: list[tuple[Core, Result]] = []
        """What a page is to tell of."""
        self.number = self.failed = 0
        self._last = time.monotonic()

    def add(self, core: Core, result: Result) -> None:
        self.number += 1
        self.failed += result.error is not None
        if self._is_paged:
            self.paged.append((core, result))
        if self._lines:
            missing = TargetError(str(result.error))
            told = result.document or {
                "subject": core.url,
                **failure(self._command, missing.id, str(missing)).to_dict(),
            }
            sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
            sys.stdout.flush()
        if self.table is not None:
            self.table.add(core, result)
            if time.monotonic() - self._last >= EVERY or self.number % MAX_ROWS == 0:
                self.flush()

    def was_done(self, cores: set[Core]) -> None:
        if self._is_paged:
            self.paged += self.table.results(cores)

    def flush(self) -> None:
        if self.table is not None:
            self.table.flush()
            self._last = time.monotonic()


def _shown(results: Iterable[T], total: int, unit: str) -> Iterator[T]:
    tqdm: Any = optional_libraries.load("tqdm") if sys.stderr.isatty() else None
    if tqdm is not None:
        yield from tqdm.tqdm(results, total=total, unit=unit, file=sys.stderr)
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
