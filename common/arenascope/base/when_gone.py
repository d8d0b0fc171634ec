"""What is to be done once an object is gone, or the program ends: that destroys no objects (__main__)."""

from __future__ import annotations

import weakref
from typing import Callable

_PENDING: list[weakref.finalize[..., object]] = []


def when_gone(owner: object, do: Callable[[], object]) -> None:
    _PENDING[:] = [each for each in _PENDING if each.alive]
    _PENDING.append(weakref.finalize(owner, do))


def before_exit() -> None:
    while _PENDING:
        _PENDING.pop()()
