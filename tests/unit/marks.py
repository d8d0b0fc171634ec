"""Values of a parameter that `make test` leaves to `make test-all`: they are marked `full`."""

from __future__ import annotations

from typing import Any, Iterable

import pytest


def in_full(*values: Any) -> list[Any]:
    """These values are in `make test-all` only."""
    return [pytest.param(value, marks=pytest.mark.full) for value in values]


def full_after(count: int, values: Iterable[Any]) -> list[Any]:
    """The first `count` of these are in `make test`, the others in `make test-all` only. A tuple is one value."""
    values = list(values)
    return [*values[:count], *in_full(*values[count:])]
