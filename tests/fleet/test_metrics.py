"""arenascope metrics: prometheus-client's own parsers read it, and the figures are the report's."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Iterable

import pytest
from looks import ROOT, plain_environment
from subjects import Subject

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

ENVIRONMENT = plain_environment()
COMMAND = (sys.executable, str(ROOT / "bin" / "arenascope"))


def arenascope(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True, timeout=100, env=ENVIRONMENT)


def samples(families: Iterable) -> dict[tuple[str, str], float]:
    """(metric, its own label, or the process's name): value."""
    found = {}
    for sample in (sample for family in families for sample in family.samples):
        own = next((value for name, value in sample.labels.items() if name not in ("pid", "name")), None)
        found[sample.name, own or sample.labels["name"]] = sample.value
    return found


def test_open_metrics_say_what_the_report_says() -> None:
    with Subject("hoard", "2", "12") as subject:
        report = json.loads(arenascope("report", "--json", subject.pid).stdout)
        done = arenascope("metrics", subject.pid)
        rss = subject.rollup("Rss")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("# EOF\n")
    found = samples(parse_openmetrics(done.stdout))
    assert found["glibc_malloc_up", "hoard"] == 1
    assert found["glibc_malloc_rss_bytes", "hoard"] == pytest.approx(rss, abs=16384)
    for part in report["parts"]:
        if part["part"] in ("live", "returnable", "thread_tops", "scraps"):
            assert found["glibc_malloc_part_bytes", part["part"]] == part["bytes"]
    assert found["glibc_malloc_arenas", "hoard"] == 3
    assert sum(value for (name, _), value in found.items() if name == "glibc_malloc_arena_system_bytes") > 20 << 20


def test_a_textfile_for_the_node_exporter(tmp_path: Path) -> None:
    output = tmp_path / "malloc.prom"
    with Subject("bins") as subject:
        assert arenascope("metrics", subject.pid, "--output", output).returncode == 0
    assert samples(parse_text(output.read_text()))["glibc_malloc_up", "bins"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["malloc.prom"]


def test_a_process_that_is_gone_is_down_and_not_zero() -> None:
    with Subject("bins") as subject:
        pid = subject.pid
    done = arenascope("metrics", pid)
    assert done.returncode == 2
    found = samples(parse_openmetrics(done.stdout))
    assert found == {("glibc_malloc_up", ""): 0}


def test_served_and_read_anew_at_each_scrape() -> None:
    with Subject("pinned", "main", "40") as subject:
        serving = subprocess.Popen([*COMMAND, "metrics", str(subject.pid), "--listen", "0"], stderr=subprocess.PIPE,
                                   text=True, env=ENVIRONMENT)
        try:
            port = re.search(r"127\.0\.0\.1:(\d+)/metrics", serving.stderr.readline()).group(1)
            address = f"http://127.0.0.1:{port}/metrics"

            def returnable() -> float:
                with urllib.request.urlopen(address, timeout=60) as answer:
                    found = samples(parse_text(answer.read().decode()))
                return found.get(("glibc_malloc_part_bytes", "returnable"), 0)

            assert returnable() > 39 << 20
            subject.send("trim")
            assert returnable() == 0
        finally:
            serving.send_signal(signal.SIGINT)
            assert serving.wait(20) == 130
