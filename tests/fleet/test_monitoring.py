"""What examples/ has for monitoring, against a real Prometheus: every query of the dashboard has an answer."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Iterator

import pytest
from lifetimes import dies_with_us
from looks import ROOT, give_up, needs
from shell_door import arenascope
from subjects import Subject
from test_metrics import Serving, parse_openmetrics, samples

EXAMPLES = ROOT / "examples"
DASHBOARD = EXAMPLES / "grafana-dashboard.json"
SECONDS = 100
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs: [{{job_name: malloc, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}]
"""


def queries() -> dict[str, str]:
    """By the panel's title, as the dashboard asks them with everything chosen."""
    chosen = {"$process": ".*", "$pid": ".*", "$__range": "1m"}
    found = {}
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            text = target["expr"]
            for name, value in chosen.items():
                text = text.replace(name, value)
            assert "$" not in text
            found[panel["title"]] = text
    return found


@pytest.mark.full
def test_types_only_when_asked() -> None:
    with Subject("sessions") as subject:
        plain = arenascope("metrics", subject.pid).stdout
        few = samples(parse_openmetrics(arenascope("metrics", subject.pid, "--types", "2").stdout))
        arenascope("metrics", subject.pid, "--types", "99999", status=2)
    assert "glibc_malloc_type_bytes" not in plain
    types = {name: value for (metric, name), value in few.items() if metric == "glibc_malloc_type_bytes"}
    assert len(types) == 2
    assert "Session" in types


@pytest.mark.full
def test_owners_only_when_asked() -> None:
    with Subject("busy") as subject:
        held = int((subject.folder / "truth" / "busy.txt").read_text().split()[0])
        few = samples(parse_openmetrics(arenascope("metrics", subject.pid, "--owners", "2").stdout))
    owners = {name: value for (metric, name), value in few.items() if metric == "glibc_malloc_owner_bytes"}
    assert len(owners) == 2
    assert owners["sessions"] == held


def test_the_dashboard_asks_for_what_there_is() -> None:
    with Subject("bins") as subject:
        text = arenascope("metrics", subject.pid, "--types", "3").stdout
    there = {family.name for family in parse_openmetrics(text)}
    asked = set(re.findall(r"glibc_malloc_\w+", "".join(queries().values())))
    assert asked <= there
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)


def left_out(asked: Any, taken: Any, where: str = "") -> Iterator[str]:
    """Where what came back is not what was given."""
    if isinstance(asked, dict) and isinstance(taken, dict):
        for key, value in asked.items():
            yield from left_out(value, taken.get(key), f"{where}/{key}")
    elif isinstance(asked, list) and isinstance(taken, list) and len(asked) == len(taken):
        for index, (one, other) in enumerate(zip(asked, taken)):
            yield from left_out(one, other, f"{where}/{index}")
    elif asked != taken:
        yield where


@pytest.mark.full
def test_grafanas_own_types_take_the_dashboard() -> None:
    """They are made from the server's own schema: what is not in it would be dropped in silence."""
    try:
        models = importlib.import_module("grafana_foundation_sdk.models.dashboard")
        plugins = importlib.import_module("grafana_foundation_sdk.cog.plugins")
        encoder = importlib.import_module("grafana_foundation_sdk.cog.encoder")
    except ImportError:
        give_up("grafana-foundation-sdk is not installed (Python 3.11 and later): make setup-all installs it")
    plugins.register_default_plugins()
    given = json.loads(DASHBOARD.read_text())
    taken = json.loads(encoder.JSONEncoder().encode(models.Dashboard.from_json(given)))
    # what a variable asks for is written once more by Grafana itself, beside its query
    assert [each for each in left_out(given, taken) if not re.fullmatch(r"/templating/list/\d/definition", each)] == []


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[tuple[Serving, str]]:
    """One that scrapes a process every second, and where it answers."""
    program = shutil.which("prometheus")
    if program is None:
        give_up("prometheus is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Subject("hoard", "2", "12") as subject, Serving(subject.pid, "--types", "3") as serving:
        (tmp_path / "prometheus.yml").write_text(CONFIG.format(port=serving.port))
        process = subprocess.Popen(
            [
                program,
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stderr=subprocess.DEVNULL,
            preexec_fn=dies_with_us(),
        )
        try:
            yield serving, f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def ask(where: str, query: str) -> list[dict[str, Any]]:
    try:
        with urllib.request.urlopen(
            f"{where}/api/v1/query?{urllib.parse.urlencode({'query': query})}", timeout=60
        ) as it:
            answer = json.loads(it.read())
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{query}: {error.read().decode()}") from error
    except OSError:
        return []  # it has not begun yet
    assert answer["status"] == "success", answer
    rows: list[dict[str, Any]] = answer["data"]["result"]
    return rows


@pytest.mark.full
def test_a_real_prometheus_answers_each_of_its_panels(prometheus: tuple[Serving, str]) -> None:
    _, where = prometheus
    missing = queries()
    deadline = time.monotonic() + SECONDS
    # a rate takes two scrapes
    while missing and time.monotonic() < deadline:
        missing = {title: query for title, query in missing.items() if not ask(where, query)}
        time.sleep(0.5)
    assert not missing
    (rss,) = ask(where, "sum(glibc_malloc_rss_bytes)")
    (parts,) = ask(where, "sum(glibc_malloc_part_bytes)")
    assert float(rss["value"][1]) == float(parts["value"][1]) > 20 << 20


@pytest.mark.full
def test_the_units_are_what_systemd_takes(tmp_path: Path) -> None:
    needs("systemd-analyze")
    for name in ("service", "timer"):
        shutil.copy(EXAMPLES / f"arenascope-metrics@.{name}", tmp_path / f"arenascope-metrics@x.{name}")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "arenascope-metrics@x.timer")],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    ours = [line for line in done.stderr.splitlines() if "arenascope-metrics" in line]
    assert (done.returncode, ours) == (0, []), done.stderr
