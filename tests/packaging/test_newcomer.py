"""README's commands on a machine that has git and make alone, in short; `make newcomer` does all of it, on three.

And what scripts/setup.sh asks for at each of its levels.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETUP = "set -eu; for part in needs debian libraries; do . scripts/setup/$part.sh; done; "


def bash(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script, "bash", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


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
    assert needed("check") == needed("site") == {"python3", "python3-venv"}
    assert needed("runtime") == needed("check") | {"gdb", "gcc", "libc6-dev", "libc6-dbg"}
    assert needed("runtime") < needed("test") < needed("all")
    assert {"chromium", "java", "mariadb", "aarch64", "mimalloc"}.isdisjoint(needed("test"))


def test_a_level_that_is_none_is_refused() -> None:
    done = bash('scripts/setup.sh "$1"', "everything")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "setup: usage: scripts/setup.sh [--simulate] [python|check|site|runtime|test|all]\n"


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


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.needs_root
@pytest.mark.needs_network
@pytest.mark.timeout(1200)
@pytest.mark.xdist_group("newcomer")
def test_readme_s_commands_on_a_bare_machine() -> None:
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        pytest.skip("a bare machine is made by root with debootstrap")
    done = subprocess.run(
        ["scripts/newcomer.sh", "--short", "sid"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1150,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "newcomer: green on sid" in done.stdout
