"""The screens and pictures in README and docs are what the tool prints today, numbers aside."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from doors import ROOT
from platforms import HOST


def shown_release() -> str:
    """Of the glibc that the screens show: what it leaves where, and which causes there are, differs by release."""
    pages = (ROOT / "docs" / "case-studies").glob("*.md")
    (release,) = {found for page in pages for found in re.findall(r"; glibc (2\.\d+)$", page.read_text(), re.MULTILINE)}
    return release


@pytest.mark.full
@pytest.mark.xdist_group("stories")
@pytest.mark.skipif(HOST.release != shown_release(), reason=f"the screens show glibc {shown_release()}")
def test_screens_are_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "stories.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=560,  # on a machine that is busy otherwise; 25 s of one processor
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr


PAGES = [each for each in sorted((ROOT / "docs").rglob("*.md")) if "<!-- run: " in each.read_text()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_columns_and_rows_that_the_text_names_are_on_its_screens(page: Path) -> None:
    text = page.read_text()
    screens = "\n".join(re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for names in re.findall(
        r"\b(?:columns?|rows?)(?:\s+from)?\s+((?:`[^`]+`(?:,\s+|\s+and\s+)?)+)", prose, re.IGNORECASE
    ):
        for name in re.findall(r"`([^`]+)`", names):
            assert re.search(rf"(?:^|  ){re.escape(name)}(?:  |$)", screens, re.MULTILINE), name
