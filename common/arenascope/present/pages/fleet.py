"""The page of `fleet --html`."""

from __future__ import annotations

from typing import Sequence

from ...analysis.fleet_differences import Compared
from .fill_page import filled


def page(rows: Sequence[Compared], problems: Sequence[str]) -> bytes:
    facts = {"problems": problems, "rows": [row._asdict() for row in rows]}
    return filled("fleet", facts, f"Fleet: {len(rows):,} compared")
