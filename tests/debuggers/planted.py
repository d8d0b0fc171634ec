"""What fixtures/kinds.cc planted, and what its blocks are said to be."""

from __future__ import annotations

from pathlib import Path

from arenascope.base.model import Kind
from arenascope.blocks.name_all_blocks import live_kinds
from arenascope.session.session import Session

CLAIMING = ("c++", "control", "python", "gobject", "string", "vector", "node")
"""Kinds that say of a block what it is, not only what it looks like."""
GUESSED = (("c++", "Tailed"),)
"""Of two sizes as frequent: either may be what the block was before."""
MANY = 40
"""Blocks of each."""


def planted_by(folder: Path) -> dict[int, tuple[str, str]]:
    """(kind, type) of each block, by what malloc returned."""
    rows = [line.split("\t") for line in (folder / "kinds.txt").read_text().splitlines()]
    return {int(row[0], 16): (row[2], row[3]) for row in rows}


def kinds_by_block(session: Session) -> dict[int, Kind]:
    live = live_kinds(session)
    found = {live.blocks.starts[number]: live.kinds[kind] for number, kind in live.typed()}
    return {**found, **{user: live.kinds[kind] for user, kind in live.caches.items()}}


def is_right(planted: tuple[str, str], found: Kind) -> bool:
    kind, name = planted
    if kind == "-":
        return found.kind not in CLAIMING
    return (found.kind, found.name) == (kind, name)
