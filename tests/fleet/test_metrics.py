"""arenascope metrics: prometheus-client's own parsers read it, and the figures are the report's."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterable

import pytest
from lifetimes import dies_with_us
from looks import needs, plain_environment
from schemas import valid
from shell_door import ARENASCOPE, arenascope, begin
from subjects import Subject

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text


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
        self.process = begin("metrics", pid, "--listen", 0, *words, stdout=None, preexec_fn=dies_with_us())
        self.port = int(re.search(r"127\.0\.0\.1:(\d+)/metrics", self.process.stderr.readline()).group(1))

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        said = self.process.communicate(timeout=100)[1]
        assert (self.process.returncode, said) == (130, "arenascope: stopped\n")

    def get(self, path: str = "/metrics") -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
            return answer.read().decode()

    def samples(self) -> dict[tuple[str, str], float]:
        return samples(parse_text(self.get()))


def test_open_metrics_say_what_the_report_says() -> None:
    with Subject("hoard", "2", "12") as subject:
        report = valid(json.loads(arenascope("report", "--json", subject.pid).stdout))
        done = arenascope("metrics", subject.pid)
        rss = subject.rollup("Rss")
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
        arenascope("metrics", subject.pid, "--output", output)
    assert samples(parse_text(output.read_text()))["glibc_malloc_up", "bins"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["malloc.prom"]


def test_a_process_that_is_gone_is_down_and_not_zero() -> None:
    with Subject("bins") as subject:
        pid = subject.pid
    found = samples(parse_openmetrics(arenascope("metrics", pid, status=2).stdout))
    assert found == {("glibc_malloc_up", ""): 0}


def test_served_and_read_anew_at_each_scrape() -> None:
    with Subject("pinned", "main", "40") as subject, Serving(subject.pid) as serving:
        assert serving.samples()["glibc_malloc_part_bytes", "returnable"] > 39 << 20
        subject.send("trim")
        assert ("glibc_malloc_part_bytes", "returnable") not in serving.samples()


def test_scrapes_at_the_same_time_all_have_the_figures() -> None:
    """A process can be held by one of them only."""
    with Subject("hoard", "2", "12") as subject, Serving(subject.pid) as serving, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: serving.samples(), range(8)))
    assert [each["glibc_malloc_up", "hoard"] for each in answers] == [1] * 8
    assert all(each["glibc_malloc_arenas", "hoard"] == 3 for each in answers)


def test_metrics_are_served_on_loopback_alone() -> None:
    with Subject("bins") as subject, Serving(subject.pid) as serving, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", serving.port))


def test_ctrl_c_ends_it_whichever_thread_gets_the_signal() -> None:
    """The kernel takes another one than the main thread where that is just being traced."""
    with Subject("bins") as subject:
        serving = Serving(subject.pid)
        serving.get()
        threads = map(int, os.listdir(f"/proc/{serving.process.pid}/task"))
        looking = next(tid for tid in threads if tid != serving.process.pid)
        os.kill(looking, signal.SIGINT)
        try:
            assert serving.process.communicate(timeout=60)[1] == "arenascope: stopped\n"
        finally:
            serving.process.kill()
        assert serving.process.returncode == 130


def test_one_look_is_one_hold(tmp_path: Path) -> None:
    needs("strace")
    log = tmp_path / "log"
    with Subject("bins") as subject:
        done = subprocess.run(
            ["strace", "-f", "-qq", "-e", "trace=ptrace", "-o", str(log), *ARENASCOPE, "metrics", str(subject.pid)],
            capture_output=True,
            text=True,
            timeout=100,
            env=plain_environment(),
        )
    assert "glibc_malloc_parameter" in done.stdout, done.stderr
    assert len(re.findall(rf"PTRACE_SEIZE, {subject.pid},", log.read_text())) == 1


def test_the_series_of_a_process_that_ended_goes_on() -> None:
    with Subject("bins") as subject:
        serving = Serving(subject.pid)
        assert serving.samples()["glibc_malloc_up", "bins"] == 1
    with serving:
        assert serving.samples() == {("glibc_malloc_up", "bins"): 0}


@pytest.mark.parametrize("where", ["nowhere.invalid:0", "127.0.0.1:99999", "9911x", "\N{SUPERSCRIPT TWO}"])
def test_where_it_cannot_listen(where: str) -> None:
    done = arenascope("metrics", "1", "--listen", where, status=2)
    (line,) = done.stderr.splitlines()
    assert where in line
