"""arenascope metrics PID...: figures for Prometheus, as OpenMetrics text, by prometheus-client.

They are printed, written for a node exporter's textfile collector, or served. A scrape holds each process while it is
read.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from importlib import import_module
from typing import Any, Iterator, Mapping, NoReturn, Optional, Sequence

from ..analysis.compare_snapshots import Figure, figures_of
from ..base import optional_libraries
from ..base.errors import ArenascopeError, UsageError
from ..base.printable import one_line
from ..base.whole_file import FOR_ALL, write_whole
from ..commands.framework.arguments import argument, help_in, outline_of
from ..sources.live.proc_tables import born, name_of
from .several_subjects import figures
from .subjects import PID_OPTION, as_subject

PREFIX = "glibc_malloc"
ARENA_FIGURES = ("system_bytes", "used_bytes", "top_bytes", "resident_bytes", "trim_resident_bytes")
LAST_PORT = 65535
MAX_SERIES = 1000
"""The most series for a process: no monitoring should be given more."""


def run(options: argparse.Namespace) -> int:
    """Figures of processes for Prometheus (OpenMetrics): printed, into a file, or served.

    Takes processes only, no cores. A scrape holds each process while it is read. What cannot be read is down, and gives
    no figures.
    """
    if optional_libraries.load("prometheus_client") is None:
        raise ArenascopeError("prometheus-client is not installed", "pip install prometheus-client")
    for name in ("types", "owners"):
        number = getattr(options, name)
        if not 0 <= number <= MAX_SERIES:
            raise UsageError(f"--{name} {number} is no number of series for each process", f"0 to {MAX_SERIES}")
    collector = Collector(options.pids, options.types, options.owners)
    registry: Any = import_module("prometheus_client").CollectorRegistry()
    registry.register(collector)
    if options.listen:
        _serve(options.listen, registry)
    form = "prometheus_client.exposition" if options.output else "prometheus_client.openmetrics.exposition"
    text: bytes = import_module(form).generate_latest(registry)
    if options.output:
        write_whole(options.output, text, FOR_ALL)  # another user's exporter reads it
    else:
        sys.stdout.write(text.decode())
    return 2 if collector.failed else 0


OUTLINE = outline_of(
    *help_in(run),
    "metrics 1234 --output /var/lib/node_exporter/textfile/malloc.prom\nmetrics 1234 --listen 9911",
    argument("pids", metavar="PID", nargs="*", default=[], help="the processes"),
    PID_OPTION,
    argument(
        "--output", metavar="FILE", help="replace FILE at once, in the older text format that textfile collectors read"
    ),
    argument("--listen", metavar="[HOST:]PORT", help="serve them, on 127.0.0.1 unless HOST says otherwise"),
    argument(
        "--types",
        type=int,
        default=0,
        metavar="N",
        help="also the N types that hold the most: reads every chunk, and keeps a series for each type "
        "that was ever among them",
    ),
    argument("--owners", type=int, default=0, metavar="N", help="likewise, the N variables that keep the most"),
)


def _serve(address: str, registry: Any) -> NoReturn:
    """Serves the figures with prometheus-client's server until Ctrl-C."""
    host, _, typed = address.rpartition(":")
    if not (typed.isascii() and typed.isdigit() and len(typed) <= 5 and int(typed) <= LAST_PORT):
        raise UsageError(f"--listen {address} names no port", "--listen 9911, or --listen 0.0.0.0:9911")
    host, port = host.strip("[]") or "127.0.0.1", int(typed)
    where = f"[{host}]" if ":" in host else host
    try:
        started = import_module("prometheus_client").start_http_server(port, host, registry)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ArenascopeError(f"cannot listen on {where}:{port}: {why}") from error
    # releases before 0.20 return nothing: the port chosen for 0 stays unknown
    port = started[0].server_port if started else port
    sys.stderr.write(f"serving http://{where}:{port}/metrics, Ctrl-C ends it\n")
    sys.stderr.flush()
    while True:
        # Ctrl-C may arrive in a thread of the server, which does not wake this one
        time.sleep(1)


