"""docs/api.md: each recipe runs as it stands there, and every name that is exported is told of."""

from __future__ import annotations

import csv
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest
from looks import completed
from subjects import Subject

import arenascope

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "api.md").read_text()
PROGRAMS = {
    found[1]: found[0]
    for found in re.findall(r"^```python\n(# ([a-z_]+\.py)\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
}
pytestmark = pytest.mark.xdist_group("api")


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    with Subject("kinds") as subject:
        yield subject


def run(
    folder: Path, name: str, *words: object, program: str | None = None, status: int | None = 0
) -> subprocess.CompletedProcess[str]:
    file = folder / name
    file.write_text(program or PROGRAMS[name])
    runs = (
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)] if name.startswith("test_") else []
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "common")}
    return completed(sys.executable, *runs, file, *words, status=status, cwd=folder, env=environment)


def test_each_program_is_run_here() -> None:
    tests = Path(__file__).read_text()
    assert len(PROGRAMS) == len(re.findall(r"^## ", PAGE, re.MULTILINE)) - 1 == 5
    assert all(tests.count(f'"{name}"') for name in PROGRAMS)


def test_the_first_look(subject: Subject, tmp_path: Path) -> None:
    (first,) = [each for each in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S) if each.startswith("import")]
    done = run(tmp_path, "first.py", program=first.replace("1234", str(subject.pid)))
    assert len(done.stdout.splitlines()) == len(arenascope.open(subject.pid).arenas().arenas) + 1


@pytest.mark.full
def test_a_table(subject: Subject, tmp_path: Path) -> None:
    done = run(tmp_path, "types_table.py", subject.pid)
    for row in arenascope.open(subject.pid).types(limit=20).types:
        assert row.type in done.stdout
        assert str(row.bytes) in done.stdout


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    run(tmp_path, "test_leaves_nothing.py")
    leaky = PROGRAMS["test_leaves_nothing.py"].replace("import sys, threading", "import sys, threading; kept = []")
    leaky = leaky.replace('    print("done"', '    kept.append(bytearray(100000))\n    print("done"')
    run(tmp_path, "test_leaves_nothing.py", program=leaky, status=1)


def test_what_trim_would_give_back(subject: Subject, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    for _ in range(2):
        run(tmp_path, "trim_log.py", subject.pid, log)
    totals = arenascope.open(subject.pid).trim().totals
    for _, pid, resident, release, kept, complete in csv.reader(log.read_text().splitlines()):
        assert (pid, complete) == (str(subject.pid), "True")
        assert (int(resident), int(release), int(kept)) == (
            totals.resident_bytes,
            totals.release_bytes,
            totals.kept_bytes,
        )
    run(tmp_path, "trim_log.py", 1 << 30, log, status=1)


@pytest.mark.full
def test_two_looks(tmp_path: Path) -> None:
    growing = "import time\nkept = []\nwhile True: kept.append(bytearray(100000)); time.sleep(0.01)\n"
    with subprocess.Popen([sys.executable, "-c", growing]) as process:
        try:
            done = run(tmp_path, "grown.py", process.pid, 1)
        finally:
            process.kill()
    assert int(done.stdout.split()[0].replace(",", "")) > 1000000


@pytest.mark.full
def test_a_core_in_ci(tmp_path: Path) -> None:
    with Subject("corrupt", "overflow") as damaged:
        assert damaged.send("tick") == "ticked"
        done = run(tmp_path, "judge_core.py", damaged.gcore(), status=1)
    assert "damaged at" in done.stdout
    with Subject("cache") as sound:
        core = sound.gcore()
        done = run(tmp_path, "judge_core.py", core, status=None)
        lost = any(each["strength"] == "definite" for each in arenascope.open(core).leaks()["leaks"])
    assert done.returncode == int(lost), done.stdout + done.stderr


def test_every_name_is_told_of() -> None:
    section = PAGE.partition("## Names\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(arenascope.__all__)
    assert all(getattr(arenascope, name) is not None for name in arenascope.__all__)
    methods = re.search(r"A `Subject` has (.*?)\. They", section, re.DOTALL)[1]
    public = {name for name, _ in inspect.getmembers(arenascope.Subject) if name[0] != "_"}
    assert {*re.findall(r"`(\w+)`", methods)} == public - {"ask", "hold", "look"}
    options = re.search(r"Options, as in the shell: (.*?)\|", section)[1]
    # `jobs` is accepted and ignored
    assert {*re.findall(r"`(\w+)`", options)} == {*inspect.signature(arenascope.open).parameters} - {"subject", "jobs"}
