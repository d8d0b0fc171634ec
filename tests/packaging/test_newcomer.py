"""README's commands on a machine that has git and make alone, in short; `make newcomer` does all of it, on six.

And what scripts/setup.sh asks for at each of its levels.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from looks import completed
from platforms import needs_a_checkout

ROOT = Path(__file__).resolve().parents[2]
SETUP = "set -eu; for part in needs debian libraries; do . scripts/setup/$part.sh; done; "


def bash(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    return completed("bash", "-c", script, "bash", *words, status=None, cwd=ROOT, env=os.environ)


def needed(level: str) -> set[str]:
    lines = bash(
        SETUP + 'below=" $(levels "$1") "; needs | while read -r its rank need rest; do '
        '[[ "$below" != *" $its "* ]] || echo "$need"; done',
        level,
    ).stdout.split()
    assert lines, level
    return set(lines)


def test_each_target_asks_for_what_it_needs() -> None:
    assert needed("python") == {"python3"}
    assert needed("site") == {"python3", "python3-venv"}
    assert needed("check") - {"clippy", "rustfmt"} == needed("site") | needed("engine") == needed("site") | {"cargo"}
    assert needed("runtime") == needed("site") | {"gdb", "gcc", "libc6-dev", "libc6-dbg"}
    assert needed("runtime") | {"cargo"} < needed("test") < needed("all")
    assert {"chromium", "java", "mariadb", "aarch64", "mimalloc"}.isdisjoint(needed("test"))


@pytest.mark.skipif(not shutil.which("apt-cache"), reason="this is no Debian")
def test_packages_are_found_by_what_they_are_called_now(tmp_path: Path) -> None:
    """Of several the highest, and none that the archive only speaks of."""
    (tmp_path / "names").write_text("arenascope-none9\ng++\ngpp\npython3\npython3-venv\n")
    found = bash(
        SETUP + 'work=$1; shift; for each in "$@"; do packages_for "$each"; done',
        str(tmp_path),
        "arenascope-none[0-9]",
        r"g\+\+",
        "python3(-venv)?",
    ).stdout.splitlines()
    assert found == ["g++", "python3-venv", "python3"]


NO_INDEX = {**os.environ, "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_CONFIG_FILE": os.devnull}


@pytest.fixture
def offline(tmp_path: Path) -> Path:
    """A checkout without .venv, for a machine that has the packages and reaches no index of Python's."""
    needs_a_checkout(ROOT)
    lacking = bash(
        SETUP + "work=$1; needs | while read -r its rank need rest; do "
        '[[ " $(levels runtime) " != *" $its "* ]] || have "$need" || echo "$need"; done',
        str(tmp_path),
    ).stdout.split()
    if lacking:
        pytest.skip(f"not installed: {' '.join(lacking)}")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, os.fsdecode(files).split("\0")):
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, path)
    return tmp_path / "checkout"


def offline_run(checkout: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    return completed(*words, status=status, cwd=checkout, env=NO_INDEX)


@pytest.mark.full
def test_the_demo_asks_for_no_library(offline: Path) -> None:
    """They are named where no package index answers, and asked for again the next time."""
    for _ in range(2):
        done = offline_run(offline, "scripts/setup.sh", "runtime")
        assert "setup: libraries: " in done.stdout
    offline_run(offline, ".venv/bin/python", "-c", "import tabulate", status=1)


@pytest.mark.full
@pytest.mark.slow
def test_the_demo_where_no_package_index_answers(offline: Path) -> None:
    done = offline_run(offline, "make", "demo")
    assert "Next: source gdb/arena.py" in done.stdout


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.needs_root
@pytest.mark.needs_network
@pytest.mark.timeout(1200)
@pytest.mark.xdist_group("newcomer")
@pytest.mark.parametrize("suite", ["sid", "noble"])
def test_readme_s_commands_on_a_bare_machine(suite: str) -> None:
    needs_a_checkout(ROOT)
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        pytest.skip("a bare machine is made by root with debootstrap")
    words = ["scripts/newcomer.sh", "--short", suite]
    done = completed(*words, status=None, cwd=ROOT, timeout=1150, env=os.environ)
    if f"nothing was tried: no archive has {suite}" in done.stderr:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(f"^newcomer: .*{suite}", done.stdout, re.MULTILINE)
