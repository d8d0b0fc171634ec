"""The screens and pictures in README and docs are what the tool prints today, numbers aside."""

from __future__ import annotations

import re
import sys

import pytest
from doors import ROOT
from looks import completed
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
    # on a machine that is busy otherwise; 25 s of one processor
    completed(sys.executable, ROOT / "scripts" / "stories.py", "--check", timeout=560)
