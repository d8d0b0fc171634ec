"""debian/: built and installed on bare machines, by scripts/newcomer.sh; and what it repeats of other files."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from looks import completed
from platforms import needs_a_checkout

from arenascope.base.about import __version__

ROOT = Path(__file__).resolve().parents[2]


def test_the_package_has_the_program_s_version() -> None:
    first = (ROOT / "debian" / "changelog").read_text().splitlines()[0]
    assert re.findall(r"^arenascope \((.*?)\)", first) == [__version__]


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.needs_root
@pytest.mark.needs_network
@pytest.mark.timeout(1200)
@pytest.mark.xdist_group("newcomer")
def test_the_package_is_built_and_installed_on_bare_machines() -> None:
    """debian/try-installed uses both doors, the man page and completion there, and removes the package."""
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        pytest.skip("a bare machine is made by root with debootstrap")
    needs_a_checkout(ROOT)
    words = ["scripts/newcomer.sh", "--package", "trixie"]
    done = completed(*words, status=None, cwd=ROOT, timeout=1150, env=os.environ)
    if "nothing was tried" in done.stderr:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\./try-installed: exit 0 ", done.stdout)
