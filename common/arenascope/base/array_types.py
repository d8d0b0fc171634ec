"""What numpy's arrays are called in annotations: for type checkers alone, as numpy is optional."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Numbers = NDArray[numpy.integer]
    Flags = NDArray[numpy.bool_]
