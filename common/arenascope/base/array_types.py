"""What numpy's arrays are called in annotations, for type checkers alone as numpy is optional; Python's own of them."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Numbers = NDArray[numpy.integer]
    Flags = NDArray[numpy.bool_]


def words_of(numbers: Numbers) -> array[int]:
    return array("Q", numbers.tobytes())
