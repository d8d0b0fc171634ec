"""arenascope metrics PID...: figures for Prometheus, as OpenMetrics text, through prometheus-client.

Printed, written for a node exporter's textfile collector, or served. A scrape holds each process while it is read.
"""

from __future__ import annotations

import argparse
import sys
import threading
from importlib import import_module
from typing import Any, Iterator, Sequence

from .errors import ArenascopeError, UsageError
from .fleet import document
from .render import optional
from .whole_file import write_whole

SUMMARY = "Figures of processes for Prometheus (OpenMetrics): printed, into a file, or served."
PREFIX = "glibc_malloc"
ARENA_FIGURES = ("system_bytes", "used_bytes", "top_bytes", "resident_bytes", "trim_resident_bytes")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="arenascope metrics", description=SUMMARY, allow_abbrev=False,
        epilog="examples:\n  arenascope metrics 1234 --output /var/lib/node_exporter/textfile/malloc.prom\n"
               "  arenascope metrics 1234 --listen 9911",
        formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    made.add_argument("pids", metavar="PID", nargs="+", help="the processes")
    made.add_argument("--output", metavar="FILE", help="write FILE whole or not at all, in the older text format that "
                                                       "textfile collectors read")  # fmt: skip
    made.add_argument("--listen", metavar="[HOST:]PORT", help="serve them, on 127.0.0.1 unless HOST says otherwise")
    return made


def run(words: Sequence[str]) -> int:
    options = parser().parse_args(words)
    client = optional.load("prometheus_client")
    if client is None:
        raise ArenascopeError("prometheus-client is not installed", "pip install prometheus-client")
    registry = client.CollectorRegistry(auto_describe=False)
    collector = Collector(options.pids)
    registry.register(collector)
    if options.listen:
        return _serve(options.listen, registry)
    form = "prometheus_client.exposition" if options.output else "prometheus_client.openmetrics.exposition"
    text: bytes = import_module(form).generate_latest(registry)
    if options.output:
        write_whole(options.output, text)
    else:
        sys.stdout.write(text.decode())
    return 2 if collector.failed else 0


def _serve(where: str, registry: Any) -> int:
    host, _, port = where.rpartition(":")
    if not port.isdigit():
        raise UsageError(f"--listen {where} names no port", "--listen 9911, or --listen 0.0.0.0:9911")
    try:
        server, _ = import_module("prometheus_client").start_http_server(int(port), host or "127.0.0.1", registry)
    except OSError as error:
        raise ArenascopeError(f"cannot listen on {where}: {error.strerror}") from error
    sys.stderr.write(f"serving http://{host or '127.0.0.1'}:{server.server_port}/metrics, Ctrl-C ends it\n")
    sys.stderr.flush()
    threading.Event().wait()
    return 0


class Collector:
    """Reads every process anew at each scrape, one after the other: two scrapes at once would hold it twice."""

    def __init__(self, pids: Sequence[str]) -> None:
        self.pids = pids
        self.failed = False
        self._one = threading.Lock()

    def describe(self) -> Sequence[Any]:
        # registering must not scrape
        return ()

    def collect(self) -> Iterator[Any]:
        with self._one:
            yield from self._families()

    def _families(self) -> Iterator[Any]:
        core = import_module("prometheus_client.core")

        def gauge(name: str, text: str, labels: Sequence[str]) -> Any:
            return core.GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=["pid", "name", *labels])

        up = gauge("up", "1 where the process could be read", ())
        rss = gauge("rss_bytes", "Resident memory", ())
        parts = gauge("part_bytes", "Resident memory by what it is; the parts sum to rss", ("part",))
        arenas = {name: gauge(f"arena_{name}", f"{name} of an arena, as in arenascope arenas", ("arena",))
                  for name in ARENA_FIGURES}  # fmt: skip
        count = gauge("arenas", "Number of arenas", ())
        thresholds = gauge("parameter", "mp_ as it stands", ("parameter",))
        self.failed = False
        for pid in self.pids:
            who = [pid, _name(pid)]
            report = document(pid)
            up.add_metric(who, 0 if "error" in report else 1)
            if "error" in report:
                self.failed = True
                continue
            _add(rss, who, report["rss_bytes"])
            for part in report["parts"]:
                _add(parts, [*who, part["part"]], part["bytes"])
            rows = document(pid, "arenas").get("arenas") or ()
            _add(count, who, len(rows))
            for row in rows:
                for name, family in arenas.items():
                    _add(family, [*who, str(row["index"])], row[name])
            for param in document(pid, "params").get("params") or ():
                if param["name"] in ("mmap_threshold", "trim_threshold", "n_mmaps", "mmapped_mem"):
                    _add(thresholds, [*who, param["name"]], param["value"])
        yield from (up, rss, parts, count, *arenas.values(), thresholds)


def _add(family: Any, labels: Sequence[str], value: object) -> None:
    """What is not known is left out: a 0 would be a lie."""
    if value is not None:
        family.add_metric(labels, value)


def _name(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""
