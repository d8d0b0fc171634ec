"""Free chunks by their words alone, many at once: all of malloc's that a target may know besides its bytes.

Lists of free chunks are links, and each link would be a read of its own. Where a read costs a system call, a target
that knows where the chunks lie reads them together (sources/live/bulk_reads.py); whoever walks lists asks it for them
(glibc/free_chunk_places.py, glibc/all_bins.py).
"""

from __future__ import annotations

from array import array
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Protocol, Sequence

Words = tuple[int, int, int]
"""(size word, fd, bk) of a free chunk: no record, as there may be millions."""


class Nodes(Protocol):
    """The free chunks of a process that were found while it ran on, and are read again in bulk while it is held."""

    passed: set[int]
    """Where links led to that was no free chunk of the heaps then, and may be one later."""

    def __len__(self) -> int: ...
    def __contains__(self, chunk: int) -> bool: ...

    def node(self, chunk: int) -> Words:
        """Its words; MemoryReadError."""

    def add(self, chunk: int) -> Optional[Words]:
        """Reads one more, and keeps it; None where it cannot be read."""

    def add_many(self, chunks: Sequence[int]) -> Sequence[Optional[Words]]:
        """Reads some more, and keeps them; None for what cannot be read."""

    def add_rings(self, rings: Mapping[int, Followed], flags: int) -> None:
        """Keeps the chunks of these rings, by their bins, before any other; `flags` are in each size word."""

    def ring(self, head: int) -> Optional[Followed]:
        """The ring of that bin, where every word of it is as it was when it was added; None otherwise."""

    @property
    def read_nodes(self) -> ReadNodes: ...

    @property
    def read_pair(self) -> ReadPair: ...

    def read_many(self, chunks: Sequence[int]) -> Sequence[Optional[Words]]:
        """Some more; None for what cannot be read."""

    def read_again(self) -> Iterator[int]:
        """All of them; those that have changed. From now on they are answered from what was read."""

    def cut_short(self) -> None:
        """HoldOver came before all were read: of any other that is asked for, Unread."""


class Followed(NamedTuple):
    """What a bin's ring holds, in its order."""

    addresses: array[int]
    sizes: array[int]


class NodeWords(NamedTuple):
    """Words of many free chunks, in their order; 0 for what could not be read."""

    raws: Sequence[int]
    """Size words."""
    forward: Sequence[int]
    backward: Sequence[int]


ReadNodes = Callable[["array[int]"], NodeWords]
"""At each of these places the three words of a free chunk, in few system calls."""
ReadPair = Callable[[int, int], Sequence[int]]
"""At these two places the three words of a free chunk, of one after the other; 0 for what could not be read."""
