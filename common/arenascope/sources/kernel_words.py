"""Words of a process that the kernel keeps and gives back."""

from __future__ import annotations

from typing import NamedTuple


class Watched(NamedTuple):
    """A file that an epoll instance watches, and the word that the kernel keeps for its events (epoll_data)."""

    epoll: int
    file: int
    data: int


class Timer(NamedTuple):
    """A POSIX timer, and the word that its signal brings (sigev_value)."""

    number: int
    data: int
