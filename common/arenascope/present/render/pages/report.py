"""The page of `heap report --html`."""

from __future__ import annotations

from typing import Mapping

from .filled import filled, title_of


def page(data: Mapping[str, object]) -> bytes:
    """`data`: the documents of several commands by their names, which the page shows, and what lies beside them."""
    return filled("report", data, title_of("heap report", data))
