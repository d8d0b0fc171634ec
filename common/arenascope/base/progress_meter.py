"""Reports the progress of long walks."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Callable, Iterable, Iterator, Protocol, TypeVar


class Meter(Protocol):
    """Reports the progress of a long walk, to be shown or not."""

    def advance(self, amount: int) -> None:
        """Counts so many more bytes as done."""


MakeMeter = Callable[[str, int], "AbstractContextManager[Meter]"]
"""Makes a meter from (what is done, how many bytes in all)."""


class Unseen:
    def advance(self, amount: int) -> None:
        pass


def unseen(what: str, total: int) -> AbstractContextManager[Meter]:
    return nullcontext(Unseen())


class HasBytes(Protocol):
    @property
    def bytes(self) -> int: ...


Part = TypeVar("Part", bound=HasBytes)


def metered(parts: Iterable[Part], meter: Meter) -> Iterator[Part]:
    """Yields the same pieces; each counts once its consumer is done with it."""
    for part in parts:
        yield part
        meter.advance(part.bytes)
