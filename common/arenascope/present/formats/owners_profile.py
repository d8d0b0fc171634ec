"""The profile of `heap owners --pprof`: a stack for each node of the tree, the owner outermost."""

from __future__ import annotations

from typing import Sequence

from ...blocks.graph.holder_tree import Node
from .pprof import Sample, ValueType, profile

TYPES = (
    ValueType("blocks", "count"),
    ValueType("resident", "bytes"),
    ValueType("goes_back", "bytes"),
    ValueType("retained", "bytes"),
)


def profile_of(rows: Sequence[Node], comments: Sequence[str]) -> bytes:
    """pprof sums up what each node has itself. What is not known of the image is 0 there."""
    sums = [[each.retained_blocks, each.resident or 0, each.returns or 0, each.retained_bytes] for each in rows]
    own = [*sums]
    for at, row in enumerate(rows):
        if row.above >= 0:
            own[row.above] = [one - other for one, other in zip(own[row.above], sums[at])]
    names = list(dict.fromkeys(row.name for row in rows))
    numbers = {name: number for number, name in enumerate(names)}
    samples = []
    for at, values in enumerate(own):
        if any(values):
            stack = []
            node = at
            while node >= 0:
                stack.append(numbers[rows[node].name])
                node = rows[node].above
            samples.append(Sample(stack, values))
    return profile(names, TYPES, samples, comments)
