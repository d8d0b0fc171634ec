"""arenascope fleet: one command over many cores, on dask.distributed or Ray, or over processes of other hosts.

Each document is a line of JSON. If a core cannot be read, or a worker dies of it, its line has the error.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import find_spec
from statistics import median_low
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, TypeVar

from ...analysis.compare_snapshots import JsonObject
from ...analysis.resident_parts import FREE, LIVE
from ...base import optional_libraries
from ...base.argv import ELF, is_url, with_suggestion
from ...base.errors import ArenascopeError, UsageError
from ...base.printable import one_line
from ...base.whole_file import write_whole
from ...commands.framework.arguments import argument, help_in, outline_of, seconds
from ...commands.framework.find_command import COMMAND_NAMES, find_command
from ...present.pages.fill_page import filled
from ...present.shared_text.lines_and_tables import count
from ...sources.core.core_at_url import load_fsspec, store_error_text, store_errors
from ...sources.core.open_core import FORMATS
from ..shell import typed_program
from . import via
from .schedulers import ENGINES


class ComparedFigure(NamedTuple):
    """A report compared with the others."""

    subject: str
    rss: Optional[int]
    used: Optional[int]
    free: Optional[int]
    trim: Optional[int]
    stranded: Optional[int]
    differs: Optional[str]
    """The part of memory furthest above the median of all reports measured alike; None if none is above it."""
    label: str
    above: int
    """The distance from that median."""
    median: int
    cause: str


def compared(documents: Sequence[JsonObject]) -> list[ComparedFigure]:
    """Compares the reports that have parts, the one furthest above a median first."""
    parts = {id(each): {part["part"]: part["bytes"] for part in each["parts"]} for each in documents if _counts(each)}
    by_measure: dict[object, list[Mapping[str, int]]] = {}
    for each in documents:
        if id(each) in parts:
            by_measure.setdefault(each["measure"], []).append(parts[id(each)])
    rows = [_compared(each, parts[id(each)], by_measure[each["measure"]]) for each in documents if id(each) in parts]
    return sorted(rows, key=lambda row: (-row.above, -(row.rss or 0), row.subject))


def _counts(document: JsonObject) -> bool:
    """Excludes incomplete reports: a part that seems small may be large."""
    return bool(document.get("parts")) and bool(document.get("complete")) and not document.get("error")


def _compared(document: JsonObject, parts: Mapping[str, int], others: Sequence[Mapping[str, int]]) -> ComparedFigure:
    medians = {name: median_low([each.get(name, 0) for each in others]) for name in parts}
    most = max(parts, key=lambda name: parts[name] - medians[name])
    above = max(0, parts[most] - medians[most])
    labels = {part["part"]: part["label"] for part in document["parts"]}
    return ComparedFigure(
        document["subject"],
        rss=document["rss_bytes"],
        used=sum(parts.get(name, 0) for name in LIVE),
        free=sum(parts.get(name, 0) for name in FREE),
        trim=parts.get("returnable"),
        stranded=parts.get("scraps"),
        differs=most if above else None,
        label=labels[most],
        above=above,
        median=medians[most],
        cause=next((each["cause"] for each in document["causes"]), ""),
    )


STARTS = (ELF, *(form.magic for form in FORMATS))
"""The first bytes of a core, or of a compressed one."""
SECONDS = 300
"""For one host."""
PARTLY = "it could not be read whole"
T = TypeVar("T")
EXTRAS = "pip install 'arenascope[fleet]'"


def run(options: argparse.Namespace) -> int:
    """One command over the cores of a fleet, or over processes of other hosts.

    Folders are gone through for cores. A core at s3://, gs://, http:// or whatever else fsspec knows is copied whole by
    the worker that looks at it, into a temporary file that it removes. Each document is a line of JSON on standard
    output. A core that cannot be read, or that a worker dies of, is a line with an `error`. Cores take dask.distributed
    or Ray. With --via, the processes named are looked at on each of these hosts: `ssh HOST`, `kubectl exec -i POD --`,
    or what else runs a command there and passes on its input and output. It takes Python 3.9 or newer there, and the
    right to look at the process. The program is sent along, stays in memory, and leaves nothing behind.
    """
    _check(options)
    documents = _of_hosts(options) if options.via else _of_cores(options)
    looked = failed = 0
    paged: list[JsonObject] = []
    for document in documents:
        looked += 1
        failed += document.get("error") is not None
        if options.jsonl or not options.html:
            sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
            sys.stdout.flush()
        if options.html:
            paged.append(document)
    way = f" by way of {count(len(set(options.via)), 'host')}" if options.via else ""
    _say(f"{looked:,} looked at{way}, {failed:,} of them could not be read")
    if options.html:
        _write_page(options.html, paged)
    return 2 if failed else 0


OUTLINE = outline_of(
    *help_in(run),
    "fleet /cores > fleet.jsonl\nfleet s3://bucket/cores/ --engine ray --address auto > fleet.jsonl\n"
    "fleet redis-server --via 'ssh web1' --via 'ssh web2' --html fleet.html",
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
    argument("--jsonl", action="store_true", help="with --html: write the documents to standard output, too"),
    argument(
        "--html",
        metavar="FILE",
        help="write a page that says which differ from the others, and in what (of the reports)",
    ),
    argument("--command", dest="asked", default="report", metavar="NAME", help="which command (report)"),
    argument("--engine", choices=tuple(ENGINES), help="which engine (the first that is installed)"),
    argument("--address", metavar="ADDRESS", help="its scheduler's; without it, this machine does it"),
    argument("--workers", type=int, metavar="N", help="worker processes on this machine (chosen automatically)"),
)


def _write_page(file: str, documents: Sequence[JsonObject]) -> None:
    rows = compared(documents)
    shown = {row.subject for row in rows}
    missing = [each for each in documents if each["subject"] not in shown]
    problems = [f"{each['subject']}: {each.get('error') or PARTLY}" for each in missing]
    facts = {"problems": problems, "rows": [row._asdict() for row in rows]}
    data = filled("fleet", facts, f"Fleet: {len(rows):,} compared")
    write_whole(file, data)
    _say(f"{file}: {count(len(data), 'byte')}")


def _check(options: argparse.Namespace) -> None:
    if options.via and (options.engine or options.address):
        raise UsageError("--engine and --address are for cores, and not with --via")
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


def _of_hosts(options: argparse.Namespace) -> Iterator[JsonObject]:
    for each in options.via:
        via.split(each)
    asked = via.HostTask(options.asked, typed_program(), options.cores, options.seconds)
    vias = list(dict.fromkeys(options.via))
    for documents in _shown(via.looks(vias, asked), len(vias), "host"):
        for document in documents:
            if document.get("error") is not None:
                _say(f"{document['subject']}: {document['error']}")
            yield document


def _of_cores(options: argparse.Namespace) -> Iterator[JsonObject]:
    engine = _engine(options.engine)
    # each once, in the order named
    cores = list(dict.fromkeys(core for word in options.cores for core in _cores_of(word)))
    with engine(options.address, options.workers) as opened:
        yield from _shown(opened.results(options.asked, typed_program(), cores), len(cores), "core")


def _cores_of(word: str) -> Iterator[str]:
    """Paths and URLs of the cores that a word names."""
    fsspec = load_fsspec()
    try:
        system, path = fsspec.url_to_fs(word)
        if any(mark in path for mark in "*?["):
            found = system.glob(path, detail=True)
            if not found:
                raise UsageError(f"nothing matches {word}")
            names = [name for name in sorted(found) if found[name]["type"] == "file"]
        elif system.info(path)["type"] != "directory":
            # keep the URL: it may say more than the path
            yield word if is_url(word) else path
            return
        else:
            names = [name for name in sorted(system.find(path)) if _begins_as_one(system, name)]
    except store_errors() as error:
        raise UsageError(f"cannot look into {word}: {store_error_text(error, word)}") from error
    yield from (system.unstrip_protocol(name) if is_url(word) else name for name in names)


def _begins_as_one(system: Any, path: str) -> bool:
    start: bytes = system.cat_file(path, start=0, end=max(map(len, STARTS)))
    return start.startswith(STARTS)


def _shown(results: Iterable[T], total: int, unit: str) -> Iterator[T]:
    tqdm: Any = optional_libraries.load("tqdm") if sys.stderr.isatty() else None
    if tqdm is not None:
        yield from tqdm.tqdm(results, total=total, unit=unit, file=sys.stderr)
    else:
        yield from results


def _engine(asked: Optional[str]) -> Any:
    for name in [asked] if asked else ENGINES:
        library, opened = ENGINES[name]
        if find_spec(library) is not None:
            return opened
    needs = " nor ".join(library for name, (library, _) in ENGINES.items() if asked in (None, name))
    raise ArenascopeError(f"{'no ' if asked else 'neither '}{needs} is installed", EXTRAS)


def _say(text: str) -> None:
    sys.stderr.write(f"{one_line(text)}\n")
