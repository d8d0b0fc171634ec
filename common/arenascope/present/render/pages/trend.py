"""The page of `heap trend --html`."""

from __future__ import annotations

from typing import Mapping, Sequence

from .filled import filled


def page(keys: Mapping[str, object], labels: Mapping[str, str], problems: Sequence[str]) -> bytes:
    """Of the command's document: the page shows its figures and no others. `labels`: what parts are, in words."""
    return filled("trend", {**keys, "labels": labels, "problems": problems}, "what grew")
