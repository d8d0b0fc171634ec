"""What tests of metrics share: how they are asked for, and read by prometheus-client's own parsers."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from typing import Iterable

import pytest
from lifetimes import dies_with_us
from looks import ROOT, plain_environment

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

__all__ = ["COMMAND", "ENVIRONMENT", "Serving", "arenascope", "parse_openmetrics", "parse_text", "samples"]
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


class Serving:
    """arenascope metrics PID --listen, and what it answers."""

    def __init__(self, pid: int, *words: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "metrics", str(pid), "--listen", "0", *words],
            text=True,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            preexec_fn=dies_with_us(),
        )
        self.port = int(re.search(r"127\.0\.0\.1:(\d+)/metrics", self.process.stderr.readline()).group(1))

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        said = self.process.communicate(timeout=20)[1]
        assert (self.process.returncode, said) == (130, "arenascope: stopped\n")

    def get(self, path: str = "/metrics") -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
            return answer.read().decode()

    def samples(self) -> dict[tuple[str, str], float]:
        return samples(parse_text(self.get()))
