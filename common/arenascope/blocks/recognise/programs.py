"""Blocks of well-known programs, by their structs' own words; each asked only where its program or library runs."""

from __future__ import annotations

from typing import Optional, Protocol, Sequence

from ...base.kinds import Kind
from .ground import Ground
from .sqlite import Sqlite


class Program(Protocol):
    """The structs of one program."""

    runs: bool

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        """Of a block of so many bytes; `head` is its beginning."""


def programs_in(ground: Ground) -> Sequence[Program]:
    if ground.memory.pointer_size != 8 or ground.memory.byte_order != "little":
        return ()
    every: Sequence[Program] = (Sqlite(ground),)
    return [each for each in every if each.runs]
