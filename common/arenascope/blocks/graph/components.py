"""Blocks that hang together: cycles folded into one, and what hangs on each that nothing else leads to."""

from __future__ import annotations

from array import array
from typing import Iterator, NamedTuple, Sequence

from ...engine import Buffer
from .edges import Graph


class Lump(NamedTuple):
    """A block that nothing of the others leads to, or the first of a cycle of which that is so."""

    head: int
    others: Sequence[int]
    """All that hangs on it, and on no head before it; of a cycle the rest as well."""


class Lumps:
    """Some of them, in order of their heads. A program that leaks loses millions of blocks, most of them alone: these
    take four bytes each."""

    def __init__(
        self, heads: Sequence[int], leading: Sequence[int], ends: Sequence[int], others: Sequence[int]
    ) -> None:
        self.heads = heads
        self._leading, self._ends, self._others = leading, ends, others

    def __len__(self) -> int:
        return len(self.heads)

    def hanging(self) -> Iterator[Lump]:
        """Those of more than one block."""
        begin = 0
        for head, end in zip(self._leading, self._ends):
            yield Lump(head, self._others[begin:end])
            begin = end

    def blocks(self) -> array[int]:
        return array("I", self.heads) + array("I", self._others)


def lumps(graph: Graph, nodes: Buffer, starts_only: bool = False) -> Lumps:
    """Every node once; they are in order. With `starts_only` pointers to insides do not count."""
    return Lumps(*graph.table.groups(nodes, starts_only))
