"""Types of numpy's arrays for annotations (numpy is optional), and Python's own arrays of them."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Numbers = NDArray[numpy.integer]
    Flags = NDArray[numpy.bool_]


def words_of(numbers: Numbers) -> array[int]:
    """Returns them as an array, with one copy."""
    words = array("Q" if numbers.itemsize == 8 else "I")
    words.frombytes(numbers.ravel().view("u1").data)
    return words