class _Subject:
    """A process that was named. A later process with the same pid is another one."""

    def __init__(self, pid: str) -> None:
        self.pid = pid
        self.name = ""
        self._started: Optional[int] = None
        self._is_here()

    def figures(self, types: bool, owners: bool) -> Optional[Mapping[str, Any]]:
        """The figures; None if the process has ended or cannot be read. It keeps its last name."""
        if not self._is_here():
            return None
        documents = figures(as_subject(self.pid), types, owners)
        return documents if "error" not in documents and self._is_here() else None

    def _is_here(self) -> bool:
        if not self.pid.isdecimal():
            return True
        try:
            started = born(int(self.pid))
        except OSError:
            return False
        if self._started is None:
            self._started = started
        if self._started != started:
            return False
        self.name = one_line(name_of(int(self.pid))) or self.name
        return True


class Collector:
    """Reads every process anew at each scrape, one after the other. Scrapes that overlap take turns, as only one can
    hold a process."""

    def __init__(self, pids: Sequence[str], types: int = 0, owners: int = 0) -> None:
        """`types` and `owners`: how many of each process."""
        self.subjects = [_Subject(pid) for pid in pids]
        self.types, self.owners = types, owners
        self.failed = False
        self._reading = threading.Lock()

    def collect(self) -> Sequence[Any]:
        with self._reading:
            return list(self._families())

    def _families(self) -> Iterator[Any]:
        core = import_module("prometheus_client.core")

        def gauge(name: str, text: str, labels: Sequence[str]) -> Any:
            return core.GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=["pid", "name", *labels])

        up = gauge("up", "1 where the process could be read", ())
        rss = gauge("rss_bytes", "Resident memory", ())
        parts = gauge("part_bytes", "Resident memory by what it is; the parts sum to rss", ("part",))
        arenas = {
            name: gauge(f"arena_{name}", f"{name} of an arena, as in arenascope arenas", ("arena",))
            for name in ARENA_FIGURES
        }
        count = gauge("arenas", "Number of arenas", ())
        thresholds = gauge("parameter", "mp_ as it stands", ("parameter",))
        types = gauge("type_bytes", "Bytes in use by type of block, of the largest", ("type",))
        owners = gauge("owner_bytes", "Bytes in use that one variable alone keeps, of the largest", ("owner",))
        self.failed = False
        for subject in self.subjects:
            documents = subject.figures(self.types > 0, self.owners > 0)
            who = [subject.pid, subject.name]
            up.add_metric(who, 0 if documents is None else 1)
            if documents is None:
                self.failed = True
                continue
            _add(rss, who, documents["report"]["rss_bytes"])
            for part in documents["report"]["parts"] or ():
                _add(parts, [*who, part["part"]], part["bytes"])
            rows = documents["arenas"]["arenas"] or ()
            _add(count, who, len(rows))
            for row in rows:
                for name, family in arenas.items():
                    _add(family, [*who, str(row["index"])], row[name])
            for param in documents["params"]["params"] or ():
                if param["name"] in ("mmap_threshold", "trim_threshold", "n_mmaps", "mmapped_mem"):
                    _add(thresholds, [*who, param["name"]], param["value"])
            for family, by, number in ((types, "type", self.types), (owners, "owner", self.owners)):
                for each in _largest(documents, by, number):
                    family.add_metric([*who, one_line(each.name)], each.value)
        asked = [*([types] if self.types else []), *([owners] if self.owners else [])]
        yield from (up, rss, parts, count, *arenas.values(), thresholds, *asked)


def _largest(documents: Mapping[str, Any], by: str, number: int) -> list[Figure]:
    """The largest figures of a kind; empty if none were asked for."""
    known = (each for each in figures_of(documents) if each.by == by and each.value is not None) if number else ()
    return sorted(known, key=lambda each: -(each.value or 0))[:number]


def _add(family: Any, labels: Sequence[str], value: object) -> None:
    """Adds a figure. An unknown one is left out: 0 would be wrong."""
    if value is not None:
        family.add_metric(labels, value)
